package bidder

import (
	"fmt"

	"github.com/spotferry/spotferry/events"
)

// net is the safety net under every policy: it sees that a deadline that can
// be met is met. With r the work left on on-demand, d the 99th percentile of a
// restart plus that of acquiring on-demand, and l the time left:
//
//	no machine and l <= r + 2d: on-demand now
//	on a machine and l <= r + 2d: no voluntary move; one that computes is kept
//
// It leaves alone jobs without a deadline, without an estimate of their work,
// and those that accept spot only.
func net(v *view, c choice) choice {
	od := v.onDemandInTime()
	if !v.timed || !v.sized || v.Spec.Policy.Spot.Mode == events.SpotOnly || !v.tight(od) {
		return c
	}
	if v.running() {
		if c.action == Move {
			return choice{action: Keep, rule: "deadline-net", pick: -1, detail: "no time for a voluntary move: " + v.figures(od)}
		}
		return c
	}
	if od < 0 {
		return c
	}
	if c.action == Buy && !v.candidates[c.pick].Offer.Pool.Capacity.Reclaimable() && v.inTime(c.pick) {
		od = c.pick
	}
	return buy(od, "deadline-net", v.figures(od))
}

// tight says whether l <= r + 2d, on the on-demand candidate od or, without one, on the reference GPU.
func (v *view) tight(od int) bool {
	left := v.left
	if od >= 0 {
		left = v.workOn(od)
	}
	return v.time <= left+2*v.moveOnDemand()
}

func (v *view) inTime(i int) bool { return v.workOn(i)+v.moveOnDemand() <= v.time }

func (v *view) figures(od int) string {
	left := v.left
	if od >= 0 {
		left = v.workOn(od)
	}
	return fmt.Sprintf("%.2f h left, %.2f h of work, %.2f h for a move", v.time, left, v.moveOnDemand())
}
