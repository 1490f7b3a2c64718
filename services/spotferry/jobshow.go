package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// jobDetail is a job with all that is known of its life.
type jobDetail struct {
	console.Job
	Timeline    []entry              `json:"timeline"`
	Leases      []console.BillLine   `json:"leases"`
	Checkpoints []console.Checkpoint `json:"checkpoints"`
	Moves       []console.Failover   `json:"failover_records"`
}

func jobShowCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "show JOB", Short: "Show one job: state, money, timeline, machines, checkpoints", Args: args(1, 1),
		Example: "  spotferry job show llama-7b\n  spotferry job show 01jx3k -o json | jq .timeline",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := e.detail(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			now := e.now()
			return e.show(view{doc: d, names: []string{string(d.ID)}, page: func(p *page) { d.write(p, now) }})
		},
		ValidArgsFunction: e.completeJobs,
	}
}

func (e *environment) detail(ctx context.Context, job string) (jobDetail, error) {
	l, err := e.connect(ctx, true)
	if err != nil {
		return jobDetail{}, err
	}
	defer l.Close()
	d := jobDetail{Timeline: []entry{}, Leases: []console.BillLine{}}
	if d.Job, err = ask[console.Job](ctx, l, console.GetJob, console.Query{Job: job}); err != nil {
		return d, err
	}
	q := console.Query{Job: string(d.ID)}
	if _, err = timeline(ctx, l, q.Job, 0, func(e entry) { d.Timeline = append(d.Timeline, e) }); err != nil {
		return d, err
	}
	if d.Checkpoints, err = ask[[]console.Checkpoint](ctx, l, console.GetCheckpoints, q); err != nil {
		return d, err
	}
	if d.Moves, err = ask[[]console.Failover](ctx, l, console.GetFailovers, q); err != nil {
		return d, err
	}
	bills, err := ask[[]console.Bill](ctx, l, console.GetBill, q)
	for _, b := range bills {
		d.Leases = append(d.Leases, b.Lines...)
	}
	return d, err
}

func (d jobDetail) write(p *page, now time.Time) {
	d.header(p, now)
	if len(d.Timeline) > 0 {
		p.head("Timeline")
		p.table(timelineTable(p, d.Timeline, d.Submitted))
	}
	if len(d.Leases) > 0 {
		p.head("Machines")
		p.table(leasesTable(p, d.Leases))
	}
	if rows, _ := rowsOf(d.Checkpoints, gateway.Usage{}, false); len(rows) > 0 {
		p.head("Checkpoints")
		p.table(checkpointsTable(p, rows, now))
	}
	if len(d.Moves) > 0 {
		p.head("Failovers")
		p.table(failoversTable(p, d.Moves, false))
	}
}

func (d jobDetail) header(p *page, now time.Time) {
	p.head("%s  %s  %s", d.Name, d.ID, d.Status)
	p.field("because", "%s", d.Detail)
	p.field("by", "%s", d.By+labelled(", team ", d.Team)+labelled(", project ", d.Project))
	p.field("submitted", "%s, %s ago", p.stamp(d.Submitted), short(now.Sub(d.Submitted)))
	if !d.Ended.IsZero() {
		p.field("ended", "%s, after %s%s", p.stamp(d.Ended), short(d.Ended.Sub(d.Submitted)), exitWords(d.Job))
	}
	p.field("steps", "%s", d.progress())
	if d.Machine != nil {
		p.field("machine", "%s", side(*d.Machine))
	}
	if len(d.OpenLeases) > 0 {
		p.field("open leases", "%s", words(d.OpenLeases))
	}
	if !d.Deadline.IsZero() {
		p.field("deadline", "%s market time", p.stamp(d.Deadline))
	}
	p.field("money", "%s spent, %s reserved, of %s", d.Spent.Dollars(), d.Reserved.Dollars(), d.Budget.Dollars())
	if d.OnDemand > 0 {
		p.field("on demand", "%s; saved %s", d.OnDemand.Dollars(), saving(d.Spent, d.OnDemand))
	}
	p.field("moves", "%s, %s, %d steps lost (%s)", count(d.Failovers, "failover"), count(d.Reclaims, "reclaim"), d.LostSteps, d.LostCost.Dollars())
}

func (d jobDetail) progress() string {
	s := steps(d.Step, d.Steps)
	if d.Steps > 0 {
		s += " (" + share(d.Step, d.Steps) + ")"
	}
	return fmt.Sprintf("%s, saved up to %d", s, d.Committed)
}

// exitWords says what the trainer exited with, where that tells something.
func exitWords(j console.Job) string {
	if j.ExitCode == 0 {
		return ""
	}
	return fmt.Sprintf(", exit code %d", j.ExitCode)
}

// labelled is a value with what stands before it, or nothing.
func labelled(before, value string) string {
	if value == "" {
		return ""
	}
	return before + value
}

func words[S ~string](list []S) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += ", "
		}
		out += string(s)
	}
	return out
}

func leasesTable(p *page, lines []console.BillLine) terminal.Table {
	names := []string{"LEASE", "POOL", "STATE", "FROM (MARKET)", ">TIME", ">COST"}
	if p.wide {
		names = append(names, "TO (MARKET)", ">HOURS", ">CREDIT", "FIGURES")
	}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	for _, l := range lines {
		took := ""
		if !l.From.IsZero() && !l.To.IsZero() {
			took = short(l.To.Sub(l.From))
		}
		row := []string{string(l.Lease), l.Pool.String(), l.State, p.stamp(l.From), took, charged(l)}
		if p.wide {
			row = append(row, p.stamp(l.To), hours(l.Use), l.Credit.Dollars(), string(l.Finality))
		}
		t.Row(row...)
	}
	return t
}

// charged is what a machine came to, or what one that is still paid for can come to at most.
func charged(l console.BillLine) string {
	if l.State == "open" {
		return "up to " + l.Amount.Dollars()
	}
	return l.Amount.Dollars()
}
