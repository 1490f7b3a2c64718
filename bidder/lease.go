package bidder

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// phase is where a lease is in its life.
type phase string

const (
	absent      phase = "" // no event yet
	intended    phase = "intended"
	unknown     phase = "unknown"
	launched    phase = "launched"
	terminating phase = "terminating"
	ended       phase = "ended"
	refused     phase = "refused"
	declined    phase = "declined"
)

// lease is the fold of a lease's events.
type lease struct {
	id        events.LeaseID
	org       events.OrgID
	phase     phase
	newest    events.Event
	intent    events.LeaseIntended
	intentAt  time.Time // control
	intentPos uint64    // of the intent in the stream, where freezes and holds stand too
	unknownAt time.Time // control
	launch    events.LeaseLaunched
	instance  events.InstanceID
	seller    string
	decline   events.LeaseDeclined
	end       events.LeaseEnded
	why       string // of the termination
}

// apply folds the next event; one that is not newer changes nothing.
func (l lease) apply(e events.Event) lease {
	if e.Sequence <= l.newest.Sequence {
		return l
	}
	l.id, l.org, l.newest = events.LeaseID(e.Aggregate.ID), e.Aggregate.Org, e
	switch f := e.Fact.(type) {
	case events.LeaseIntended:
		l.phase, l.intent, l.seller = intended, f, f.Offer.Pool.Seller
		l.intentAt, l.intentPos = e.Time, e.Position
	case events.LeaseDeclined:
		l.phase, l.decline = declined, f
	case events.LeaseRefused:
		l.phase = refused
	case events.LeaseUnknown:
		l.phase, l.unknownAt = unknown, e.Time
	case events.LeaseLaunched:
		l.phase, l.launch, l.instance = launched, f, f.Instance
	case events.LeaseTerminating:
		l.phase, l.why = terminating, f.Reason
		if f.Instance != "" {
			l.instance, l.seller = f.Instance, f.Pool.Seller
		}
	case events.LeaseEnded:
		l.phase, l.end, l.instance = ended, f, f.Instance
	}
	return l
}

// open says whether a machine may be ours under this lease.
func (l lease) open() bool {
	return l.phase == intended || l.phase == unknown || l.phase == launched || l.phase == terminating
}

// hasMachine says whether one is.
func (l lease) hasMachine() bool { return l.phase == launched || l.phase == terminating }

func (l lease) epoch() int { _, e, _, _ := l.id.Parts(); return e }
func (l lease) n() int     { _, _, n, _ := l.id.Parts(); return n }
