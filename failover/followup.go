package failover

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// maxRestarts is how often a trainer is started again in place without a
// checkpoint between, before the machine is blamed. What the user's policy wants
// started again is, but ever later.
const maxRestarts = 3

// followUp records the next thing that the state and the time alone call for,
// and says whether there was one. A crash between two appends loses nothing: the next
// input of any kind, a Tick at the latest, finds it again.
func (s *stepper) followUp() bool {
	j, now := s.j, s.now.Control
	switch {
	case j.Sequence == 0:
		return false
	case s.leftOver():
		return true
	case j.Over():
		if !j.Closed && len(j.Open) == 0 {
			s.record(events.JobClosed{Leases: len(j.Leases), Failovers: j.Failovers})
			return true
		}
		return false
	case j.Phase == Finishing:
		if j.idle() || !now.Before(j.StopBy) {
			s.end(j.Stopping.Outcome, j.Stopping.Reason, 0)
			return true
		}
		return false
	case j.Phase == Pausing && (j.idle() || !now.Before(j.StopBy)):
		s.paused(j.Pause)
		return true
	case s.overdue():
		return true
	case j.Phase == Pausing || j.Phase == Paused:
		return false
	case j.Next != nil && j.Next.Joined.IsZero() && !now.Before(j.Next.BootBy):
		s.record(events.JobLost{Epoch: j.Next.Epoch, Lease: j.Next.Lease, Cause: events.CauseHostFault,
			Detail: fmt.Sprintf("its agent did not join within %s", j.Next.BootBy.Sub(j.Next.Bought).Round(time.Second))})
		return true
	case j.Current != nil && j.Next != nil && !j.Next.Joined.IsZero() && j.Next.Purpose.Voluntary() && j.Move == nil:
		s.record(events.JobMoveRequested{Epoch: j.Epoch, Cause: cause(j.Next.Purpose), By: "bidder",
			Reason: fmt.Sprintf("%s at %s an hour", j.Next.Pool, j.Next.Price)})
		return true
	case j.Next != nil && !j.Next.Joined.IsZero() && j.drained(now):
		s.record(events.JobPlaced{Epoch: j.Next.Epoch, Lease: j.Next.Lease, Pool: j.Next.Pool, Resume: j.Newest()})
		return true
	case j.Notice != nil && j.Notice.Drill && j.Current != nil && !now.Before(j.Notice.Deadline):
		s.record(events.JobLost{Epoch: j.Epoch, Lease: j.Current.Lease, Cause: events.CauseOperator, Detail: "taken at the end of the drill's notice"})
		return true
	case j.restartable(): // under a new epoch, on the same lease
		if now.Before(j.Current.ExitedAt.Add(j.Current.restartPause())) {
			return false
		}
		s.record(events.JobPlaced{Epoch: max(j.NextEpoch, j.Epoch+1), Lease: j.Current.Lease, Pool: j.Current.Pool, Resume: j.Newest()})
		return true
	}
	return false
}

func cause(p events.Purpose) events.Cause {
	if p == events.ForCheaper {
		return events.CauseCheaper
	}
	return events.CauseReturn
}

// overdue stops a job whose deadline or longest life has passed.
func (s *stepper) overdue() bool {
	p := s.j.Spec.Policy
	switch m := s.now.Market; {
	case !p.Deadline.IsZero() && !m.Before(p.Deadline):
		s.stop(events.MissedDeadline, "the deadline "+p.Deadline.UTC().Format(time.RFC3339)+" has passed")
	case p.MaxDurationS > 0 && !m.Before(s.j.Submitted.Market.Add(time.Duration(p.MaxDurationS)*time.Second)):
		s.stop(events.MissedDeadline, fmt.Sprintf("max_duration of %s is used up", time.Duration(p.MaxDurationS)*time.Second))
	default:
		return false
	}
	return true
}
