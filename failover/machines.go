package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

func foldStarted(j Job, f events.JobStarted, e events.Event) Job {
	if !j.current(f.Epoch, f.Lease) {
		return j
	}
	m := *j.Current
	m.Started, m.From = e.Time, f.From
	j.Current, j.Streak = &m, j.Streak.stepped()
	if j.arriving() {
		mv := *j.Move
		mv.First = &e
		j.Move = &mv
	}
	j.Phase = j.runningPhase()
	return j
}

func foldNoticed(j Job, f events.JobNoticed, e events.Event) Job {
	if !j.current(f.Epoch, f.Lease) || j.Over() {
		return j
	}
	j.Notice = &Notice{Event: e.ID, Seen: f.Seen, Recorded: e.Time, Deadline: f.Deadline}
	j.FinalSaved = false
	j.Phase = j.runningPhase()
	m := beginMove(j, events.CauseNotice, e, f.Seen)
	m.NoticeFor = f.Deadline.Sub(f.Seen)
	m.say(fmt.Sprintf("the seller gave %s", m.NoticeFor.Round(time.Second)))
	return j.begin(m, e)
}

func foldHeard(j Job, f events.JobHeard, e events.Event) Job {
	switch mv := j.Move; {
	case j.current(f.Epoch, f.Lease):
		m := *j.Current
		m.Silent = false
		j.Current = &m
		if j.Notice == nil {
			return j.stay()
		}
		j.Phase = j.runningPhase()
	case mv != nil && mv.From.Epoch == f.Epoch:
		m := *mv.with(e.ID)
		m.Heard = true
		m.say(cutOff)
		j.Move = &m
	default:
		j.Unsettled = slices.Clone(j.Unsettled)
		for i, t := range j.Unsettled {
			if t.From.Epoch == f.Epoch && t.Heard == "" {
				j.Unsettled[i].Heard = e.ID
			}
		}
	}
	return j
}

func foldRejected(j Job, f events.JobCheckpointRejected, at time.Time) Job {
	j.Rejected = append(slices.Clone(j.Rejected), f.Checkpoint.Name)
	j.RejectAt = append(slices.Clone(j.RejectAt), at)
	if c := j.Current; c != nil && c.Started.IsZero() && j.current(f.Epoch, f.Lease) {
		m := *c
		m.From = j.Step() // an older one is restored instead
		j.Current = &m
	}
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
		if j.moving() { // now the save that matters is asked for
			j.FinalSaved, j.Phase = false, j.runningPhase()
		}
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
		m.Exited, m.Again, m.Started = false, false, time.Time{}
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
	j = j.moved(m, at)
	if j.Phase != Finishing {
		j.Phase = Starting
		if f.Resume != nil {
			j.Phase = Restoring
		}
	}
	return j
}

// moved notes a placement in the move under way.
func (j Job) moved(m Machine, at time.Time) Job {
	if j.Move == nil {
		return j
	}
	mv := *j.Move
	if mv.Asked && mv.From.Lease == m.Lease { // started again where it was; the move is still wanted
		mv.From = m
		j.Move = &mv
		return j
	}
	if mv.Placed.IsZero() && !mv.willing() {
		j = j.left(mv.From.Epoch, mv.From.Lease, at)
	}
	mv.Placed, mv.To, mv.Voluntary, mv.Asked, mv.After = at, m, false, false, nil
	j.Move = &mv
	return j
}

// willing says whether the old machine was left without any trouble.
func (m Move) willing() bool {
	switch m.Cause {
	case events.CauseReturn, events.CauseCheaper:
		return true
	case events.CauseOperator:
		return !m.Drill
	}
	return false
}

func foldCommitted(j Job, f events.JobCommitted, at time.Time) Job {
	if !j.current(f.Epoch, f.Lease) {
		return j // void: the epoch is over
	}
	if j.committed(f.Checkpoint.Name) == nil {
		j.Commits = append(slices.Clone(j.Commits), f.Checkpoint)
		j.CommitAt = append(slices.Clone(j.CommitAt), at)
		if j.Move != nil && j.Move.From.Epoch == f.Epoch { // the newest once more, as the last, is no save of the move
			mv := *j.Move
			mv.LastCommit, mv.SaveMS, mv.UploadMS = at, f.SaveMS, f.UploadMS
			j.Move = &mv
		}
	}
	if f.Final {
		j.FinalSaved = true
	}
	m := *j.Current
	m.Restarts = 0
	j.Current, j.Streak = &m, j.Streak.committed(m.Started.IsZero())
	if j.Move != nil && j.Move.From.Epoch == f.Epoch {
		mv := *j.Move
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
		return j.wasted(*j.Next, f, e.Time).lostNext(f)
	}
	if !j.current(f.Epoch, f.Lease) {
		return j
	}
	if j.Move == nil {
		j.Move = beginMove(j, f.Cause, e, f.LastSeen)
	}
	mv := *j.Move
	if j.arriving() {
		mv.Avoid, mv.After = withPool(mv.Avoid, j.Current.Pool), beginMove(j, f.Cause, e, f.LastSeen)
		mv.After.lose(f, e)
	}
	mv.lose(f, e)
	j.Move = &mv
	j = j.left(f.Epoch, f.Lease, e.Time).wasted(*j.Current, f, e.Time)
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

// lostNext forgets the next machine; another is sought if the job still needs one.
func (j Job) lostNext(f events.JobLost) Job {
	pool := j.Next.Pool
	j.Next = nil
	if mv := j.Move; mv != nil {
		m := *mv
		m.Avoid = withPool(m.Avoid, pool)
		j.Move = &m
		if m.Voluntary && !m.Asked && m.Placed.IsZero() && !j.leaving() {
			j = j.stay()
		}
	}
	j.Phase = j.runningPhase()
	return j
}
