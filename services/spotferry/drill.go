package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

type drillOptions struct {
	noNotice bool
	deadline time.Duration
	detach   bool
}

func jobDrillCommand(e *environment) *cobra.Command {
	var o drillOptions
	cmd := &cobra.Command{
		Use: "drill JOB", Short: "Rehearse a failover: a real one, on demand, its cost shown first", Args: args(1, 1),
		Long: `Drill takes a running job's machine away on purpose, as its seller would: with a
notice and a deadline, or with --no-notice without a word. Another machine is bought,
the job goes on there, and the failover record says how long each part took. It is
real, and it costs real money: what, is shown before you are asked.`,
		Example:           "  spotferry job drill llama-7b --reason 'weekly rehearsal'\n  spotferry job drill llama-7b --no-notice -y --reason 'does a crash lose more than a minute?'",
		ValidArgsFunction: e.completeJobs,
	}
	f := cmd.Flags()
	f.BoolVar(&o.noNotice, "no-notice", false, "take the machine without a word to the agent")
	f.DurationVar(&o.deadline, "deadline", 30*time.Second, "`TIME` of the notice")
	f.BoolVarP(&o.detach, "detach", "d", false, "do not follow it to its record")
	return act(cmd, func(ctx context.Context, args []string, reason string) error {
		if o.noNotice && cmd.Flags().Changed("deadline") {
			return usagef("give one of the two", "a drill without notice has no deadline")
		}
		return e.drill(ctx, args[0], o, reason)
	})
}

func (e *environment) drill(ctx context.Context, job string, o drillOptions, reason string) error {
	l, err := e.connect(ctx, false)
	if err != nil {
		return err
	}
	defer l.Close()
	r := console.DrillRequest{Job: job, NoNotice: o.noNotice, Reason: reason}
	if !o.noNotice {
		r.DeadlineS = int64((o.deadline + time.Second - 1) / time.Second)
	}
	cost, err := ask[console.Drill](ctx, l, console.GetDrill, r)
	if err != nil {
		return err
	}
	p := e.aside()
	writeDrill(p, cost, r)
	if err := p.flush(); err != nil {
		return err
	}
	if !cost.Possible {
		return &failure{exit: exitConflict, What: fmt.Sprintf("%s cannot be drilled now: %s", terminal.Safe(cost.Name), terminal.Safe(cost.Why)), Remedy: "nothing was done"}
	}
	r.Job = string(cost.Job)
	question := fmt.Sprintf("Take the machine of %s away for about %s?", terminal.Safe(cost.Name), cost.Expected.Dollars())
	if err := e.confirm(ctx, "a drill of "+terminal.Safe(cost.Name), question); err != nil {
		return err
	}
	w := newWatch(e, l, r.Job)
	w.quiet = true
	if err := w.look(ctx); err != nil { // from here on it tells what happens
		return err
	}
	j, err := ask[console.Job](ctx, l, console.DoDrill, r)
	if err != nil {
		return err
	}
	if o.detach {
		return e.show(view{doc: j, names: []string{r.Job}, page: func(p *page) {
			p.line("%s (%s) is being drilled. '%s' shows the record when it is written.", j.Name, j.ID, e.hint("failover", "show", r.Job))
		}})
	}
	return e.followDrill(ctx, w, w.view.Failovers)
}

func writeDrill(p *page, d console.Drill, r console.DrillRequest) {
	p.head("%s  %s", d.Name, d.Job)
	if d.From != nil {
		p.field("leaves", "%s", side(*d.From))
	}
	if d.To == nil {
		return
	}
	p.field("buys", "%s at %s/h, as prices are now", *d.To, price(d.Price))
	p.field("machine", "%s: it is paid beside the old one for about %s of market time", d.Machine.Dollars(), secs(d.BothS))
	switch {
	case !r.NoNotice && d.Saves:
		p.field("lost work", "little expected: it is asked to save within a notice of %s", secs(r.DeadlineS))
	case !r.NoNotice:
		p.field("lost work", "%s: %s of market time since the newest checkpoint is done again; policy.checkpoint.on_notice names no signal on which it saves and goes on", d.Lost.Dollars(), secs(d.LostS))
	default:
		p.field("lost work", "%s: %s of market time since the newest checkpoint is done again", d.Lost.Dollars(), secs(d.LostS))
	}
	p.field("expected", "%s; at least %s has to be free for it meanwhile, and %s of the budget is", d.Expected.Dollars(), d.Most.Dollars(), d.Free.Dollars())
}

// followDrill tells what happens until the failover is on record, and shows the record.
func (e *environment) followDrill(ctx context.Context, w *jobWatch, before int) error {
	job := w.job
	for {
		if err := w.steadily(ctx); err != nil {
			return e.stillRuns(ctx, job, err)
		}
		switch {
		case w.view.Failovers > before:
			d, err := failoverReport(ctx, w.link, console.FailoverQuery{Job: job, N: before + 1}, false)
			if err != nil {
				return err
			}
			return e.show(view{doc: d, names: []string{fmt.Sprintf("%s/%d", job, before+1)}, page: d.write})
		case w.view.Over, w.view.Status == string(events.PausedByPerson):
			return &failure{exit: exitConflict, What: fmt.Sprintf("the drill came to no failover: the job is %s", terminal.Safe(w.view.Status)), Remedy: fmt.Sprintf("'%s' says why", e.hint("job", "show", job))}
		}
		if err := pause(ctx, e.poll); err != nil {
			return e.stillRuns(ctx, job, err)
		}
	}
}
