package failover

import (
	"slices"
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
		if j.current(f.Epoch, f.Lease) {
			m := *j.Current
			m.Started, m.From = e.Time, f.From
			j.Current = &m
			if j.arriving() {
				mv := *j.Move
				mv.First = &e
				j.Move = &mv
			}
			j.Phase = j.runningPhase()
		}
	case events.JobNoticed:
		if j.current(f.Epoch, f.Lease) && !j.Over() {
			j.Notice = &Notice{Event: e.ID, Seen: f.Seen, Recorded: e.Time, Deadline: f.Deadline}
			j.FinalSaved = false
			j.Phase = j.runningPhase()
			if j.arriving() {
				j.Move = j.Move.with(e.ID)
			} else {
				j.Move = beginMove(j, events.CauseNotice, e, f.Seen)
				j.Move.NoticeFor = f.Deadline.Sub(f.Seen)
			}
		}
	case events.JobNoticeWithdrawn:
		if j.current(f.Epoch, f.Lease) {
			j = j.stay()
		}
	case events.JobCommitted:
		j = foldCommitted(j, f, e.Time)
	case events.JobCheckpointRejected:
		j.Rejected = append(slices.Clone(j.Rejected), f.Checkpoint.Name)
	case events.JobLost:
		j = foldLost(j, f, e)
	case events.JobHeard:
		if j.current(f.Epoch, f.Lease) {
			m := *j.Current
			m.Silent = false
			j.Current = &m
			if j.Notice == nil {
				j = j.stay()
			}
			j.Phase = j.runningPhase()
		}
	case events.JobExited:
		j = foldExited(j, f, e)
	case events.JobMoveRequested:
		j.Move = beginMove(j, f.Cause, e, e.Time)
		j.FinalSaved = false
		j.Phase = j.runningPhase()
	case events.JobStopping:
		j.Stopping, j.Phase, j.FinalSaved = f, Finishing, false
		j.StopBy = e.Time.Add(stopWithin)
	case events.JobEnded:
		j.Outcome, j.Reason, j.ExitCode, j.Ended = f.Outcome, f.Reason, f.ExitCode, e.Time
	case events.JobReleased:
		j.Open = slices.DeleteFunc(slices.Clone(j.Open), func(l events.LeaseID) bool { return l == f.Lease })
	case events.JobClosed:
		j.Closed = true
	case events.JobFailedOver:
		j.Failovers, j.Move = f.Record.N, nil
	}
	return j
}

// stopWithin is how long a machine that was told to save and stop may take
// before the job ends without it. The seller's teardown bound is reserved for it.
const stopWithin = time.Minute

