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
	still  time.Duration // of save, the time in which the files are all written and only watched
	upload time.Duration // of one more checkpoint, of what is not sent while it is written
	whole  time.Duration // of all of it
	unsent time.Duration // what the newest complete one still needs; 0: it is committed
}

// fresh is how long it takes from asking to a fresh checkpoint in the store: as
// long as it took before or, since after a notice files are sent as soon as
// nobody writes to them, as long as all of it takes from then.
func (o outlook) fresh() time.Duration {
	return min(o.save+o.upload, max(o.save, max(o.save-o.still, 0)+o.whole))
}

// choose returns the plan that saves most and can be finished. A save that
// cannot would only slow the upload of the checkpoint that will be resumed from.
func (o outlook) choose() plan {
	switch time := o.left - o.margin; {
	case o.asks && o.fresh() <= time:
		return freshSave
	case o.unsent > 0 && o.unsent <= time:
		return shipNewest
	}
	return nothing
}

// margin is what is kept of a notice of this length: a twentieth, since a notice of
// two seconds deserves a save as well, and at most three seconds.
func margin(notice time.Duration) time.Duration {
	return min(max(notice/20, 50*time.Millisecond), 3*time.Second)
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

// sizes keeps the newest few of a number of bytes.
type sizes []int64

func (z *sizes) add(n int64) {
	*z = append(*z, n)
	*z = (*z)[max(0, len(*z)-remembered):]
}

// p95 returns the size that one in twenty exceeds, or otherwise if there is none.
func (z sizes) p95(otherwise int64) int64 {
	if len(z) == 0 {
		return otherwise
	}
	s := slices.Sorted(slices.Values(z))
	return s[(len(s)*95+99)/100-1]
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
