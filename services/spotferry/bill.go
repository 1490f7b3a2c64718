package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func billCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "bill", Short: "What jobs have cost, to the last lease",
		Example: "  spotferry bill show\n  spotferry bill show llama-7b",
	}, billShowCommand(e))
}

func billShowCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "show [JOB]", Short: "Show a job's statement, or a line for every job", Args: args(0, 1),
		Long:    "Times are market time. Amounts are exact to a millionth of a dollar in -o json;\nhere they are rounded to the cent.",
		Example: "  spotferry bill show llama-7b\n  spotferry bill show -o json | jq '.items[] | {name, total}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			var q console.Query
			if len(args) == 1 {
				q.Job = args[0]
			}
			bills, err := once[[]console.Bill](cmd.Context(), e, true, console.GetBill, q)
			if err != nil {
				return err
			}
			if len(args) == 1 && len(bills) == 1 {
				b := bills[0]
				return e.show(view{doc: b, names: []string{string(b.Job)}, page: func(p *page) { writeBill(p, b) }})
			}
			v := view{doc: bills, list: true, page: func(p *page) { writeBills(p, bills) }}
			for _, b := range bills {
				v.names = append(v.names, string(b.Job))
			}
			return e.show(v)
		},
		ValidArgsFunction: e.completeJobs,
	}
}

func writeBill(p *page, b console.Bill) {
	p.head("%s  %s  %s", b.Name, b.Job, b.Finality)
	names := []string{"LEASE", "POOL", "STATE", "FROM (MARKET)", "TO (MARKET)", ">HOURS", ">PRICE/H", ">CREDIT", ">AMOUNT"}
	t := terminal.Table{Columns: terminal.Columns(names...)}
	for _, l := range b.Lines {
		t.Row(string(l.Lease), l.Pool.String(), l.State, p.stamp(l.From), p.stamp(l.To), hours(l.Use), prices(l.Segments), dollars(l.Credit), charged(l))
		if p.wide {
			for _, s := range l.Segments {
				t.Row("", fmt.Sprintf("  %d %s", s.N, s.Category), "", p.stamp(s.From), p.stamp(s.To), hours(s.Use), price(s.Billed), "", s.Amount.Dollars())
			}
		}
	}
	if t.Len() > 0 {
		p.table(t)
		p.line("")
	}
	p.field("compute", "%s", b.Compute.Dollars())
	p.field("credits", "%s", dollars(b.Credits))
	p.field("total", "%s of %s (%s)%s", b.Total.Dollars(), b.Limit.Dollars(), share(b.Total, b.Limit), labelled(", still reserved ", dollars(b.Reserved)))
	if b.Overrun > 0 {
		p.field("OVERRUN", "%s above what was reserved", b.Overrun.Dollars())
	}
	if b.OnDemand > 0 {
		p.field("on demand", "%s; saved %s", b.OnDemand.Dollars(), saving(b.Total, b.OnDemand))
	}
	p.field("lost work", "%s%s", b.LostWork.Dollars(), labelled(", ", labelledShare(b.LostWork, b.Total)))
}

func labelledShare(part, whole events.MicroUSD) string {
	if whole <= 0 {
		return ""
	}
	return share(part, whole) + " of the total, for steps done again"
}

func writeBills(p *page, bills []console.Bill) {
	if len(bills) == 0 {
		p.line("No jobs yet, so nothing was spent.")
		return
	}
	t := terminal.Table{Columns: terminal.Columns("JOB", "NAME", ">LEASES", ">COMPUTE", ">CREDITS", ">TOTAL", ">BUDGET", ">ON-DEMAND", ">SAVED", ">LOST WORK", "FIGURES")}
	var all console.Bill
	for _, b := range bills {
		t.Row(string(b.Job), b.Name, fmt.Sprint(len(b.Lines)), b.Compute.Dollars(), dollars(b.Credits), b.Total.Dollars(), b.Limit.Dollars(),
			dollars(b.OnDemand), percentSaved(b), b.LostWork.Dollars(), string(b.Finality))
		all.Compute += b.Compute
		all.Credits += b.Credits
		all.Total += b.Total
		all.LostWork += b.LostWork
		all.OnDemand += b.OnDemand
	}
	if len(bills) > 1 {
		t.Row("all", "", "", all.Compute.Dollars(), dollars(all.Credits), all.Total.Dollars(), "", dollars(all.OnDemand), percentSaved(all), all.LostWork.Dollars(), "")
	}
	p.table(t)
}

func percentSaved(b console.Bill) string {
	if b.OnDemand <= 0 {
		return ""
	}
	return share(b.OnDemand-b.Total, b.OnDemand)
}

// dollars is an amount, or nothing when it is zero.
func dollars(m events.MicroUSD) string {
	if m == 0 {
		return ""
	}
	return m.Dollars()
}

// hours is a quantity of use with three decimals.
func hours(u events.MicroHours) string {
	n := (int64(u) + 500) / 1000
	return fmt.Sprintf("%d.%03d", n/1000, n%1000)
}

// prices is the price that was billed, or the range of them.
func prices(segments []events.Segment) string {
	var lo, hi events.PerInstanceHour
	for _, s := range segments {
		if s.Billed <= 0 {
			continue
		}
		if lo == 0 || s.Billed < lo {
			lo = s.Billed
		}
		hi = max(hi, s.Billed)
	}
	switch {
	case lo == 0:
		return ""
	case lo == hi:
		return price(lo)
	}
	return price(lo) + " to " + price(hi)
}
