package bidder

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// Situation is everything a decision is made from. Times and rates of the
// market are market time; the figures of the job and its money are in Inputs, at
// the resolution in which the decision records them, so that nothing that was
// seen is lost from the record.
type Situation struct {
	Now    events.Moment
	Spec   events.JobSpec
	Inputs events.Inputs
	Quotes []Quote
}

// Quote is an offer with what is known of the risk of taking it.
type Quote struct {
	Offer  events.Offer
	Hazard float64       // reclaims per market hour of a young machine; 0: never
	Life   float64       // market hours expected until a reclaim; 0: unknown
	Stood  time.Duration // market time that it could be bought without a break
}

// SituationOf returns the situation that a recorded decision was made in: the
// same spec and the record give the same decision again.
func SituationOf(spec events.JobSpec, d events.Decision) Situation {
	s := Situation{Now: events.Moment{Control: d.Control, Market: d.Market}, Spec: spec, Inputs: d.Inputs}
	for _, c := range d.Candidates {
		s.Quotes = append(s.Quotes, Quote{c.Offer, c.Hazard, c.Life, time.Duration(c.StoodS) * time.Second})
	}
	return s
}

// hours of the inputs, for arithmetic in hours and dollars an hour.
func hours(seconds int64) float64 { return float64(seconds) / 3600 }

func span(h float64) time.Duration {
	const most = float64(100 * 365 * 24)
	return time.Duration(min(max(h, 0), most) * float64(time.Hour))
}

// view is a situation as policies see it: the candidates judged and sorted, the
// figures in hours.
type view struct {
	Situation
	in         events.Inputs
	candidates []events.Candidate // eligible ones first, best first
	eligible   int                // how many of them
	speed      []float64          // of each candidate, against the reference GPU
	whole      float64            // hours of all the work on the reference GPU
	known      bool               // whole is known
	left       float64            // hours of work left on the reference GPU
	sized      bool               // left is known
	time       float64            // hours to the deadline
	timed      bool               // there is a deadline
	restart    float64            // hours lost by a move, p99
}

// free is what may still be committed.
func (v *view) free() events.MicroUSD { return v.in.Budget - v.in.Spent - v.in.Reserved }

// workOn returns the hours left on a candidate.
func (v *view) workOn(i int) float64 { return v.left / v.speed[i] }

// net is the time within which a move and the purchase of on-demand are done for sure.
func (v *view) moveOnDemand() float64 { return v.restart + hours(v.in.AcquireS) }

// best returns the best eligible candidate that is, or is not, reclaimable; -1 for none.
func (v *view) best(reclaimable bool) int {
	for i := range v.eligible {
		if v.candidates[i].Offer.Pool.Capacity.Reclaimable() == reclaimable {
			return i
		}
	}
	return -1
}

// onDemandInTime returns the best eligible on-demand candidate that meets the
// deadline, else the fastest one; -1 for none. Without a deadline it is the best.
func (v *view) onDemandInTime() int {
	fastest := -1
	for i := range v.eligible {
		if v.candidates[i].Offer.Pool.Capacity.Reclaimable() {
			continue
		}
		if !v.timed || !v.sized || v.workOn(i)+v.moveOnDemand() <= v.time {
			return i
		}
		if fastest < 0 || v.speed[i] > v.speed[fastest] {
			fastest = i
		}
	}
	return fastest
}

// running says whether the job computes on a machine that nobody takes away.
func (v *view) running() bool { return v.in.Voluntary && v.in.Current != nil }
