package agent

import (
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// standing is what an agent may do, as of its newest answered renewal. Times are
// of the monotonic clock.
type standing struct {
	last   time.Duration // when that renewal was sent
	paidBy time.Duration // when the machine must be gone if nobody says otherwise; 0: not limited
}

// renewed is the standing after a renewal sent at a time was answered. An answer
// that was overtaken by a later one changes nothing.
func (s standing) renewed(sent, paidFor time.Duration) standing {
	if sent < s.last {
		return s
	}
	s = standing{last: sent}
	if paidFor > 0 {
		s.paidBy = sent + paidFor
	}
	return s
}

// holds reports whether a commit may be asked for now.
func (s standing) holds(now time.Duration, t events.Timers) bool { return now-s.last < t.Hold }

// ends reports whether the machine has to be given up, and why. need is how long
// saving and stopping take: what is paid for must be over by then, so it is
// begun earlier. While the hold is valid the gateway's word wins.
func (s standing) ends(now, need time.Duration, t events.Timers) (bool, string) {
	switch {
	case s.holds(now, t):
		return false, ""
	case now-s.last >= t.Silence:
		return true, "no contact for " + t.Silence.String()
	case s.paidBy > 0 && now >= s.paidBy-need:
		return true, "no contact, and the machine is paid for until now"
	}
	return false, ""
}

// shared is a standing that the renewer changes and others read.
type shared struct {
	mu sync.Mutex
	s  standing
}

func (c *shared) get() standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s
}

func (c *shared) renewed(sent, paidFor time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s = c.s.renewed(sent, paidFor)
}
