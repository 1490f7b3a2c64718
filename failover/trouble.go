package failover

import (
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Troubled carries what an agent found wrong with its machine or its trainer.
type Troubled struct{ events.JobTroubled }

// troubled takes an agent's word that going on would burn money. What a trainer
// does wrong it does wrong on every machine: the job pauses at once. A broken
// machine is left; a second one without a commit between is no accident.
func (s *stepper) troubled(in Troubled) {
	j := s.j
	if j.Over() || j.stopping() {
		return
	}
	if n := j.Next; n != nil && in.Lease == n.Lease && broken(in.Kind) {
		in.Epoch = n.Epoch
		s.record(in.JobTroubled)
		return
	}
	c := j.Current
	if c == nil || in.Lease != c.Lease || c.Faulty != "" {
		return
	}
	if broken(in.Kind) {
		in.Epoch = j.Epoch // the machine is what it is, under whatever epoch it says so
	} else if in.Epoch != j.Epoch || c.Exited {
		return
	}
	s.heard()
	s.record(in.JobTroubled)
}

// halted pauses a job for the trouble that was recorded.
func (s *stepper) halted() bool {
	t := s.j.Trouble
	if t.Kind == "" || s.j.Over() {
		return false
	}
	s.paused(events.JobPaused{Reason: events.PauseReason(t.Kind), Detail: t.Detail, Remedy: t.Remedy})
	return true
}

// giveUpNext drops a next machine that is broken.
func (s *stepper) giveUpNext() bool {
	n := s.j.Next
	if n == nil || n.Faulty == "" || s.j.Over() {
		return false
	}
	s.record(events.JobLost{Epoch: n.Epoch, Lease: n.Lease, Cause: causeOf(n.Faulty), Detail: "its agent found it broken before it was placed"})
	return true
}

// broken says whether a trouble is the machine's, not the trainer's.
func broken(k events.Trouble) bool {
	return k == events.TroubleGPUFault || k == events.TroubleHostFault
}

// KnownTrouble says whether an agent may report this.
func KnownTrouble(k events.Trouble) bool {
	return broken(k) || k == events.TroubleStalled || k == events.TroubleRestoreIgnored
}

func causeOf(k events.Trouble) events.Cause {
	switch k {
	case events.TroubleGPUFault:
		return events.CauseGPUFault
	case events.TroubleHostFault:
		return events.CauseHostFault
	case events.TroubleStalled:
		return events.CauseStalled
	}
	return events.CauseTrainer
}

func foldTroubled(j Job, f events.JobTroubled, e events.Event) Job {
	here, there := j.Current != nil && f.Lease == j.Current.Lease, j.Next != nil && f.Lease == j.Next.Lease
	if !here && !there {
		return j
	}
	if again := broken(f.Kind) && j.failedBefore(f.Lease); again || !broken(f.Kind) {
		j.Trouble = f
	}
	if broken(f.Kind) {
		j.Fault = Fault{Lease: f.Lease, Commits: len(j.Commits)}
	}
	if !here {
		m := *j.Next
		m.Faulty = f.Kind
		j.Next = &m
		return j
	}
	if broken(f.Kind) {
		m := *j.Current
		m.Faulty = f.Kind
		j.Current = &m
	}
	j = j.troubledMove(f, e)
	j.Phase = j.runningPhase()
	return j
}

// failedBefore says whether another machine has failed the job since its newest commit.
func (j Job) failedBefore(this events.LeaseID) bool {
	return j.Fault.Lease != "" && j.Fault.Lease != this && j.Fault.Commits == len(j.Commits)
}

// troubledMove begins the move that a trouble makes.
func (j Job) troubledMove(f events.JobTroubled, e events.Event) Job {
	m := beginMove(j, causeOf(f.Kind), e, e.Time)
	m.say(f.Detail)
	m.Kept = !broken(f.Kind)
	m.LastStep = max(m.LastStep, f.Step)
	if old := j.Move; old != nil {
		m.Avoid = old.Avoid
	}
	if !m.Kept {
		m.Avoid = withPool(m.Avoid, j.Current.Pool)
	}
	j = j.begin(m, e)
	if j.Move != m {
		j.Move.Avoid = m.Avoid // begin made a new one
	}
	return j
}

// left remembers that an epoch ended in trouble, for its last words.
func (j Job) left(epoch int, l events.LeaseID, at time.Time) Job {
	if slices.ContainsFunc(j.Unspoken, func(x Left) bool { return x.Epoch == epoch }) || slices.Contains(j.Spoken, epoch) {
		return j
	}
	j.Unspoken = append(slices.Clone(j.Unspoken), Left{Epoch: epoch, Lease: l, At: at})
	return j
}
