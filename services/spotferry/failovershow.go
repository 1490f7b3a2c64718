package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// failoverDetail is a move with the decision that it followed.
type failoverDetail struct {
	console.Failover
	Of       int              `json:"of"` // moves of the job so far
	Decision *events.Decision `json:"decision,omitempty"`
}

func failoverShowCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "show JOB [N]", Short: "Show one move: why, how long each phase took, what was lost, what else could be bought", Args: args(1, 2),
		Example: "  spotferry failover show llama-7b        # the newest\n  spotferry failover show llama-7b 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			n := 0
			if len(args) == 2 {
				var err error
				if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
					return usagef("give its number, as 'spotferry failover ls' shows it", "%.40q is not the number of a failover", args[1])
				}
			}
			d, err := e.failover(cmd.Context(), args[0], n)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%s/%d", d.Job, d.Record.N)
			return e.show(view{doc: d, names: []string{name}, page: d.write})
		},
		ValidArgsFunction: e.completeJobs,
	}
}

// failover reads move n of a job, 0 for the newest, and its decision.
func (e *environment) failover(ctx context.Context, job string, n int) (failoverDetail, error) {
	l, err := e.connect(ctx, true)
	if err != nil {
		return failoverDetail{}, err
	}
	defer l.Close()
	list, err := ask[[]console.Failover](ctx, l, console.GetFailovers, console.Query{Job: job})
	if err != nil {
		return failoverDetail{}, err
	}
	i := len(list) - 1
	if n > 0 {
		i = slices.IndexFunc(list, func(f console.Failover) bool { return f.Record.N == n })
	}
	if i < 0 {
		return failoverDetail{}, noFailover(job, n, len(list))
	}
	d := failoverDetail{Failover: list[i], Of: len(list)}
	_, err = timeline(ctx, l, string(d.Job), 0, func(e entry) {
		if f, ok := fact[events.LeaseIntended](e, "lease.intended"); ok && e.ID == d.Record.Decision {
			d.Decision = &f.Decision
		}
	})
	return d, err
}

func noFailover(job string, n, have int) error {
	what := fmt.Sprintf("job %.80q has not failed over", job)
	if have > 0 {
		what = fmt.Sprintf("job %.80q has %s, and none is number %d", job, count(have, "failover"), n)
	}
	return &failure{exit: exitNotFound, What: what, Remedy: "'spotferry failover ls' lists them"}
}

func (d failoverDetail) write(p *page) {
	r := d.Record
	p.head("%s  failover %d of %d", d.Name, r.N, d.Of)
	p.field("cause", "%s%s", r.Cause, labelled(": ", r.Detail))
	p.field("from", "%s", side(r.From))
	p.field("to", "%s", side(r.To))
	p.field("began", "%s", p.stamp(r.Began))
	p.field("took", "%s to the first step on the new machine", short(r.Ended.Sub(r.Began)))
	p.field("notice", "%s%s", notice(r), labelled(", last save after ", used(r)))
	if r.Resumed == nil {
		p.field("resumed", "from the beginning: nothing had been saved")
	} else {
		p.field("resumed", "step %d of epoch %d, %s", r.Resumed.Step, r.Resumed.Epoch, r.Resumed.Name)
	}
	p.field("lost", "%d steps up to step %d, %s, %s", r.LostSteps, r.LastStep, ms(r.LostMS), r.LostCost.Dollars())
	p.field("evidence", "%s", words(r.Evidence))
	p.field("decision", "%s", r.Decision)
	writePhases(p, r)
	if d.Decision != nil {
		writeDecision(p, *d.Decision)
	}
}

const phaseWidth = 40

// writePhases draws the phases of a move to one scale.
func writePhases(p *page, r events.Failover) {
	if len(r.Phases) == 0 {
		return
	}
	all := r.Ended.Sub(r.Began).Milliseconds()
	for _, ph := range r.Phases {
		all = max(all, ph.Began.Sub(r.Began).Milliseconds()+ph.MS)
	}
	phases := slices.Clone(r.Phases)
	slices.SortStableFunc(phases, func(a, b events.Phase) int { return a.Began.Compare(b.Began) })
	t := terminal.Table{Columns: terminal.Columns("PHASE", ">AT", ">TOOK", "CLOCK", "")}
	for _, ph := range phases {
		at := ph.Began.Sub(r.Began).Milliseconds()
		bar := terminal.Span(at, at+ph.MS, all, phaseWidth)
		t.Row(ph.Name, "+"+ms(at), ms(ph.MS), ph.Clock, "|"+fmt.Sprintf("%-*s", phaseWidth, bar)+"|")
	}
	p.head("Phases (%s)", ms(all))
	p.table(t)
}
