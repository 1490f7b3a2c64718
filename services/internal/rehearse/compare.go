package rehearse

import (
	"math"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Again is a step that was trained before a move and once more after it.
type Again struct {
	Step   int64    `json:"step"`
	Before *float64 `json:"loss_before"` // nil: not told
	After  *float64 `json:"loss_after"`
	Off    float64  `json:"relative_difference"`
}

// Comparison is what the steps that were trained again tell.
type Comparison struct {
	Again    []Again `json:"again"`    // lowest step first
	Compared int     `json:"compared"` // of them, with both losses
	Exact    int     `json:"exact"`    // of these, the same to the last digit told
	Worst    *Again  `json:"worst,omitempty"`
	// FirstOff is the first beyond the tolerance, and Agreed how many before it are within.
	FirstOff *Again `json:"first_off,omitempty"`
	Agreed   int    `json:"agreed"`
}

// Same says whether losses were compared and all are within the tolerance.
func (c Comparison) Same() bool { return c.Compared > 0 && c.FirstOff == nil }

// Compare sets the steps of a life beyond the one that it resumed beside what
// earlier lives told of the same steps. Of several earlier ones the newest counts:
// that is the one whose work was lost.
func Compare(before []Life, l Life, tolerance float64) Comparison {
	c := Comparison{Again: []Again{}}
	for _, t := range ordered(l.Told) {
		if t.Step <= l.From {
			continue
		}
		was, told := lastTold(before, t.Step)
		if !told {
			continue
		}
		c.add(Again{Step: t.Step, Before: was.Loss, After: t.Loss}, tolerance)
	}
	return c
}

func (c *Comparison) add(a Again, tolerance float64) {
	if a.Before == nil || a.After == nil {
		c.Again = append(c.Again, a)
		return
	}
	a.Off = apart(*a.Before, *a.After)
	c.Again = append(c.Again, a)
	c.Compared++
	if *a.Before == *a.After {
		c.Exact++
	}
	if c.Worst == nil || a.Off > c.Worst.Off {
		c.Worst = &a
	}
	switch {
	case a.Off <= tolerance && c.FirstOff == nil:
		c.Agreed++
	case a.Off > tolerance && c.FirstOff == nil:
		c.FirstOff = &a
	}
}

// apart is how far two losses are from each other, relative to the larger one.
func apart(a, b float64) float64 {
	if a == b {
		return 0
	}
	return math.Abs(a-b) / max(math.Abs(a), math.Abs(b))
}

func lastTold(lives []Life, step int64) (Telling, bool) {
	for i := len(lives) - 1; i >= 0; i-- {
		for _, t := range lives[i].Told {
			if t.Step == step {
				return t, true
			}
		}
	}
	return Telling{}, false
}

// Cause says what ended the life before.
type Cause string

// The causes.
const (
	WithNotice    Cause = "notice"
	WithoutNotice Cause = "no-notice"
	ByItself      Cause = "by-itself" // the trainer ended, and was started again
)

// Taken is a machine that the rehearsal had taken away.
type Taken struct {
	Life   Life // as it was then
	Notice bool
	At     time.Time
}

// Resumption is a start from a checkpoint and what it was like.
type Resumption struct {
	Epoch   int   `json:"epoch"`
	Cause   Cause `json:"cause"`
	Reached int64 `json:"reached_step"` // by the life before; -1: it told none
	From    int64 `json:"from_step"`    // restored; 0 with Anew
	Anew    bool  `json:"anew"`         // there was nothing to restore
	First   int64 `json:"first_step"`   // the first step seen after it; -1: none
	Noticed int64 `json:"noticed_step"` // at which it got its notice; -1: it got none, or nothing is known
	GapMS   int64 `json:"gap_ms"`       // from the last step before the move to the first after it; 0: not known
	Comparison
}

// Resumptions are the starts after the first.
func Resumptions(r Run) []Resumption {
	out := []Resumption{}
	for i := 1; i < len(r.Lives); i++ {
		l, was := r.Lives[i], r.Lives[i-1]
		m := Resumption{Epoch: l.Epoch, Cause: ByItself, Reached: was.Last(), From: l.From, Anew: !l.Resumed, First: l.First, Noticed: -1}
		if k := slices.IndexFunc(r.Taken, func(t Taken) bool { return t.Life.Lease == was.Lease }); k >= 0 {
			m.Cause = WithoutNotice
			if r.Taken[k].Notice {
				m.Cause, m.Noticed = WithNotice, noticedAt(r, was)
			}
		}
		if told := ordered(l.Told); len(told) > 0 {
			m.First = told[0].Step
			if before := ordered(was.Told); len(before) > 0 {
				m.GapMS = max(told[0].At.Sub(before[len(before)-1].At).Milliseconds(), 1)
			}
		}
		if len(l.Told) == 0 { // its first checkpoint tells as much
			if c, ok := firstCommit(r.History, l.Epoch); ok {
				m.First = c.Checkpoint.Step
			}
		}
		m.Comparison = Compare(r.Lives[:i], l, r.Tolerance)
		out = append(out, m)
	}
	return out
}

// noticedAt is the step that a life was at when it got its notice, -1 if that is not known.
func noticedAt(r Run, l Life) int64 {
	i := slices.IndexFunc(r.History.Noticed, func(n events.JobNoticed) bool { return n.Lease == l.Lease })
	if i < 0 {
		return -1
	}
	at := int64(-1)
	for _, t := range l.Told {
		if !t.At.After(r.History.Noticed[i].Seen) {
			at = max(at, t.Step)
		}
	}
	return at
}

func firstCommit(h History, epoch int) (Commit, bool) {
	i := slices.IndexFunc(h.Commits, func(c Commit) bool { return c.Epoch == epoch })
	if i < 0 {
		return Commit{}, false
	}
	return h.Commits[i], true
}