// runningPhase is the phase of a job with a current machine.
func (j Job) runningPhase() Phase {
	switch {
	case j.Phase == Finishing:
		return Finishing
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

// moving says whether a voluntary move has begun.
func (j Job) moving() bool { return j.Move != nil && j.Move.Voluntary }

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

// stay keeps the job on its current machine: the reason to leave is gone. A next
// machine stays in Open until it is confirmed gone.
func (j Job) stay() Job {
	j.Notice, j.FinalSaved, j.Next = nil, false, nil
	if !j.arriving() {
		j.Move = nil
	}
	j.Wait = events.JobWaiting{}
	j.Phase = j.runningPhase()
	return j
}

func foldLeased(j Job, f events.JobLeased) Job {
	if !slices.Contains(j.Leases, f.Lease) {
		j.Leases = append(slices.Clone(j.Leases), f.Lease)
		j.Open = append(slices.Clone(j.Open), f.Lease)
	}
	if f.Epoch == j.NextEpoch {
		if _, _, n, err := f.Lease.Parts(); err == nil && n >= j.NextN {
			j.NextN = n + 1
		}
	}
	if f.Surplus {
		return j
	}
	j.Next = &Machine{
		Lease: f.Lease, Epoch: f.Epoch, Pool: f.Pool, Instance: f.Instance, Price: f.Price, Purpose: f.Purpose,
		Decision: f.Decision, Decided: f.Decided, Bought: f.Bought, BootBy: f.BootBy,
	}
	j.Wait = events.JobWaiting{}
	if j.Phase == Waiting {
		j.Phase = Acquiring
	}
	return j
}

func foldJoined(j Job, f events.JobJoined, at time.Time) Job {
	j.NextEpoch, j.NextN = max(j.NextEpoch, f.Epoch+1), 1
	j.Keys = append(slices.Clone(j.Keys), f.Key)
	if j.Next != nil && j.Next.Lease == f.Lease {
		m := *j.Next
		m.Joined, m.Key = at, f.Key
		j.Next = &m
	}
	return j
}

func foldPlaced(j Job, f events.JobPlaced, at time.Time) Job {
	if f.Epoch <= j.Epoch {
		return j
	}
	var m Machine
	switch {
	case j.Next != nil && j.Next.Lease == f.Lease:
		m = *j.Next
		j.Next = nil
	case j.Current != nil && j.Current.Lease == f.Lease: // in place
		m = *j.Current
		m.Exited, m.Started = false, time.Time{}
		m.Restarts++
		j.Next = nil // bought under the epoch that this restart takes
	default:
		return j
	}
	m.Epoch, m.Placed, m.From = f.Epoch, at, 0
	if f.Resume != nil {
		m.From = f.Resume.Step
	}
	j.Epoch, j.Current = f.Epoch, &m
	if j.NextEpoch <= f.Epoch {
		j.NextEpoch, j.NextN = f.Epoch+1, 1
	}
	j.Notice, j.FinalSaved, j.Wait = nil, false, events.JobWaiting{}
	if j.Move != nil {
		mv := *j.Move
		mv.Placed, mv.To, mv.Voluntary = at, m, false
		j.Move = &mv
	}
	if j.Phase != Finishing {
		j.Phase = Starting
		if f.Resume != nil {
			j.Phase = Restoring
		}
	}
	return j
}

func foldCommitted(j Job, f events.JobCommitted, at time.Time) Job {
	if !j.current(f.Epoch, f.Lease) {
		return j // void: the epoch is over
	}
	if j.committed(f.Checkpoint.Name) == nil {
		j.Commits = append(slices.Clone(j.Commits), f.Checkpoint)
		j.CommitAt = append(slices.Clone(j.CommitAt), at)
	}
	if f.Final {
		j.FinalSaved = true
	}
	m := *j.Current
	m.Restarts = 0
	j.Current = &m
	if j.Move != nil && j.Move.From.Epoch == f.Epoch {
		mv := *j.Move
		mv.LastCommit, mv.SaveMS, mv.UploadMS = at, f.SaveMS, f.UploadMS
		if f.Final {
			mv.Drained = at
		}
		mv.LastStep = max(mv.LastStep, f.Checkpoint.Step)
		j.Move = &mv
	}
	return j
}

func foldLost(j Job, f events.JobLost, e events.Event) Job {
	if j.Next != nil && f.Lease == j.Next.Lease {
		j.Next = nil
		return j
	}
	if !j.current(f.Epoch, f.Lease) {
		return j
	}
	if j.Move == nil {
		j.Move = beginMove(j, f.Cause, e, f.LastSeen)
	}
	mv := *j.Move
	mv.lose(f, e)
	j.Move = &mv
	if f.Cause == events.CauseSilent {
		m := *j.Current
		m.Silent = true
		j.Current = &m
	} else {
		j.Current, j.Notice = nil, nil
	}
	j.Phase = j.runningPhase()
	return j
}

func foldExited(j Job, f events.JobExited, e events.Event) Job {
	if !j.current(f.Epoch, f.Lease) {
		return j
	}
	m := *j.Current
	m.Exited = true
	j.Current = &m
	if f.Signal == "" {
		j.Crash = Crash{Code: f.Code, Step: j.Step(), Seen: true}
	}
	if j.Move == nil {
		j.Move = beginMove(j, events.CauseTrainer, e, e.Time)
	}
	if j.arriving() {
		j.Move = j.Move.with(e.ID)
	} else {
		mv := *j.Move
		mv.LastStep = max(mv.LastStep, f.LastStep)
		mv.Lost, mv.Drained = e.Time, e.Time
		j.Move = &mv
	}
	j.Phase = j.runningPhase()
	return j
}
