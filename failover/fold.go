package failover

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// Replay folds a job's events from the beginning.
func Replay(evs []events.Event) Job {
	var j Job
	for _, e := range evs {
		j = Fold(j, e)
	}
	return j
}

// Fold returns the job as it is after one of its own events. Events are folded
// in order and each once; one whose sequence is not the next changes nothing.
func Fold(j Job, e events.Event) Job {
	if e.Sequence != j.Sequence+1 {
		return j
	}
	j.Sequence, j.Position, j.last = e.Sequence, e.Position, &e
	switch f := e.Fact.(type) {
	case events.JobSubmitted:
		j.ID, j.Aggregate, j.Attribution = events.JobID(e.Aggregate.ID), e.Aggregate, e.Attribution
		j.Spec, j.SpecEvent, j.By = f.Spec, e.ID, f.By
		j.Submitted = events.Moment{Control: e.Time, Market: f.Market}
		j.Phase, j.NextEpoch, j.NextN = Acquiring, 1, 1
	case events.JobWaiting:
		j.Wait = f
		if j.Current == nil {
			j.Phase = Waiting
		}
		if f.Reason == string(events.OutOfBudget) && j.optional() {
			j = j.stay() // what a person would like is not worth the job
		}
		if j.Move != nil && j.Move.WaitFrom.IsZero() {
			mv := *j.Move
			mv.WaitFrom = e.Time
			j.Move = &mv
		}
		j = j.usedLease(f.Decision)
	case events.JobLeased:
		j = foldLeased(j, f)
	case events.JobJoined:
		j = foldJoined(j, f, e.Time)
	case events.JobPlaced:
		j = foldPlaced(j, f, e.Time)
	case events.JobStarted:
		j = foldStarted(j, f, e)
	case events.JobNoticed:
		j = foldNoticed(j, f, e)
	case events.JobNoticeWithdrawn:
		if j.current(f.Epoch, f.Lease) {
			j = j.stay()
		}
	case events.JobCommitted:
		j = foldCommitted(j, f, e.Time)
	case events.JobCheckpointRejected:
		j = foldRejected(j, f, e.Time)
	case events.JobCheckpointPinned:
		j = foldPinned(j, f, e.Time)
	case events.JobCheckpointsDropped:
		j = foldDropped(j, f, e.Time)
	case events.JobLost:
		j = foldLost(j, f, e)
	case events.JobHeard:
		j = foldHeard(j, f, e)
	case events.JobExited:
		j = foldExited(j, f, e)
	case events.JobTroubled:
		j = foldTroubled(j, f, e)
	case events.JobMoveRequested:
		j.Move = beginMove(j, f.Cause, e, e.Time)
		j.FinalSaved = false
		j.Phase = j.runningPhase()
	case events.JobDrilled:
		j = foldDrilled(j, f, e)
	case events.JobPausing:
		j = foldPausing(j, f, e)
	case events.JobPaused:
		j = foldPaused(j, f, e)
	case events.JobResumed:
		j = foldResumed(j, f)
	case events.JobStopping:
		j.Stopping, j.Phase, j.FinalSaved = f, Finishing, false
		j.StopBy = e.Time.Add(j.stopWithin())
	case events.JobEnded:
		j.Outcome, j.Reason, j.ExitCode, j.Ended = f.Outcome, f.Reason, f.ExitCode, e.Time
		if j.Current != nil && f.Outcome == events.Failed {
			j = j.left(j.Epoch, j.Current.Lease, e.Time)
		}
	case events.JobReleased:
		j = foldReleased(j, f)
	case events.JobClosed:
		j.Closed = true
	case events.JobFailedOver:
		j = foldFailedOver(j, f)
	case events.JobFailoverRefined:
		j = foldRefined(j, f)
	case events.JobLastWords:
		j = foldLastWords(j, f)
	}
	return j
}

// stopWithin is how long a machine that was told to save and stop may take
// before the job goes on without it. The seller's teardown bound is reserved for it.
func (j Job) stopWithin() time.Duration {
	return max(time.Minute, time.Duration(j.Spec.Policy.Checkpoint.GraceS)*time.Second)
}

// runningPhase is the phase of a job with a current machine.
func (j Job) runningPhase() Phase {
	switch {
	case j.Phase == Finishing || j.Phase == Pausing || j.Phase == Paused:
		return j.Phase
	case j.Current == nil && j.Wait.Reason != "":
		return Waiting
	case j.Current == nil:
		return Acquiring
	case j.leaving() || j.moving():
		return Draining
	case !j.Current.Started.IsZero():
		return Running
	case j.Current.From > 0:
		return Restoring
	}
	return Starting
}

// arriving says whether a move has been placed here and waits for its first
// step. Whatever happens to the machine until then, the move goes on: what was
// lost on the machine before is not told yet.
func (j Job) arriving() bool { return j.Move != nil && !j.Move.Placed.IsZero() }

// moving says whether a voluntary move is under way, its machine ready.
func (j Job) moving() bool {
	return j.Move != nil && j.Move.Voluntary && j.Next != nil && !j.Next.Joined.IsZero()
}

func (j Job) current(epoch int, l events.LeaseID) bool {
	return j.Current != nil && epoch == j.Epoch && l == j.Current.Lease
}

// usedLease remembers that a lease number of the next epoch has been used up.
func (j Job) usedLease(id events.EventID) Job {
	_, epoch, n, err := leaseOfEvent(id)
	if err == nil && epoch == j.NextEpoch && n >= j.NextN {
		j.NextN = n + 1
	}
	return j
}

// stay keeps the job on its current machine: the reason to leave is gone, unless
// there is another. A next machine stays in Open until it is confirmed gone.
func (j Job) stay() Job {
	j.Notice, j.FinalSaved = nil, false
	if j.leaving() {
		j.Phase = j.runningPhase()
		return j
	}
	m := *j.Current
	if !m.Drill.Taken {
		m.Drill = Rehearsal{}
	}
	j.Current, j.Next = &m, nil
	if !j.arriving() {
		j.Move = nil
	} else if j.Move.After != nil {
		mv := *j.Move
		mv.After = nil
		j.Move = &mv
	}
	j.Wait = events.JobWaiting{}
	j.Phase = j.runningPhase()
	return j
}
