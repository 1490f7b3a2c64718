package bidder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// The actions of a decision.
const (
	Buy  = "buy"  // the chosen candidate, because a machine is needed
	Wait = "wait" // buy nothing now; look again by RetryAt
	Keep = "keep" // stay on the current machine
	Move = "move" // buy the chosen candidate, and leave the current machine for it
	Stop = "stop" // the money is at its end
)

// The reasons to wait, as a job's waiting state tells them.
const (
	NoCapacity   = "waiting-for-capacity"
	NoPrice      = "waiting-for-price"
	PausedBudget = "paused-by-budget"
	Frozen       = "waiting-frozen"
)

// choice is what a policy proposes.
type choice struct {
	action string
	rule   string
	pick   int // candidate, -1 for none
	reason string
	detail string
	within time.Duration // market time after which a wait is looked at again; 0: the usual
}

func buy(pick int, rule, detail string) choice {
	return choice{action: Buy, rule: rule, pick: pick, detail: detail}
}

func keep(detail string) choice { return choice{action: Keep, rule: "keep", pick: -1, detail: detail} }

// policy proposes; it need not know of deadlines or budgets.
type policy func(v *view) choice

// Decide returns what to do for a job. It is pure: no I/O, no clock, no
// randomness, and the order of the quotes does not matter. With Inputs.Voluntary the
// answer is keep or move, else buy, wait or stop.
//
// The policy is Uniform Progress with failover to the cheapest pool. Its
// proposal passes through the deadline net and the budget guard, in that order,
// so that no policy can miss a deadline that could be met, or commit money that is not there.
// What operations decided overrules them all: a held seller or pool is no
// candidate, and under a freeze nothing is bought whatever it costs the job.
func Decide(s Situation) events.Decision { return decideBy(uniformProgress, s) }

func decideBy(p policy, s Situation) events.Decision {
	v := survey(s)
	c := frozen(v, guard(v, net(v, p(v))))
	return v.record(c)
}

// frozen turns whatever would commit money into patience while nothing may be bought.
func frozen(v *view, c choice) choice {
	f := v.in.Frozen
	if f == nil || c.action == Keep || c.action == Stop {
		return c
	}
	detail := fmt.Sprintf("frozen: %s (by %s)", f.Reason, f.By)
	if c.action == Move {
		return choice{action: Keep, rule: "freeze", pick: -1, detail: detail}
	}
	return choice{action: Wait, rule: "freeze", pick: -1, reason: Frozen, detail: detail}
}

// record writes the decision down, with every candidate that could matter.
func (v *view) record(c choice) events.Decision {
	d := events.Decision{
		Rule: c.rule, Action: c.action, Reason: c.reason, Detail: c.detail, Chosen: -1,
		Control: v.Now.Control, Market: v.Now.Market, Inputs: v.in,
	}
	if c.action == Wait {
		d.RetryAt = v.Now.Control.Add(v.retry(c))
	}
	kept := v.matters(c.pick)
	for i, cand := range v.candidates {
		if i >= maxCandidates && !kept[i] {
			if d.Omitted == nil {
				d.Omitted = map[string]int{}
			}
			word, _, _ := strings.Cut(cand.WhyNot, ":")
			d.Omitted[word]++
			continue
		}
		if i == c.pick {
			d.Chosen = len(d.Candidates)
		}
		d.Candidates = append(d.Candidates, cand)
	}
	return d
}

// matters marks the candidates that the choice depends on, wherever they stand.
func (v *view) matters(pick int) map[int]bool {
	m := map[int]bool{pick: true, v.best(true): true, v.best(false): true, v.onDemandInTime(): true}
	if len(v.candidates) <= maxCandidates {
		return m
	}
	for i, c := range v.candidates {
		if v.in.Current != nil && c.Offer.Pool == v.in.Current.Pool {
			m[i] = true
		}
	}
	// The on-demand prices that the kept spot offers are compared with.
	prices := onDemandPrices(v.Quotes)
	for i, c := range v.candidates {
		if c.Offer.Pool.Capacity != events.OnDemand {
			continue
		}
		m[i] = m[i] || slices.ContainsFunc(v.candidates[:maxCandidates], func(k events.Candidate) bool {
			return k.Offer.Pool.InstanceType == c.Offer.Pool.InstanceType && k.Offer.Pool.Seller == c.Offer.Pool.Seller && prices.near(k.Offer.Pool) == c.Offer.Price
		})
	}
	return m
}

// retry is how long a wait lasts at most, control time: the usual, or less when the choice says so.
func (v *view) retry(c choice) time.Duration {
	usual := time.Duration(v.in.RetryMS) * time.Millisecond
	if c.within <= 0 {
		return usual
	}
	soon := c.within / time.Duration(max(v.in.Scale, 1))
	return min(usual, max(soon, time.Millisecond))
}

// wait says why nothing can be bought, by what stands in the way of the candidate that is nearest to it.
func (v *view) wait(rule, detail string) choice {
	c := choice{action: Wait, rule: rule, pick: -1, reason: NoCapacity, detail: detail}
	switch {
	case v.blockedBy(whyBudget):
		c.reason = PausedBudget
	case v.blockedBy(whyMaxPrice), v.blockedBy(whyDearSpot):
		c.reason = NoPrice
	}
	if n := len(v.in.Holds); n > 0 {
		c.detail += fmt.Sprintf("; holds in force: %d", n)
	}
	return c
}

func (v *view) blockedBy(word string) bool {
	return slices.ContainsFunc(v.candidates, func(c events.Candidate) bool { return strings.HasPrefix(c.WhyNot, word) })
}
