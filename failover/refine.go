package failover

import (
	"slices"

	"github.com/spotferry/spotferry/events"
)

// sharper returns the cause that the seller's word on the end of a machine makes
// of one that was a guess, and whether it does.
func sharper(was events.Cause, f events.LeaseEnded, p events.Pool) (events.Cause, string, bool) {
	if was != events.CauseSilent && was != events.CauseUnknown {
		return was, "", false
	}
	c, detail := endCause(f.EndedBy, p)
	if c == events.CauseOperator || c == events.CauseUnknown {
		return was, "", false // it was we who ended it, later
	}
	return c, detail, true
}

// endCause is why a machine ended, as its seller tells it.
func endCause(by string, p events.Pool) (events.Cause, string) {
	switch {
	case by == "seller" && p.Capacity == events.Bid:
		return events.CauseOutbid, "the seller confirmed the end: outbid"
	case by == "seller":
		return events.CauseReclaim, "the seller confirmed the end"
	case by == "fault":
		return events.CauseHostFault, "the machine failed"
	case by == "machine":
		return events.CauseHostFault, "the machine ended itself"
	case by == "us":
		return events.CauseOperator, "terminated by us"
	}
	return events.CauseUnknown, "the machine is gone; the seller does not say why"
}

// refine adds to a recorded move what its old machine's end tells.
func (s *stepper) refine(lease events.LeaseID, ended events.Event, f events.LeaseEnded) {
	for _, t := range s.j.Unsettled {
		if t.From.Lease != lease || t.Heard != "" || t.Back { // heard since, it was not yet gone then
			continue
		}
		if cause, detail, ok := sharper(t.Cause, f, t.From.Pool); ok {
			s.record(events.JobFailoverRefined{N: t.N, Cause: cause, Detail: detail, Evidence: []events.EventID{ended.ID}})
		}
	}
}

// returned takes word from an agent whose epoch is over: a machine given up as
// silent was cut off, not dead.
func (s *stepper) returned(epoch int) {
	if m := s.j.Move; m != nil && s.j.arriving() && m.From.Epoch == epoch && m.From.Lease != m.To.Lease && m.Cause == events.CauseSilent && !m.Heard {
		s.record(events.JobHeard{Epoch: epoch, Lease: m.From.Lease})
		return
	}
	for _, t := range s.j.Unsettled {
		if t.From.Epoch == epoch && t.Cause == events.CauseSilent && t.Heard == "" && !t.Back {
			s.record(events.JobHeard{Epoch: epoch, Lease: t.From.Lease})
		}
	}
}

const cutOff = "its agent was heard again: it was cut off, not dead"

// refineHeard tells of an agent that was heard after the record of its machine's loss.
func (s *stepper) refineHeard() bool {
	for _, t := range s.j.Unsettled {
		if t.Heard != "" && !t.Back && !s.j.Over() {
			s.record(events.JobFailoverRefined{N: t.N, Cause: t.Cause, Detail: cutOff, Evidence: []events.EventID{t.Heard}})
			return true
		}
	}
	return false
}

func foldFailedOver(j Job, f events.JobFailedOver) Job {
	r := f.Record
	if r.From.Lease != r.To.Lease && j.holds(r.From.Lease) {
		t := Told{N: r.N, Cause: r.Cause, From: r.From, Back: j.Move != nil && j.Move.Heard}
		j.Unsettled = append(slices.Clone(j.Unsettled), t)
	}
	var after *Move
	if j.Move != nil && j.Move.After != nil && j.Current != nil && j.leaving() {
		m := *j.Move.After
		m.From = *j.Current
		after = &m
	}
	j.Failovers, j.Move = r.N, after
	return j
}

func foldRefined(j Job, f events.JobFailoverRefined) Job {
	j.Unsettled = slices.Clone(j.Unsettled)
	for i, t := range j.Unsettled {
		if t.N == f.N {
			j.Unsettled[i].Back = t.Back || t.Cause == f.Cause
			j.Unsettled[i].Cause = f.Cause
		}
	}
	return j
}

// foldReleased drops a lease. A move from it that is not recorded yet takes the
// seller's word with it; of a recorded one there is nothing more to come.
func foldReleased(j Job, f events.JobReleased) Job {
	j.Open = slices.DeleteFunc(slices.Clone(j.Open), func(l events.LeaseID) bool { return l == f.Lease })
	j.Unsettled = slices.DeleteFunc(slices.Clone(j.Unsettled), func(t Told) bool { return t.From.Lease == f.Lease })
	if m := j.Move; m != nil && m.From.Lease == f.Lease && !m.Drill && !m.Heard {
		if cause, detail, ok := sharper(m.Cause, events.LeaseEnded{EndedBy: f.EndedBy}, m.From.Pool); ok {
			mv := *m.with(f.Ended)
			mv.Cause = cause
			mv.say(detail)
			j.Move = &mv
		}
	}
	return j
}
