package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// How many machines in a row may fail a job before nothing more is bought for it.
const (
	maxEarly  = 3 // lost before their first step
	maxBarren = 6 // lost without a commit between, first steps or not
)

// WaitAfterLoss is the reason of a wait between machines that are lost before their first step.
const WaitAfterLoss = "waiting-after-loss"

// Streak is machines in a row that cost money and brought the job nothing. What a
// seller takes back is the market's doing and only slows the next purchase.
type Streak struct {
	Early  int           // lost before their first step, for whatever reason
	Faults int           // of those, by their own fault, without a commit between
	Barren int           // lost by their own fault without a commit between
	Pools  []events.Pool // of those in Early
	Seen   []string      // what was seen of the newest faults
	Until  time.Time     // control time before which no other machine is bought
}

// spent says whether the streak is too long to be an accident.
func (s Streak) spent() bool { return s.Faults >= maxEarly || s.Barren >= maxBarren }

// exhausted says whether the job needs a machine and none is worth buying. One
// that still computes goes on.
func (j Job) exhausted() bool { return j.Streak.spent() && j.idle() && j.needsMachine() }

// wasted counts a machine that is lost and brought nothing. That somebody ended it
// on purpose, or that it was no more than a wish of the bidder's, says nothing.
func (j Job) wasted(m Machine, f events.JobLost, at time.Time) Job {
	early, fault := m.Started.IsZero(), true
	switch f.Cause {
	case events.CauseOperator:
		return j
	case events.CauseNotice, events.CauseReclaim, events.CauseOutbid:
		fault = false
	case events.CauseSilent:
		fault = early // of one that ran, nobody knows
	}
	if !early && !fault || m.Silent || m.Purpose.Voluntary() && m.Placed.IsZero() {
		return j
	}
	s := j.Streak
	if fault {
		s.Barren++
		s.Seen = append(slices.Clone(s.Seen), fmt.Sprintf("%s: %s", m.Pool, f.Detail))
		s.Seen = s.Seen[max(len(s.Seen)-maxEarly, 0):]
	}
	if early {
		s.Early++
		s.Pools = withPool(s.Pools, m.Pool)
		if fault {
			s.Faults++
		}
		if rest := m.rest(s.Early, fault); rest > 0 {
			s.Until = at.Add(rest)
		}
	}
	j.Streak = s
	return j
}

// rest is how long the next purchase waits after the n-th machine in a row lost
// before its first step: a heartbeat, then twice as long each time, at most as
// long as a machine may boot. The first that a seller takes back is replaced at
// once. Both waits follow from what the machine was given to boot: a heartbeat is
// a 120th of it.
func (m Machine) rest(n int, fault bool) time.Duration {
	if !fault {
		n--
	}
	boot := max(m.BootBy.Sub(m.Bought), 0)
	if n < 1 {
		return 0
	}
	return min(boot/120<<min(n-1, 10), boot)
}

// stepped ends the streak of machines that made no step.
func (s Streak) stepped() Streak {
	if s.Barren == 0 {
		return Streak{}
	}
	return Streak{Barren: s.Barren, Seen: s.Seen}
}

// committed ends what would pause the job. Machines that it is to move to may
// still fail while it computes: the next of them waits as before.
func (s Streak) committed(first bool) Streak {
	if first {
		return Streak{}
	}
	s.Faults, s.Barren = 0, 0
	return s
}

// giveUp pauses a job for which machine after machine was bought in vain.
func (s *stepper) giveUp() bool {
	j := s.j
	if !j.exhausted() {
		return false
	}
	seen := strings.Join(j.Streak.Seen, "; ")
	f := events.JobPaused{Reason: events.PauseHostFault,
		Detail: fmt.Sprintf("%d machines in a row failed without a checkpoint between, the last: %s", j.Streak.Barren, seen),
		Remedy: "see what the machines and the trainer last wrote, and whether they run out of memory; then resume the job"}
	if j.Streak.Faults >= maxEarly {
		f.Detail = fmt.Sprintf("%d machines in a row failed before their first step: %s", j.Streak.Faults, seen)
		f.Remedy = "nothing more is bought until somebody has looked: see the last lines of their agents and what setup needs, hold the pool if only its machines do this, then resume the job"
	}
	s.paused(f)
	return true
}

// holdOff says that the next purchase waits, and for what.
func (s *stepper) holdOff() bool {
	j := s.j
	if !j.wantsMachine() || !s.now.Control.Before(j.Streak.Until) || !j.Wait.RetryAt.Before(j.Streak.Until) {
		return false
	}
	detail := fmt.Sprintf("%d in a row were lost before their first step", j.Streak.Early)
	if n := len(j.Streak.Seen); n > 0 {
		detail += ", the last failed: " + j.Streak.Seen[n-1]
	}
	s.record(events.JobWaiting{Reason: WaitAfterLoss, Detail: detail, RetryAt: j.Streak.Until})
	return true
}
