package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func failoverCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "failover", Short: "Look at every move of a job from one machine to the next",
		Long: `Every move is kept for ever: why it was made and on what evidence, how long each part took and
by whose clock, what was lost, what else could have been bought, and the last words of the machine that was left.`,
		Example: "  spotferry failover ls --since 12h\n  spotferry failover show llama-7b 3 --explain\n  spotferry failover show llama-7b 3 --bundle postmortem.tar.gz",
	}, failoverListCommand(e), failoverShowCommand(e), failoverStatsCommand(e), failoverBundleCommand(e), failoverVerifyCommand(e))
}

func failoverListCommand(e *environment) *cobra.Command {
	var w wanted
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List moves, oldest first", Args: args(0, 0),
		Example: "  spotferry failover ls --since 12h\n  spotferry failover ls --job llama-7b --cause notice -o wide\n  spotferry failover ls --seller aws --sort boot --limit 10\n  spotferry failover ls --since 24h -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := w.query(e)
			if err != nil {
				return err
			}
			l, err := e.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer l.Close()
			list, err := failovers(cmd.Context(), l, q)
			if err != nil {
				return err
			}
			stats, err := ask[console.FailoverStats](cmd.Context(), l, console.GetFailoverStats, q)
			if err != nil {
				return err
			}
			return e.show(failoversView(list, stats))
		},
	}
	w.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&w.sort, "sort", "", "`ORDER`: began (the usual), or most first by took, lost, cost, or a phase such as boot")
	f.IntVar(&w.limit, "limit", 0, "at most `N`: the newest, or the first of another order")
	orders := append([]string{"began", "took", "lost", "cost"}, console.Phases()...)
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// wanted is what the flags narrow failovers to.
type wanted struct {
	job, cause, seller, since, until, sort string
	limit                                  int
}

func (w *wanted) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.job, "job", "", "only of this `JOB`")
	f.StringVar(&w.seller, "seller", "", "only those that left or went to this `SELLER`")
	f.StringVar(&w.cause, "cause", "", "only of this `CAUSE`, as far as it is known now: "+words(causes()))
	f.StringVar(&w.since, "since", "", "only since this `TIME`: 24h, or 2030-01-31T18:00:00Z")
	f.StringVar(&w.until, "until", "", "only until this `TIME`")
	_ = cmd.RegisterFlagCompletionFunc("cause", cobra.FixedCompletions(causeNames(), cobra.ShellCompDirectiveNoFileComp))
}

func (w *wanted) query(e *environment) (q console.FailoverQuery, err error) {
	q = console.FailoverQuery{Job: w.job, Seller: w.seller, Cause: w.cause, Sort: w.sort, Limit: w.limit}
	if w.limit < 0 {
		return q, usagef("give how many at most", "--limit %d is less than nothing", w.limit)
	}
	if w.cause != "" && !slices.Contains(causeNames(), w.cause) {
		return q, usagef("give one of "+words(causes()), "no failover has the cause %.40q", w.cause)
	}
	if q.Since, err = e.moment(w.since); err != nil {
		return q, err
	}
	q.Until, err = e.moment(w.until)
	return q, err
}

// failovers reads all that q asks for, part by part.
func failovers(ctx context.Context, l *link, q console.FailoverQuery) ([]console.Failover, error) {
	out := []console.Failover{}
	for {
		part, err := ask[console.FailoverList](ctx, l, console.GetFailoverList, q)
		if err != nil {
			return nil, err
		}
		out = append(out, part.Items...)
		if !part.More || part.Next <= q.Offset {
			return out, nil
		}
		q.Offset = part.Next
	}
}

func causes() []events.Cause {
	return []events.Cause{
		events.CauseNotice, events.CauseReclaim, events.CauseOutbid, events.CauseHostFault, events.CauseGPUFault, events.CauseSilent,
		events.CauseTrainer, events.CauseStalled, events.CauseOperator, events.CauseReturn, events.CauseCheaper, events.CauseUnknown,
	}
}

