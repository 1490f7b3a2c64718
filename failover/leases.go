package failover

import (
	"slices"

	"github.com/spotferry/spotferry/events"
)

func (s *stepper) bought(in Bought) {
	j := s.j
	intent, ok := in.Intent.Fact.(events.LeaseIntended)
	launched, ok2 := in.Launched.Fact.(events.LeaseLaunched)
	if !ok || !ok2 || slices.Contains(j.Leases, in.Lease) {
		return
	}
	s.causation = in.Launched.ID
	wanted := j.wantsMachine() || (intent.Purpose.Voluntary() && s.mayMove())
	s.record(events.JobLeased{
		Epoch: intent.Epoch, Lease: in.Lease, Pool: intent.Offer.Pool, Instance: launched.Instance, Price: launched.Price,
		Purpose: intent.Purpose, Decision: in.Intent.ID, Decided: in.Intent.Time, Bought: in.Launched.Time, BootBy: launched.BootBy,
		Surplus: !wanted || intent.Epoch != j.NextEpoch,
	})
}

// mayMove says whether a machine bought to move of our own accord is welcome now.
func (s *stepper) mayMove() bool {
	j := s.j
	return !j.Over() && j.Phase == Running && j.Next == nil && j.Move == nil
}

func (s *stepper) declined(in Declined) {
	f, ok := in.Event.Fact.(events.LeaseDeclined)
	j := s.j
	if !ok || j.Over() || j.stopping() || f.Reason == "superseded" {
		return
	}
	s.causation = in.Event.ID
	wanted := f.Epoch == j.NextEpoch && j.wantsMachine()
	if f.Reason == string(events.OutOfBudget) && (f.Epoch == j.Epoch || wanted && !j.optional()) {
		s.broke(f.Detail)
		return
	}
	if wanted && f.N >= j.NextN {
		s.record(events.JobWaiting{Reason: f.Reason, Detail: f.Detail, RetryAt: f.RetryAt, Decision: in.Event.ID})
	}
}

func (s *stepper) gone(in Gone) {
	f, ok := in.Event.Fact.(events.LeaseEnded)
	lease := events.LeaseID(in.Event.Aggregate.ID)
	if !ok || !s.j.holds(lease) {
		return
	}
	s.causation = in.Event.ID
	lost := events.JobLost{Lease: lease, Evidence: []events.EventID{in.Event.ID}}
	switch j := s.j; {
	case j.Over():
	case j.Current != nil && j.Current.Lease == lease:
		lost.Epoch, lost.LastStep, lost.LastSeen = j.Epoch, in.Heard.Step, in.Heard.At
		lost.Cause, lost.Detail = endCause(f.EndedBy, j.Current.Pool)
		switch {
		case j.Current.Drill.Event != "" && f.EndedBy == "us":
			lost.Detail = j.Current.Drill.Why
		case j.Notice != nil && !j.Notice.Drill:
			lost.Cause, lost.Detail = events.CauseNotice, "reclaimed after its notice"
		}
		s.record(lost)
	case j.Next != nil && j.Next.Lease == lease:
		lost.Epoch = j.Next.Epoch
		lost.Cause, lost.Detail = endCause(f.EndedBy, j.Next.Pool)
		s.record(lost)
	default:
		s.refine(lease, in.Event, f)
	}
	s.record(events.JobReleased{Lease: lease, EndedBy: f.EndedBy, Ended: in.Event.ID})
}

// broke saves and stops a job whose money is at its end: for good, or until there is more.
func (s *stepper) broke(detail string) {
	if s.j.Spec.Policy.OnBudget == "pause" {
		s.pause(events.JobPausing{Reason: events.PausedByBudget, Detail: detail})
		return
	}
	s.stop(events.OutOfBudget, detail)
}
