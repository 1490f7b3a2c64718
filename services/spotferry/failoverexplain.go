package main

import (
	"fmt"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// writeChoices shows the decision that led to the move and those that did not,
// in a few lines each or with every candidate.
func (d failoverDetail) writeChoices(p *page) {
	if d.Choice == nil {
		p.head("Decision")
		p.line("  none: the job went on on the same machine, or the decision is not here any more")
	} else {
		writeChoice(p, "Decision "+string(d.Choice.Event), *d.Choice, d.explain)
	}
	if len(d.Considered) == 0 {
		return
	}
	if d.explain {
		if n := len(d.Considered) - len(d.Explained); n > 0 {
			p.line("and %s before these, each answered like the first below", count(n, "decision"))
		}
		for _, c := range d.Explained {
			writeChoice(p, "Before it: "+string(c.Event), c, true)
		}
		return
	}
	p.head("Before it")
	t := terminal.Table{Columns: terminal.Columns("TIME", "LEASE", "ANSWER", "RULE", "CAME TO", "WHAT")}
	for _, c := range d.Considered {
		t.Row(p.clock(c.Time), string(c.Lease), c.Action, c.Rule, c.Outcome, c.Summary)
	}
	p.table(t)
}

// writeChoice shows one decision.
func writeChoice(p *page, title string, c console.Choice, explain bool) {
	dec := c.Decision
	p.head("%s", title)
	p.field("answer", "%s by %s%s", dec.Action, dec.Rule, labelled(": ", chosen(dec)))
	p.field("because", "%s", dec.Detail)
	p.field("waits for", "%s", dec.Reason)
	p.field("at", "%s, market time %s", p.stamp(dec.Control), p.stamp(dec.Market))
	p.field("prices", "%s", ages(dec))
	p.field("replays", "%s", replayed(c.Replay))
	if !explain {
		p.field("considered", "%s; --explain shows each", considered(dec))
		return
	}
	p.every = true
	p.table(candidatesTable(p, dec, nil))
	writeOmitted(p, dec)
	writeInputs(p, dec)
}

func replayed(r console.Replay) string {
	if r.Same {
		return "yes: the same inputs give the same answer"
	}
	return "no: " + r.Why
}

// chosen is the candidate that was taken, "" for none.
func chosen(d events.Decision) string {
	if d.Chosen < 0 || d.Chosen >= len(d.Candidates) {
		return ""
	}
	c := d.Candidates[d.Chosen]
	return fmt.Sprintf("%s at %s/h, score %s", c.Offer.Pool, price(c.Offer.Price), priceIf(c.Score))
}

// considered counts the offers that a decision saw.
func considered(d events.Decision) string {
	eligible, all := 0, len(d.Candidates)
	for _, c := range d.Candidates {
		if c.WhyNot == "" {
			eligible++
		}
	}
	for _, n := range d.Omitted {
		all += n
	}
	return fmt.Sprintf("%s, %d of them could be bought", count(all, "offer"), eligible)
}

// ages is how old the prices were that a decision was made from.
func ages(d events.Decision) string {
	if len(d.Candidates) == 0 {
		return "none were known"
	}
	youngest, oldest := d.Candidates[0].AgeMS, d.Candidates[0].AgeMS
	for _, c := range d.Candidates {
		youngest, oldest = min(youngest, c.AgeMS), max(oldest, c.AgeMS)
	}
	text := fmt.Sprintf("%s to %s old", ms(youngest), ms(oldest))
	if d.Chosen >= 0 && d.Chosen < len(d.Candidates) {
		text += fmt.Sprintf("; the one taken %s", ms(d.Candidates[d.Chosen].AgeMS))
	}
	return text
}