func causeNames() []string {
	var out []string
	for _, c := range causes() {
		out = append(out, string(c))
	}
	return out
}

// moment reads a time, or a span before now; "" is no time.
func (e *environment) moment(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return e.now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, usagef("write a span such as 90m, or a time such as 2030-01-31T18:00:00Z", "%.60q is not a time", s)
	}
	return t, nil
}

func failoversView(list []console.Failover, stats console.FailoverStats) view {
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("No failovers.")
			return
		}
		p.table(failoversTable(p, list, true))
		p.line("%s", failoversTotal(list))
		if p.wide {
			p.head("By seller that was left")
			p.table(statsTable(p, stats))
		}
	}}
	for _, f := range list {
		v.names = append(v.names, fmt.Sprintf("%s/%d", f.Job, f.Record.N))
	}
	return v
}

func failoversTable(p *page, list []console.Failover, withJob bool) terminal.Table {
	names := []string{">#", "WHEN", "CAUSE", "FROM", "TO", ">NOTICE", ">USED", ">TOOK", ">LOST STEPS", ">LOST"}
	if withJob {
		names = append([]string{"JOB"}, names...)
	}
	if p.wide {
		names = append(names, ">RESUMED AT", ">LOST TIME", "RECORDED AS", "DRILL", "FROM POOL", "TO POOL")
	}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	for _, f := range list {
		r := f.Record
		row := []string{
			fmt.Sprint(r.N), p.stamp(r.Began), string(cmp.Or(f.Cause, r.Cause)), place(r.From.Pool), place(r.To.Pool), notice(r), used(r),
			short(r.Ended.Sub(r.Began)), fmt.Sprint(r.LostSteps), r.LostCost.Dollars(),
		}
		if withJob {
			row = append([]string{f.Name}, row...)
		}
		if p.wide {
			row = append(row, fmt.Sprint(resumedStep(r)), ms(r.LostMS), recordedAs(f), drill(r), r.From.Pool.String(), r.To.Pool.String())
		}
		t.Row(row...)
	}
	t.Drop("RECORDED AS")
	t.Drop("DRILL")
	return t
}

// recordedAs is the cause that was believed when the record was written, if another is known now.
func recordedAs(f console.Failover) string {
	if f.Cause == "" || f.Cause == f.Record.Cause {
		return ""
	}
	return string(f.Record.Cause)
}

func drill(r events.Failover) string {
	if r.Drill {
		return "drill"
	}
	return ""
}

func notice(r events.Failover) string {
	if !r.Noticed {
		return "none"
	}
	return ms(r.NoticeMS)
}

// used is how much of a notice went by until the last save, "" when there was none.
func used(r events.Failover) string {
	if !r.Noticed || r.UsedMS <= 0 {
		return ""
	}
	return ms(r.UsedMS)
}

func resumedStep(r events.Failover) int64 {
	if r.Resumed == nil {
		return 0
	}
	return r.Resumed.Step
}

func failoversTotal(list []console.Failover) string {
	var took []time.Duration
	var lostSteps int64
	var lost events.MicroUSD
	drills := 0
	for _, f := range list {
		took = append(took, f.Took())
		lostSteps += f.Record.LostSteps
		lost += f.Record.LostCost
		if f.Record.Drill {
			drills++
		}
	}
	slices.Sort(took)
	rehearsed := ""
	if drills > 0 {
		rehearsed = fmt.Sprintf(" (%s)", count(drills, "drill"))
	}
	return fmt.Sprintf("%s%s, %d steps lost (%s); half within %s, 95%% within %s",
		count(len(list), "failover"), rehearsed, lostSteps, lost.Dollars(), short(quantile(took, 50)), short(quantile(took, 95)))
}

// quantile is the smallest of the sorted values that pct percent of them do not exceed.
func quantile(sorted []time.Duration, pct int) time.Duration {
	return sorted[max(0, (len(sorted)*pct+99)/100-1)]
}
