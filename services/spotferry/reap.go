package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func instanceReapCommand(e *environment) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "reap [INSTANCE]...", Short: "End machines of ours that no lease wants", Args: cobra.ArbitraryArgs,
		Long: `Reap lists the machines that carry this installation's mark and that no lease wants,
with the reason, and ends them. They would be ended without it too, once it is certain
that nobody wants them. Machines without the mark, and those whose purchase is not
decided yet, are never listed and never touched.`,
		Example: "  spotferry instance reap --dry-run\n  spotferry instance reap i-0f3a --reason 'left over from the outage'\n  spotferry instance reap -y --reason 'all of them'",
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list them, with why")
	return actUnless(cmd, func() bool { return dry }, func(ctx context.Context, args []string, reason string) error {
		return e.reap(ctx, args, dry, reason)
	})
}

func (e *environment) reap(ctx context.Context, only []string, dry bool, reason string) error {
	l, err := e.connect(ctx, false)
	if err != nil {
		return err
	}
	defer l.Close()
	list, err := ask[[]console.Reapable](ctx, l, console.GetReapable, nil)
	if err != nil {
		return err
	}
	if list, err = among(list, only); err != nil {
		return err
	}
	if dry || len(list) == 0 {
		return e.show(reapableView(list))
	}
	p := e.aside()
	reapableView(list).page(p)
	if err := p.flush(); err != nil {
		return err
	}
	if err := e.confirm(ctx, "ending "+count(len(list), "machine"), fmt.Sprintf("End %s?", count(len(list), "machine"))); err != nil {
		return err
	}
	r := console.ReapRequest{Reason: reason}
	for _, m := range list {
		r.Instances = append(r.Instances, m.Instance)
	}
	asked, err := ask[[]console.Reapable](ctx, l, console.DoReap, r)
	if err != nil {
		return err
	}
	v := reapableView(asked)
	v.page = func(p *page) {
		p.line("Asked to end %s. '%s' lists what is left.", count(len(asked), "machine"), e.hint("instance", "ls"))
	}
	return e.show(v)
}

// among keeps the machines that were named, all of them if none was.
func among(list []console.Reapable, only []string) ([]console.Reapable, error) {
	if len(only) == 0 {
		return list, nil
	}
	var out []console.Reapable
	for _, name := range only {
		i := slices.IndexFunc(list, func(m console.Reapable) bool { return m.Instance == events.InstanceID(name) })
		if i < 0 {
			return nil, &failure{exit: exitNotFound, What: fmt.Sprintf("%.80q is no machine that can be reaped: it is gone, wanted, or not ours", name), Remedy: "'spotferry instance reap --dry-run' lists those that can"}
		}
		out = append(out, list[i])
	}
	return out, nil
}

func reapableView(list []console.Reapable) view {
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("No machine of ours is without a lease that wants it.")
			return
		}
		t := terminal.Table{Columns: terminal.Columns("INSTANCE", "POOL", "SELLER SAYS", ">PRICE/H", "WHY")}
		for _, m := range list {
			t.Row(string(m.Instance), m.Pool.String(), m.State, price(m.Price), m.Why)
		}
		p.table(t)
	}}
	for _, m := range list {
		v.names = append(v.names, string(m.Instance))
	}
	return v
}
