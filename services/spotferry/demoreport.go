package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// outcome is what demo -o json prints.
type outcome struct {
	Jobs          []jobOutcome `json:"jobs"`
	InstancesLeft int          `json:"instances_left"`
	Ledger        int64        `json:"ledger_micros"`
	Meter         int64        `json:"meter_micros"`
	Failover      quantiles    `json:"failover_ms"`
	Control       quantiles    `json:"control_share_ms"` // of it: decide, acquire, place
	Signal        quantiles    `json:"notice_to_signal_ms"`
	Recorded      *recorded    `json:"recorded,omitempty"`
}

type jobOutcome struct {
	ID            events.JobID `json:"id"`
	Name          string       `json:"name"`
	State         string       `json:"state"`
	Epochs        int          `json:"epochs"`
	Reclaims      int          `json:"reclaims"`
	LostSteps     int64        `json:"lost_steps"`
	Final         *string      `json:"final_digest"`
	Uninterrupted *string      `json:"uninterrupted_digest"`
	Spent         int64        `json:"spent_micros"`
	Budget        int64        `json:"budget_micros"`
	OnDemand      int64        `json:"on_demand_micros"`
}

// quantiles are of a small set, in milliseconds; both are 0 for an empty one.
type quantiles struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
}

func quantilesOf(v []int64) quantiles {
	if len(v) == 0 {
		return quantiles{}
	}
	slices.Sort(v)
	at := func(q float64) int64 { return v[min(int(q*float64(len(v))), len(v)-1)] }
	return quantiles{at(0.5), at(0.99)}
}

// report gathers what came of the jobs, prints it, and says whether it is as it must be.
func (d *demo) report(ctx context.Context) error {
	ask := d.session.client
	failovers, err := console.Ask[[]console.Failover](ctx, ask, console.GetFailovers, console.Query{})
	if err != nil {
		return err
	}
	bills, err := console.Ask[[]console.Bill](ctx, ask, console.GetBill, console.Query{})
	if err != nil {
		return err
	}
	instances, err := console.Ask[[]console.Instance](ctx, ask, console.GetInstances, console.Query{})
	if err != nil {
		return err
	}
	out, err := d.outcome(ctx, failovers, bills, instances)
	if err != nil {
		return err
	}
	if d.market != "" {
		if out.Recorded, err = d.compare(out); err != nil {
			return err
		}
	}
	d.e.term.Done()
	if d.e.format == formatJSON {
		if err := terminal.JSON(d.e.term.Out, out); err != nil {
			return err
		}
	} else if err := d.show(ctx, out, failovers, bills); err != nil {
		return err
	}
	return out.verdict()
}

func (d *demo) outcome(ctx context.Context, failovers []console.Failover, bills []console.Bill, instances []console.Instance) (outcome, error) {
	var o outcome
	for _, i := range instances {
		if i.Seller != "gone" && i.Seller != "absent" {
			o.InstancesLeft++
		}
		o.Meter += int64(i.Metered)
	}
	for _, b := range bills {
		o.Ledger += int64(b.Total)
	}
	var total, control []int64
	for _, f := range failovers {
		total = append(total, f.Record.Ended.Sub(f.Record.Began).Milliseconds())
		var share int64
		for _, p := range f.Record.Phases {
			if p.Name == "decide" || p.Name == "acquire" || p.Name == "place" {
				share += p.MS
			}
		}
		control = append(control, share)
	}
	o.Failover, o.Control = quantilesOf(total), quantilesOf(control)
	signals, err := d.signals(ctx)
	if err != nil {
		return o, err
	}
	o.Signal = quantilesOf(signals)
	for _, j := range d.jobs {
		i := slices.IndexFunc(d.timeline.jobs, func(v console.Job) bool { return v.ID == j.id })
		if i < 0 {
			continue
		}
		v := d.timeline.jobs[i]
		ref := <-j.reference
		if ref.err != nil {
			return o, ref.err
		}
		r := jobOutcome{
			ID: v.ID, Name: v.Name, State: v.Status, Epochs: v.Epochs, Reclaims: v.Reclaims, LostSteps: v.LostSteps,
			Spent: int64(v.Spent), Budget: int64(v.Budget), OnDemand: int64(v.OnDemand),
		}
		if v.Checkpoint != nil && v.Checkpoint.Weights != "" {
			r.Final = &v.Checkpoint.Weights
		}
		if ref.digest != "" {
			r.Uninterrupted = &ref.digest
		}
		o.Jobs = append(o.Jobs, r)
	}
	return o, nil
}

// signals returns how long each notice took to reach its trainer.
func (d *demo) signals(ctx context.Context) ([]int64, error) {
	var out []int64
	for after := uint64(0); ; {
		p, err := console.Ask[console.Page](ctx, d.session.client, console.GetEvents, console.Query{After: after})
		if err != nil {
			return nil, err
		}
		for _, e := range p.Entries {
			if f, ok := e.Fact.(map[string]any); ok && e.Type == "job.noticed" {
				if ms, ok := f["signal_ms"].(float64); ok && ms >= 0 {
					out = append(out, int64(ms))
				}
			}
		}
		if after = p.Next; !p.More {
			return out, nil
		}
	}
}

