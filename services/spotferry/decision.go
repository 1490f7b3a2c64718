package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// mostRows is how many candidates are shown; -o wide shows all.
const mostRows = 25

// figures are what a plan compares its candidates with.
type figures struct {
	budget, onDemand events.MicroUSD
}

// candidatesTable shows every candidate with its figures or why it was refused,
// and a tick at the choice. plan adds comparisons.
func candidatesTable(p *page, d events.Decision, plan *figures) terminal.Table {
	names := []string{"", ">#", "SELLER", "ZONE", "INSTANCE", "GPUS", "TYPE", ">PRICE/H", ">AGE", ">RECLAIMS/H", ">HOURS", ">TOTAL"}
	if plan != nil {
		names = append(names, ">OF BUDGET", ">VS ON-DEMAND")
	} else {
		names = append(names, ">SCORE/H")
	}
	if p.wide {
		names = append(names, ">LIFE H", ">STOOD", ">MAX/H")
	}
	t := terminal.Table{Columns: terminal.Columns(append(names, "WHY NOT")...)}
	for i, c := range shownCandidates(p, d) {
		tick := ""
		if i == d.Chosen {
			tick = "✓"
		}
		o := c.Offer
		row := []string{
			tick, fmt.Sprint(i + 1), o.Pool.Seller, o.Pool.Zone, o.Pool.InstanceType, gpus(o.GPU), string(o.Pool.Capacity), price(o.Price), ms(c.AgeMS),
			rate(c.Hazard, o.Pool.Capacity), number(c.Hours), dollars(c.Total),
		}
		if plan != nil {
			row = append(row, shareIf(c.Total, plan.budget), against(c.Total, plan.onDemand))
		} else {
			row = append(row, priceIf(c.Score))
		}
		if p.wide {
			row = append(row, number(c.Life), secsIf(c.StoodS), priceIf(c.Max))
		}
		t.Row(append(row, c.WhyNot)...)
	}
	t.Drop("WHY NOT")
	return t
}

func shownCandidates(p *page, d events.Decision) []events.Candidate {
	if p.wide || p.every || len(d.Candidates) <= mostRows || d.Chosen >= mostRows {
		return d.Candidates
	}
	return d.Candidates[:mostRows]
}

// writeOmitted counts what the table does not have.
func writeOmitted(p *page, d events.Decision) {
	if n := len(d.Candidates) - len(shownCandidates(p, d)); n > 0 {
		p.line("and %d more; -o wide shows all", n)
	}
	if len(d.Omitted) == 0 {
		return
	}
	all := 0
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(d.Omitted)) {
		all += d.Omitted[reason]
		why = append(why, fmt.Sprintf("%d %s", d.Omitted[reason], reason))
	}
	p.line("left out %s that cannot change the choice: %s", count(all, "offer"), strings.Join(why, ", "))
}

func gpus(g events.GPU) string {
	if g.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%d×%s", g.Count, g.Model)
}

// rate is reclaims an hour; what cannot be reclaimed has none.
func rate(perHour float64, c events.CapacityType) string {
	if !c.Reclaimable() {
		return "-"
	}
	return fmt.Sprintf("%.3f", perHour)
}

func number(f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", f)
}

func priceIf(p events.PerInstanceHour) string {
	if p == 0 {
		return ""
	}
	return price(p)
}

func secsIf(n int64) string {
	if n == 0 {
		return ""
	}
	return secs(n)
}

func shareIf(part, whole events.MicroUSD) string {
	if part == 0 {
		return ""
	}
	return share(part, whole)
}

// against is how much more or less than another amount this is.
func against(m, other events.MicroUSD) string {
	if other <= 0 || m == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f%%", 100*(float64(m)/float64(other)-1))
}

// writeInputs shows the figures besides the offers that a decision saw.
func writeInputs(p *page, d events.Decision) {
	in := d.Inputs
	p.head("What the plan knows (rule %s)", d.Rule)
	p.field("work left", "%s", orUnknown(in.WorkLeftS, "not told: give policy.work in the job file"))
	p.field("time left", "%s", orUnknown(in.TimeLeftS, "no deadline"))
	p.field("a move", "%s lost to restart, %s to save, %s to carry", secs(in.RestartS), short(time.Duration(in.SaveMS)*time.Millisecond), size(in.StateBytes))
	p.field("on demand", "%s to get one", secs(in.AcquireS))
	p.field("money", "%s budget, %s spent, %s reserved", in.Budget.Dollars(), in.Spent.Dollars(), in.Reserved.Dollars())
	p.field("paid ahead", "%s, and %s to end a machine", secs(in.HorizonS), secs(in.TeardownS))
	p.field("dwell", "%s between moves that nobody forces", secs(in.DwellS))
	for _, c := range in.CoolDowns {
		p.field("cooling", "%s until %s: %s", c.Pool, p.stamp(c.Until), c.Why)
	}
	if d.Chosen < 0 || d.Chosen >= len(d.Candidates) {
		return
	}
	c := d.Candidates[d.Chosen]
	p.head("The arithmetic of #%d", d.Chosen+1)
	run := events.Cost(c.Offer.Price, time.Duration(c.Hours*float64(time.Hour)))
	p.field("time", "%.2f h to the end from here, reclaims and restarts included (%s reclaims/h, %s h between them)", c.Hours, rate(c.Hazard, c.Offer.Pool.Capacity), orDash(number(c.Life)))
	p.field("price", "%.2f h × %s/h = %s", c.Hours, price(c.Offer.Price), run.Dollars())
	p.field("total", "%s expected for the whole job, %s of it spent already", c.Total.Dollars(), in.Spent.Dollars())
	p.field("score", "%s for an hour of useful work on the reference GPU; the lowest wins", priceIf(c.Score))
}

func orUnknown(n int64, unknown string) string {
	if n < 0 {
		return unknown
	}
	return secs(n) + " of market time"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
