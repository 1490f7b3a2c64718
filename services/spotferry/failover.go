package main

import (
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
		Example: "  spotferry failover ls\n  spotferry failover show llama-7b 3",
	}, failoverListCommand(e), failoverShowCommand(e))
}

func failoverListCommand(e *environment) *cobra.Command {
	var job, cause, since string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List moves, oldest first", Args: args(0, 0),
		Example: "  spotferry failover ls\n  spotferry failover ls --job llama-7b --cause notice\n  spotferry failover ls --since 24h -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := e.moment(since)
			if err != nil {
				return err
			}
			list, err := once[[]console.Failover](cmd.Context(), e, true, console.GetFailovers, console.Query{Job: job, Cause: cause, Since: from})
			if err != nil {
				return err
			}
			return e.show(failoversView(list))
		},
	}
	f := cmd.Flags()
	f.StringVar(&job, "job", "", "only of this `JOB`")
	f.StringVar(&cause, "cause", "", "only of this `CAUSE`: "+words(causes()))
	f.StringVar(&since, "since", "", "only since this `TIME`: 24h, or 2030-01-31T18:00:00Z")
	_ = cmd.RegisterFlagCompletionFunc("cause", cobra.FixedCompletions(causeNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func causes() []events.Cause {
	return []events.Cause{
		events.CauseNotice, events.CauseReclaim, events.CauseOutbid, events.CauseHostFault, events.CauseSilent,
		events.CauseTrainer, events.CauseOperator, events.CauseReturn, events.CauseCheaper, events.CauseUnknown,
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

func failoversView(list []console.Failover) view {
	v := view{doc: list, list: true, page: func(p *page) {
		if len(list) == 0 {
			p.line("No failovers.")
			return
		}
		p.table(failoversTable(p, list, true))
		p.line("%s", failoversTotal(list))
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
		names = append(names, ">RESUMED AT", ">LOST TIME", "FROM POOL", "TO POOL")
	}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	for _, f := range list {
		r := f.Record
		row := []string{
			fmt.Sprint(r.N), p.stamp(r.Began), string(r.Cause), place(r.From.Pool), place(r.To.Pool), notice(r), used(r),
			short(r.Ended.Sub(r.Began)), fmt.Sprint(r.LostSteps), r.LostCost.Dollars(),
		}
		if withJob {
			row = append([]string{f.Name}, row...)
		}
		if p.wide {
			row = append(row, fmt.Sprint(resumedStep(r)), ms(r.LostMS), r.From.Pool.String(), r.To.Pool.String())
		}
		t.Row(row...)
	}
	return t
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
	for _, f := range list {
		took = append(took, f.Record.Ended.Sub(f.Record.Began))
		lostSteps += f.Record.LostSteps
		lost += f.Record.LostCost
	}
	slices.Sort(took)
	return fmt.Sprintf("%s, %d steps lost (%s); half within %s, 95%% within %s",
		count(len(list), "failover"), lostSteps, lost.Dollars(), short(quantile(took, 50)), short(quantile(took, 95)))
}

// quantile is the smallest of the sorted values that pct percent of them do not exceed.
func quantile(sorted []time.Duration, pct int) time.Duration {
	return sorted[max(0, (len(sorted)*pct+99)/100-1)]
}
