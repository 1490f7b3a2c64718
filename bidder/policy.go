package bidder

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

const (
	// patience is how long a job without a deadline waits for spot, market time.
	patience = 2 * time.Hour
	// manyReclaims within an hour are enough: on-demand.
	manyReclaims = 5
)

// uniformProgress is the policy of Can't Be Late (NSDI 2024), with failover to
// the cheapest pool: while spot is there, take it; without, go on demand only
// when behind the pace that would meet the deadline.
//
// Where the paper is silent: a pool counts as there if a useful hour on it costs
// less than on demand. Without a deadline the job waits for spot a while, then
// takes on-demand. With a deadline but no idea of the work, it does not wait at all.
// After many reclaims within an hour it takes on-demand.
func uniformProgress(v *view) choice {
	if v.running() {
		return stayOrMove(v)
	}
	spot, od := v.best(true), v.best(false)
	if od >= 0 && v.in.Reclaims >= manyReclaims {
		return buy(od, "flapping", fmt.Sprintf("%d reclaims within the hour", v.in.Reclaims))
	}
	switch {
	case spot >= 0 && (od < 0 || v.candidates[spot].Score < v.candidates[od].Score):
		return buy(spot, "uniform-progress", "spot is there and pays")
	case spot >= 0:
		return buy(od, "on-demand-pays", "a useful hour on spot costs more")
	case od < 0:
		return v.wait("uniform-progress", "nothing that fits can be bought")
	case v.Spec.Policy.Spot.Mode == events.OnDemandOnly:
		return buy(od, "on-demand-only", "the job accepts nothing else")
	}
	return withoutSpot(v, od)
}

// withoutSpot chooses between on-demand and patience.
func withoutSpot(v *view, od int) choice {
	switch {
	case !v.timed:
		waited := time.Duration(v.in.WaitingS) * time.Second
		if waited >= patience {
			return buy(od, "patience", fmt.Sprintf("no spot for %s", waited))
		}
		c := v.wait("patience", fmt.Sprintf("no spot; on-demand after %s more", patience-waited))
		c.within = patience - waited
		return c
	case !v.sized:
		return buy(od, "no-estimate", "no spot, a deadline, and nobody knows how much work is left")
	}
	ahead := v.ahead()
	if ahead <= 0 {
		return buy(od, "uniform-progress", fmt.Sprintf("no spot and %.2f h behind the pace", -ahead))
	}
	c := v.wait("uniform-progress", fmt.Sprintf("no spot, %.2f h of work ahead of the pace", ahead))
	// The pace catches up at whole work an hour of window.
	c.within = span(ahead / v.pace())
	if last := v.time - v.workOn(od) - 2*v.moveOnDemand(); span(last) < c.within {
		c.within = max(span(last), time.Second)
	}
	return c
}

// pace is the hours of work that uniform progress does in an hour.
func (v *view) pace() float64 {
	return max(v.whole, v.left) / max(hours(v.in.WindowS), 1e-9)
}

// ahead is by how many hours of work the job is ahead of uniform progress.
func (v *view) ahead() float64 { return v.time*v.pace() - v.left }
