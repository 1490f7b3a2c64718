package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

func freezeCommand(e *environment) *cobra.Command {
	return act(&cobra.Command{
		Use: "freeze", Short: "Buy nothing more anywhere, at once", Args: args(0, 0),
		Long: `Freeze stops every new commitment: nothing is launched and no money is set aside for
a new machine, from the moment this command has answered. What runs goes on, and is
paid on as long as its budget bears it; nothing moves of its own accord. A job that
needs a machine, also because its own was taken, waits as 'waiting-frozen'.

A purchase whose order was on its way to its seller may still turn up; the answer names it.`,
		Example: "  spotferry freeze --reason 'price feed looks wrong, INC-42'\n  spotferry freeze --reason 'audit' -o json | jq .under_way",
	}, func(ctx context.Context, _ []string, reason string) error {
		o, err := once[console.Ops](ctx, e, false, console.DoFreeze, console.FreezeRequest{Reason: reason})
		if err != nil {
			return err
		}
		return e.showOps(o)
	})
}

func unfreezeCommand(e *environment) *cobra.Command {
	return act(&cobra.Command{
		Use: "unfreeze", Short: "Buy again", Args: args(0, 0),
		Long:    "Unfreeze ends a freeze. An operator can end their own, an admin any. Holds of sellers and pools stay.",
		Example: "  spotferry unfreeze --reason 'feed is right again'",
	}, func(ctx context.Context, _ []string, reason string) error {
		o, err := once[console.Ops](ctx, e, false, console.DoUnfreeze, console.FreezeRequest{Reason: reason})
		if err != nil {
			return err
		}
		return e.showOps(o, "Buying goes on.")
	})
}

// showOps shows what operations decided, after what was just done.
func (e *environment) showOps(o console.Ops, done ...string) error {
	return e.show(view{doc: o, names: holdNames(o), page: func(p *page) {
		for _, line := range done {
			p.line("%s", line)
		}
		if f := o.Freeze; f != nil {
			p.line("%s", frozenWords(f))
		}
		if n := len(o.UnderWay); n > 0 {
			p.line("Ordered before and not answered yet: %s. It may still turn up.", strings.Join(leaseNames(o.UnderWay), ", "))
		}
	}})
}

func frozenWords(f *console.Freeze) string {
	return fmt.Sprintf("Frozen by %s: %s. Nothing is bought; what runs goes on and is paid for.", f.By, strings.TrimSuffix(f.Reason, "."))
}

func holdNames(o console.Ops) []string {
	var out []string
	for _, h := range o.Holds {
		if h.Pool != nil {
			out = append(out, h.Pool.String())
			continue
		}
		out = append(out, h.Seller)
	}
	return out
}

func leaseNames(ids []events.LeaseID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// noteFreeze says beside a list that nothing is bought at all, if that is so.
func (e *environment) noteFreeze(ctx context.Context, l *link) error {
	o, err := ask[console.Ops](ctx, l, console.GetOps, nil)
	if err == nil && o.Freeze != nil {
		e.term.Note("%s", frozenWords(o.Freeze))
	}
	return err
}