// verdict is nil if every promise was kept, else what was not.
func (o outcome) verdict() error {
	var errs []error
	for _, j := range o.Jobs {
		switch {
		case j.State != string(events.Succeeded):
			errs = append(errs, fmt.Errorf("job %s ended as %s", j.Name, j.State))
		case j.Final != nil && j.Uninterrupted != nil && *j.Final != *j.Uninterrupted:
			errs = append(errs, fmt.Errorf("job %s ended with other weights than uninterrupted: %.12s and %.12s", j.Name, *j.Final, *j.Uninterrupted))
		case j.Spent > j.Budget:
			errs = append(errs, fmt.Errorf("job %s spent %s of %s", j.Name, events.MicroUSD(j.Spent), events.MicroUSD(j.Budget)))
		}
	}
	if o.Ledger != o.Meter {
		errs = append(errs, fmt.Errorf("the ledger has %s, the seller's meter %s", events.MicroUSD(o.Ledger), events.MicroUSD(o.Meter)))
	}
	if o.InstancesLeft > 0 {
		errs = append(errs, fmt.Errorf("%d machines are left", o.InstancesLeft))
	}
	return errors.Join(errs...)
}

func (d *demo) show(ctx context.Context, o outcome, failovers []console.Failover, bills []console.Bill) error {
	t := d.e.term
	t.Print("\n" + t.Style.Bold("Failovers"))
	table := terminal.Table{Columns: terminal.Columns("AT", "JOB", "#", "CAUSE", "FROM", "TO", "NOTICE", "TOOK", "STEPS LOST", "COST")}
	for _, f := range failovers {
		r := f.Record
		table.Row(fmt.Sprintf("%.1fs", r.Began.Sub(d.timeline.began).Seconds()), f.Name, fmt.Sprint(r.N), string(r.Cause),
			r.From.Pool.Zone+" "+string(r.From.Pool.Capacity), r.To.Pool.Zone+" "+string(r.To.Pool.Capacity),
			inSeconds(r.NoticeMS), inSeconds(r.Ended.Sub(r.Began).Milliseconds()), fmt.Sprint(r.LostSteps), r.LostCost.Dollars())
	}
	if err := table.Write(t.Out, t.Style, t.Columns); err != nil {
		return err
	}
	if err := d.showTimeline(ctx, o); err != nil {
		return err
	}
	t.Print("\n" + t.Style.Bold("Statement"))
	bill := terminal.Table{Columns: terminal.Columns("JOB", "OUTCOME", "MACHINES", "RECLAIMS", "STEPS LOST", "SPENT", "BUDGET", "ON DEMAND", "WEIGHTS")}
	for i, j := range o.Jobs {
		machines := 0
		if i < len(bills) {
			machines = len(bills[i].Lines)
		}
		bill.Row(j.Name, j.State, fmt.Sprint(machines), fmt.Sprint(j.Reclaims), fmt.Sprint(j.LostSteps), events.MicroUSD(j.Spent).Dollars(),
			events.MicroUSD(j.Budget).Dollars(), events.MicroUSD(j.OnDemand).Dollars(), j.weights())
	}
	if err := bill.Write(t.Out, t.Style, t.Columns); err != nil {
		return err
	}
	t.Print(fmt.Sprintf("\nledger $%s, seller's meter $%s, %d machines left; failover p50 %d ms, control plane's share p50 %d ms, notice to signal p50 %d ms",
		events.MicroUSD(o.Ledger), events.MicroUSD(o.Meter), o.InstancesLeft, o.Failover.P50, o.Control.P50, o.Signal.P50))
	if o.Recorded != nil {
		o.Recorded.show(t)
	}
	if d.e.stateSet {
		t.Print(fmt.Sprintf("look again: spotferry --state %s failover ls", d.dir))
	}
	return nil
}

func (j jobOutcome) weights() string {
	switch {
	case j.Final == nil || j.Uninterrupted == nil:
		return "-"
	case *j.Final == *j.Uninterrupted:
		return "identical"
	}
	return "DIFFERENT"
}

func inSeconds(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fs", float64(ms)/1000)
}

// showTimeline prints the job with the most moves.
func (d *demo) showTimeline(ctx context.Context, o outcome) error {
	if len(o.Jobs) == 0 {
		return nil
	}
	j := slices.MaxFunc(o.Jobs, func(a, b jobOutcome) int { return a.Epochs - b.Epochs })
	p, err := console.Ask[console.Page](ctx, d.session.client, console.GetEvents, console.Query{Job: string(j.ID)})
	if err != nil {
		return err
	}
	t := d.e.term
	t.Print("\n" + t.Style.Bold("Timeline of "+terminal.Safe(j.Name)))
	for _, e := range p.Entries {
		if strings.HasPrefix(e.Type, "job.") {
			t.Print(fmt.Sprintf("%8.2fs  %-22s %s", e.Time.Sub(d.timeline.began).Seconds(), strings.TrimPrefix(e.Type, "job."), terminal.Safe(e.Summary)))
		}
	}
	return nil
}
