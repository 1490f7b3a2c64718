package bidder

import (
	"fmt"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// guard is the last word before money moves. A candidate that cannot be paid
// for its shortest useful time is no candidate at all (whyBudget); beyond that:
//
//	spent + reserved + C (r + d) <= budget: anything goes, the job can always be finished on demand
//	else a spot machine may be bought whose score is at most what is free for an hour of work left
//	else only a job that prefers its deadline goes on, and the record says so
//
// With nothing open and nothing that can be paid, the money is at its end.
func guard(v *view, c choice) choice {
	if c.action != Buy && c.action != Move {
		return v.outOfMoney(c)
	}
	if !v.sized || v.covered(c.pick) {
		return c
	}
	if c.rule == "deadline-net" && v.Spec.Policy.Prefer == "deadline" {
		c.detail += "; the budget may not last, the deadline is preferred"
		return c
	}
	if c.action == Move {
		return choice{action: Keep, rule: "budget-guard", pick: -1, detail: "the move is not covered to the end: " + v.purse()}
	}
	for i := range v.eligible {
		if v.candidates[i].Offer.Pool.Capacity.Reclaimable() && v.affordable(i) {
			return buy(i, "budget-guard", "only spot at a price that lasts: "+v.purse())
		}
	}
	w := choice{action: Wait, rule: "budget-guard", pick: -1, reason: NoPrice, detail: "no price that lasts to the end: " + v.purse()}
	if v.in.Reserved > 0 {
		w.reason = PausedBudget // a reservation that closes may change it
	}
	return w
}

// covered says whether a candidate may be bought freely: on demand, if the
// rest of the job on it fits the budget; spot, if the rest on demand fits, or its own price lasts.
func (v *view) covered(i int) bool {
	if !v.candidates[i].Offer.Pool.Capacity.Reclaimable() {
		return v.lasts(i)
	}
	od := v.onDemandInTime()
	return od >= 0 && v.lasts(od) || v.affordable(i)
}

// lasts says whether all that is left can be done on an on-demand candidate: C (r + d) is free.
func (v *view) lasts(i int) bool {
	return events.CostUp(v.candidates[i].Offer.Price, span(v.workOn(i)+v.restart)) <= v.free()
}

// affordable says whether the work left at this candidate's score fits what is free.
func (v *view) affordable(i int) bool {
	return events.CostUp(v.candidates[i].Score, span(v.left)) <= v.free()
}

// outOfMoney turns a wait into a stop when only money stands in the way, and none of it can come back.
func (v *view) outOfMoney(c choice) choice {
	if c.action != Wait || c.reason != PausedBudget || v.in.Reserved > 0 || v.Spec.Policy.OnBudget == "pause" {
		return c
	}
	for _, cand := range v.candidates {
		// Something else than money may still change.
		if !strings.HasPrefix(cand.WhyNot, whyBudget) && cand.Score > 0 && v.exposure(cand) <= v.free() {
			return c
		}
	}
	return choice{action: Stop, rule: "budget-guard", pick: -1, reason: string(events.OutOfBudget), detail: "nothing that fits can be paid for: " + v.purse()}
}

func (v *view) purse() string {
	return fmt.Sprintf("%s free of %s, %.2f h of work left", v.free().Dollars(), v.in.Budget.Dollars(), v.left)
}
