package agent

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// stallClock measures how long a trainer has made no progress. Its times are of
// the monotonic clock.
type stallClock struct {
	moved time.Duration // last step or checkpoint, or the last moment that does not count
	step  time.Duration // of the newest step; 0: none was told
	gap   time.Duration // the longest between two steps
}

// progressed notes a step.
func (s *stallClock) progressed(at time.Duration) {
	if s.step > 0 {
		s.gap = max(s.gap, at-s.step)
	}
	s.step, s.moved = at, max(s.moved, at)
}

// pardon leaves out of the measure what lies before a moment: nobody looked.
func (s *stallClock) pardon(at time.Duration) {
	s.moved = max(s.moved, at)
	if s.step > 0 {
		s.step = max(s.step, at) // nor was that a gap of the trainer's
	}
}

// usualGaps is how many of the longest gaps between steps are no sign of a stall
// when nobody has set a limit.
const usualGaps = 20

// limit is how long a trainer may go without progress, and since when.
//
// A limit from the job counts steps and checkpoints alone. Without one, a trainer
// that tells steps has twice the silence limit, or twenty times its longest gap
// between steps if that is longer; and there any output is a sign of life too,
// since an evaluation makes no steps but talks. One that tells no steps is left
// alone: nobody knows what is usual for it. 0 is no limit.
func (s *stallClock) limit(set int64, t events.Timers, output time.Duration) (limit, since time.Duration) {
	switch {
	case set > 0:
		return time.Duration(set) * time.Second, s.moved
	case set < 0 || s.step == 0:
		return 0, 0
	}
	return max(2*t.Silence, usualGaps*s.gap), max(s.moved, output)
}

// watchForStall finds a trainer that makes no progress. It is called with every
// turn of the loop, and a turn that came late means that the agent itself was
// stopped, or its machine asleep, and saw nothing.
func (a *agent) watchForStall(now time.Duration) {
	late := now-a.turned > a.timers.Heartbeat
	a.turned = now
	if a.stage != training || a.trainer.stopping {
		return
	}
	s := &a.trainer.stall
	if late {
		s.pardon(now)
	}
	if a.ship.now != nil || a.diskFull() { // the trainer waits for the machine, or cannot tell its steps
		s.moved = max(s.moved, now)
	}
	limit, since := s.limit(a.spec.Policy.ProgressTimeoutS, a.timers, time.Duration(a.output.Load()))
	if limit == 0 || now-since < limit {
		return
	}
	a.raise(a.stalled(limit, now-since))
}

func (a *agent) stalled(limit, quiet time.Duration) finding {
	at := "and has told no step"
	if a.trainer.step >= 0 {
		at = fmt.Sprintf("at step %d", a.trainer.step)
	}
	lines := a.logs.tail(50)
	if p, ok := a.trainer.process.(interface{ Describe() []string }); ok {
		lines = append(lines, p.Describe()...)
	}
	return finding{
		kind:   events.TroubleStalled,
		detail: fmt.Sprintf("no step and no checkpoint for %v %s (the limit is %v)", quiet.Round(time.Millisecond), at, limit),
		remedy: "see the last lines and where its processes wait; raise policy.progress_timeout if this is usual, then: spotferry job resume " + string(a.cfg.Bootstrap.Job),
		lines:  lines,
	}
}
