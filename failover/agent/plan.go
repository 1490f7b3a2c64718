package agent

import (
	"slices"
	"time"
)

// plan is what to do with the time left before a machine is taken.
type plan string

const (
	freshSave  plan = "fresh-save"  // ask the trainer for a checkpoint, ship that
	shipNewest plan = "ship-newest" // ship the newest complete one
	nothing    plan = "nothing"     // what is committed is all there will be
)

// outlook is what a plan is chosen from. Durations are what is expected in a bad
// case, not on average.
type outlook struct {
	left   time.Duration // until the deadline
	margin time.Duration // of it, kept for the commit and for being wrong
	asks   bool          // there is a trainer that can be asked to save
	save   time.Duration // from asking to a complete checkpoint
	upload time.Duration // of one more checkpoint
	unsent time.Duration // what the newest complete one still needs; 0: it is committed
}

// choose returns the plan that saves most and can be finished. A save that
// cannot would only slow the upload of the checkpoint that will be resumed from.
func (o outlook) choose() plan {
	switch time := o.left - o.margin; {
	case o.asks && o.save+o.upload <= time:
		return freshSave
	case o.unsent > 0 && o.unsent <= time:
		return shipNewest
	}
	return nothing
}

// margin is what is kept of a notice of this length: a tenth, since a notice of
// two seconds deserves a save as well, and at most three seconds.
func margin(notice time.Duration) time.Duration {
	return min(max(notice/10, 50*time.Millisecond), 3*time.Second)
}

// recent keeps the newest few measurements of a duration.
type recent []time.Duration

const remembered = 20

func (r *recent) add(d time.Duration) {
	*r = append(*r, d)
	*r = (*r)[max(0, len(*r)-remembered):]
}

// p95 returns the duration that one in twenty exceeds, or otherwise if nothing
// was measured.
func (r recent) p95(otherwise time.Duration) time.Duration {
	if len(r) == 0 {
		return otherwise
	}
	s := slices.Sorted(slices.Values(r))
	return s[(len(s)*95+99)/100-1]
}

// pace remembers how long uploads took, to say how long the next will.
type pace []sent

type sent struct {
	bytes int64
	took  time.Duration
}

func (p *pace) add(bytes int64, took time.Duration) {
	*p = append(*p, sent{bytes, took})
	*p = (*p)[max(0, len(*p)-remembered):]
}

// unknownRate is what is assumed of a store nobody has measured, in bytes per second.
const unknownRate = 32 << 20

// expect returns how long an upload of so many bytes takes, by the slowest but
// one in twenty of the last, each scaled up to the size. A small upload is not
// scaled down: its time may be all round trips.
func (p pace) expect(bytes int64) time.Duration {
	if len(p) == 0 {
		return time.Duration(float64(bytes) / unknownRate * float64(time.Second))
	}
	scaled := make(recent, len(p))
	for i, s := range p {
		scaled[i] = s.took
		if bytes > s.bytes && s.bytes > 0 {
			scaled[i] = time.Duration(float64(s.took) * float64(bytes) / float64(s.bytes))
		}
	}
	return scaled.p95(0)
}

// deadline returns when a notice first seen at a time takes effect. Sellers warn
// of no more than limit, and never less than nothing.
func deadline(seen time.Duration, w Warning, limit time.Duration) time.Duration {
	left := limit
	if w.Known {
		left = min(max(w.Left, 0), limit)
	}
	return seen + left
}
