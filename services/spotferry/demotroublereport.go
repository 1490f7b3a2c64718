package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// troubleOutcome is what demo --trouble -o json prints.
type troubleOutcome struct {
	Scenarios     []scenarioOutcome `json:"scenarios"`
	InstancesLeft int               `json:"instances_left"`
	Ledger        int64             `json:"ledger_micros"`
	Meter         int64             `json:"meter_micros"`
	TookMS        int64             `json:"took_ms"`
}

// scenarioOutcome is what came of one. Minimum is what the machine that the
// trouble was found on costs at the least; a machine that its seller took back
// in its first hour costs nothing.
type scenarioOutcome struct {
	Name     string       `json:"name"`
	Job      events.JobID `json:"job"`
	Promised string       `json:"promised_state"`
	State    string       `json:"state"`
	Detail   string       `json:"detail"`
	Remedy   string       `json:"remedy"`
	Restored int64        `json:"committed_step"`
	Machines int          `json:"machines_bought"`
	Paid     int64        `json:"paid_micros"`
	Minimum  int64        `json:"minimum_micros"`
	After    int          `json:"bought_after"` // leases intended after the trouble was found
}

func (d *demo) reportTrouble(ctx context.Context, cases []scenario, began time.Time) error {
	out, err := d.troubleOutcome(ctx, cases)
	if err != nil {
		return err
	}
	out.TookMS = d.e.now().Sub(began).Milliseconds()
	d.e.term.Done()
	if d.e.format == formatJSON {
		if err := terminal.JSON(d.e.term.Out, out); err != nil {
			return err
		}
	} else if err := d.showTrouble(out); err != nil {
		return err
	}
	return out.verdict()
}

func (d *demo) troubleOutcome(ctx context.Context, cases []scenario) (troubleOutcome, error) {
	var o troubleOutcome
	bills, err := console.Ask[[]console.Bill](ctx, d.session.client, console.GetBill, console.Query{})
	if err != nil {
		return o, err
	}
	instances, err := console.Ask[[]console.Instance](ctx, d.session.client, console.GetInstances, console.Query{})
	if err != nil {
		return o, err
	}
	for _, i := range instances {
		if i.Seller != "gone" && i.Seller != "absent" {
			o.InstancesLeft++
		}
		o.Meter += int64(i.Metered)
	}
	for _, b := range bills {
		o.Ledger += int64(b.Total)
	}
	for _, c := range cases {
		s, err := d.scenarioOutcome(ctx, c, bills)
		if err != nil {
			return o, err
		}
		o.Scenarios = append(o.Scenarios, s)
	}
	return o, nil
}

func (d *demo) scenarioOutcome(ctx context.Context, c scenario, bills []console.Bill) (scenarioOutcome, error) {
	v, _ := d.view(c.job)
	s := scenarioOutcome{Name: c.name, Job: c.job, Promised: c.state, State: v.Status, Detail: v.Detail, Restored: v.Committed}
	if i := slices.IndexFunc(bills, func(b console.Bill) bool { return b.Job == c.job }); i >= 0 {
		b := bills[i]
		s.Machines, s.Paid = len(b.Lines), int64(b.Total)
		if n := len(b.Lines); n > 0 {
			s.Minimum = int64(minimumOf(b.Lines[n-1].Pool))
		}
	}
	page, err := console.Ask[console.Page](ctx, d.session.client, console.GetEvents, console.Query{Job: string(c.job)})
	if err != nil {
		return s, err
	}
	found := false
	for _, e := range page.Entries {
		f, _ := e.Fact.(map[string]any)
		switch e.Type {
		case "job.troubled", "job.ended":
			found = true
		case "job.paused":
			s.Remedy, _ = f["remedy"].(string)
			s.Detail, _ = f["detail"].(string)
		case "lease.intended":
			if found {
				s.After++
			}
		}
	}
	if s.State == string(events.Failed) {
		s.Remedy = "read the last lines of its output (spotferry job logs), mend the script, and submit it again"
	}
	return s, nil
}

// minimumOf is what a machine of a pool costs at the least.
func minimumOf(p events.Pool) events.MicroUSD {
	pools := troublePools()
	i := slices.IndexFunc(pools, func(t trace.TablePool) bool { return t.Info.Offer.Pool == p })
	if i < 0 {
		return 0
	}
	return events.Cost(pools[i].Prices[0].Price, troubleMinimum)
}

// verdict is nil if each of them ended as it was promised, else what did not.
func (o troubleOutcome) verdict() error {
	var errs []error
	for _, s := range o.Scenarios {
		switch {
		case s.State != s.Promised:
			errs = append(errs, fmt.Errorf("%s: the job is %s (%s), not %s", s.Name, s.State, s.Detail, s.Promised))
		case s.Remedy == "":
			errs = append(errs, fmt.Errorf("%s: nothing says what can be done", s.Name))
		case s.After > 0:
			errs = append(errs, fmt.Errorf("%s: %d machines were bought after it was found", s.Name, s.After))
		case s.Paid != s.Minimum:
			errs = append(errs, fmt.Errorf("%s: %s was paid, and the machine's minimum is %s", s.Name, events.MicroUSD(s.Paid), events.MicroUSD(s.Minimum)))
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

func (d *demo) showTrouble(o troubleOutcome) error {
	t := d.e.term
	for _, s := range o.Scenarios {
		t.Print("\n" + t.Style.Bold(s.Name+": "+terminal.Safe(s.State)) + "\n  " + terminal.SafeLine(s.Detail) + "\n  " + t.Style.Good("to do: ") + terminal.SafeLine(s.Remedy))
	}
	t.Print("\n" + t.Style.Bold("What they cost"))
	table := terminal.Table{Columns: terminal.Columns("TRAINING", "STATE", ">CHECKPOINT", ">MACHINES BOUGHT", ">AFTER IT WAS FOUND", ">PAID", ">ONE MACHINE'S MINIMUM")}
	for _, s := range o.Scenarios {
		table.Row(s.Name, s.State, fmt.Sprintf("step %d", s.Restored), fmt.Sprint(s.Machines), fmt.Sprint(s.After),
			"$"+events.MicroUSD(s.Paid).String(), "$"+events.MicroUSD(s.Minimum).String())
	}
	if err := table.Write(t.Out, t.Style, t.Columns); err != nil {
		return err
	}
	t.Print(fmt.Sprintf("\nA machine that its seller takes back within its first hour is not charged; the others are, for at least %s.", troubleMinimum))
	t.Print(fmt.Sprintf("ledger $%s, seller's meter $%s, %d machines left, %.1fs in all",
		events.MicroUSD(o.Ledger), events.MicroUSD(o.Meter), o.InstancesLeft, float64(o.TookMS)/1000))
	if d.e.stateSet {
		t.Print(fmt.Sprintf("look again: spotferry --state %s job ls", d.dir))
	}
	return nil
}
