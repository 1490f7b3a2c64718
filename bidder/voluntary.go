package bidder

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// minSaving of the running price is what a voluntary move must promise, in percent.
const minSaving = 5

// stayOrMove weighs a voluntary move. It moves only when all of this holds:
// the dwell time since the last such move is over, a commit is fresh, the other
// pool has been there for a while, the slack bears the risk, and
//
//	s + (d c + E) / stay < (1 - saving) c_now / speed_now
//
// where s is the other pool's score, d c + E what the move costs, stay how long it lasts.
func stayOrMove(v *view) choice {
	if c, no := v.settled(); no {
		return c
	}
	cur := v.in.Current
	now, ok := v.currentCost()
	if !ok {
		return keep("speed of the current machine unknown")
	}
	for i := range v.eligible {
		c := v.candidates[i]
		if c.Offer.Pool == cur.Pool || !v.mayMoveTo(c) {
			continue
		}
		if cost := v.moveCost(i); cost < now*(1-v.saving()) {
			return choice{action: Move, rule: string(PurposeOf(*cur, c)), pick: i,
				detail: fmt.Sprintf("a useful hour costs %.4f there with the move, %.4f here", cost/1e9, now/1e9)}
		}
	}
	return keep("no other pool pays a move back")
}

// settled says why no move is considered at all.
func (v *view) settled() (choice, bool) {
	dwell := time.Duration(v.in.DwellS) * time.Second
	switch {
	case !v.in.LastMove.IsZero() && v.Now.Market.Sub(v.in.LastMove) < dwell:
		return keep("moved of its own accord within the dwell time"), true
	case v.in.CommitMS < 0 || v.in.CommitMS > v.in.FreshMS:
		return keep("no fresh commit"), true
	case v.timed && !v.sized:
		return keep("a deadline, and nobody knows how much work is left"), true
	case v.timed && v.time-v.left <= 2*v.restart:
		return keep("no slack for a voluntary move"), true
	}
	return choice{}, false
}

// mayMoveTo says whether a candidate is a kind of place to move to.
func (v *view) mayMoveTo(c events.Candidate) bool {
	to, from := c.Offer.Pool.Capacity, v.in.Current.Pool.Capacity
	if c.StoodS < v.in.DwellS/6 && to.Reclaimable() {
		return false // there for a moment only
	}
	if from.Reclaimable() {
		return to.Reclaimable() // to on-demand only when forced
	}
	if !to.Reclaimable() {
		return true
	}
	// Uniform Progress: back to spot only with a lead of 2 d P / T.
	return v.Spec.Policy.Spot.Returns() && (!v.timed || v.ahead() > 2*v.restart*v.pace())
}

// currentCost is what a useful hour on the reference GPU costs where the job is, in nano-dollars.
func (v *view) currentCost() (float64, bool) {
	speed, ok := v.speedOf(v.in.GPU, v.in.SpeedPct)
	return float64(v.in.Current.Price) / speed, ok && speed > 0
}

// moveCost is what a useful hour costs on a candidate when the move is paid from it, in nano-dollars.
func (v *view) moveCost(i int) float64 {
	c := v.candidates[i]
	stay := c.Life
	if left := v.workOn(i); v.sized && (stay <= 0 || left < stay) {
		stay = left
	}
	if stay <= 0 {
		stay = patience.Hours()
	}
	egress := float64(c.Offer.Egress) * 1000 * float64(v.in.StateBytes) / 1e9
	return float64(c.Score) + (v.restart*float64(c.Offer.Price)+egress)/stay/v.speed[i]
}

func (v *view) saving() float64 {
	pct := v.Spec.Policy.Spot.MinSavingPct
	if pct <= 0 {
		pct = minSaving
	}
	return float64(pct) / 100
}

// PurposeOf names a voluntary move from one machine to a candidate.
func PurposeOf(from events.Side, to events.Candidate) events.Purpose {
	if !from.Pool.Capacity.Reclaimable() && to.Offer.Pool.Capacity.Reclaimable() {
		return events.ForReturn
	}
	return events.ForCheaper
}
