package rehearse

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Telling is one word of a trainer about itself, as it was found on its machine.
type Telling struct {
	Lease events.LeaseID
	At    time.Time
	Step  int64
	Loss  *float64 // nil: it did not say
}

// Life is one trainer, from its start to its end: an epoch of the job.
type Life struct {
	Epoch   int
	Lease   events.LeaseID
	Placed  time.Time
	Started time.Time // first step known to the system; zero: none
	Resumed bool      // a checkpoint was put in place for it
	From    int64     // its step; 0 for a fresh start
	First   int64     // first step known to the system, told or of a checkpoint; -1: none
	Clock   events.AgentClock
	Told    []Telling // oldest first, one for each step
}

// Lives puts what was told into the lives that the job's events begin.
func Lives(h History, told []Telling) []Life {
	out := slices.Clone(h.Lives)
	for i := range out {
		out[i].Told = nil
	}
	for _, t := range told {
		i := lifeAt(out, t)
		if i < 0 || t.Step < 0 || out[i].Resumed && t.Step == 0 && out[i].From > 0 { // it has loaded nothing yet
			continue
		}
		out[i].add(t)
	}
	return out
}

// lifeAt is the life that a telling is of: the newest on its machine by then.
func lifeAt(lives []Life, t Telling) int {
	for i := len(lives) - 1; i >= 0; i-- {
		if lives[i].Lease == t.Lease && !lives[i].Placed.After(t.At) {
			return i
		}
	}
	return -1
}

// add takes a telling; of several about one step the first tells when it was
// made, and the first with a loss tells that.
func (l *Life) add(t Telling) {
	i := slices.IndexFunc(l.Told, func(have Telling) bool { return have.Step == t.Step })
	switch {
	case i < 0:
		l.Told = append(l.Told, t)
	case l.Told[i].Loss == nil:
		l.Told[i].Loss = t.Loss
	}
}

// Last is the newest step told, -1 for none.
func (l Life) Last() int64 {
	last := int64(-1)
	for _, t := range l.Told {
		last = max(last, t.Step)
	}
	return last
}

// Loss says whether any step was told with its loss.
func (l Life) tellsLoss() bool {
	return slices.ContainsFunc(l.Told, func(t Telling) bool { return t.Loss != nil })
}

// past counts the steps told that lie beyond one.
func (l Life) past(step int64) int {
	n := 0
	for _, t := range l.Told {
		if t.Step > step {
			n++
		}
	}
	return n
}

// lastWord is when the newest step was told.
func (l Life) lastWord() (at time.Time) {
	for _, t := range l.Told {
		if t.At.After(at) {
			at = t.At
		}
	}
	return at
}

// rhythm is the median time between two tellings; false: too few to know.
func (l Life) rhythm() (time.Duration, bool) {
	all := gaps(l)
	if len(all) < 2 {
		return 0, false
	}
	slices.SortFunc(all, func(a, b gap) int { return cmp.Compare(a.took, b.took) })
	return all[len(all)/2].took, true
}

// patience is how long nothing has to be told before something is wrong: much
// longer than usual, and longer than ever, since an evaluation makes no steps.
func (l Life) patience() time.Duration {
	usual, _ := l.rhythm()
	longest := time.Duration(0)
	for _, g := range gaps(l) {
		longest = max(longest, g.took)
	}
	return max(20*usual, 3*longest, time.Second)
}
