package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// exited takes the end of a trainer on a machine that lives.
func (s *stepper) exited(in Exited) {
	j := s.j
	if !j.current(in.Epoch, in.Lease) || j.Over() || j.Current.Exited {
		return
	}
	own, told := in.Signal == "", in.OrderID != "" // by itself; told to stop
	switch {
	case in.Unrestorable:
		s.end(events.Failed, "a checkpoint was committed but none can be restored: "+in.Reason, 1)
	case j.Phase == Finishing:
		s.end(j.Stopping.Outcome, j.Stopping.Reason, in.Code)
	case own && in.Code == 0 && !told:
		s.end(events.Succeeded, "the trainer finished", 0)
	case j.Phase == Pausing:
		s.paused(j.Pause)
	default:
		if own && j.Notice == nil && j.Current.Faulty == "" {
			if why := j.hopeless(in.Code); why != "" {
				s.end(events.Failed, why, in.Code)
				return
			}
		}
		s.record(events.JobExited{
			Epoch: in.Epoch, Lease: in.Lease, Code: in.Code, Signal: in.Signal, LastStep: in.LastStep, Reason: in.Reason,
			OutOfMemory: in.OutOfMemory,
		})
	}
}

// hopeless says why a trainer that exited with a code of its own is not started
// again, "" if it is.
func (j Job) hopeless(code int) string {
	p := j.Spec.Policy
	switch {
	case slices.Contains(p.RestartOnExit, code):
		return ""
	case p.MaxRestarts < 0:
		return fmt.Sprintf("exit code %d, and policy.max_restarts allows no restart", code)
	case p.MaxRestarts > 0 && j.Restarts >= p.MaxRestarts:
		return fmt.Sprintf("exit code %d, and policy.max_restarts of %d is used up", code, p.MaxRestarts)
	case p.MaxRestarts == 0 && j.Crash.Seen && j.Crash.Code == code && j.Crash.Step == j.Step():
		return fmt.Sprintf("exit code %d twice at step %d without progress between", code, j.Step())
	}
	return ""
}

// restartPause is how long a trainer that the policy has started again and again
// waits for its next start: nothing for the first few, then twice as long each time.
func (m *Machine) restartPause() time.Duration {
	over := m.Restarts - maxRestarts
	if over < 0 {
		return 0
	}
	return min(time.Second<<min(over, 10), time.Minute)
}

func foldExited(j Job, f events.JobExited, e events.Event) Job {
	if !j.current(f.Epoch, f.Lease) {
		return j
	}
	m := *j.Current
	m.Exited, m.ExitedAt, m.Again = true, e.Time, false
	if f.Signal == "" && j.Notice == nil && m.Faulty == "" { // by its own doing
		listed := slices.Contains(j.Spec.Policy.RestartOnExit, f.Code)
		m.Again = listed || j.Spec.Policy.MaxRestarts > 0
		if !listed {
			j.Crash = Crash{Code: f.Code, Step: j.Step(), Seen: true}
			j.Restarts++
		}
	}
	j.Current = &m
	if j.blames(m) {
		j = j.blamed(f)
	}
	j = j.left(f.Epoch, f.Lease, e.Time)
	if j.Move == nil || j.arriving() {
		m := beginMove(j, events.CauseTrainer, e, e.Time)
		m.say(exitDetail(f))
		j = j.begin(m, e)
	}
	mv := *j.Move.with(e.ID)
	if !j.arriving() {
		mv.LastStep = max(mv.LastStep, f.LastStep)
		if !mv.Asked {
			mv.leaveAt(e.Time)
		}
	}
	j.Move = &mv
	j.Phase = j.runningPhase()
	return j
}

// blames says whether a machine is left because trainers keep dying on it.
func (j Job) blames(m Machine) bool {
	return m.Restarts >= maxRestarts && !m.Again && !m.Silent && m.Faulty == "" && j.Notice == nil
}

// blamed counts such a machine as one that failed. When the one before it failed
// as well, and nothing was committed between, it is not the machines.
func (j Job) blamed(f events.JobExited) Job {
	if j.failedBefore(f.Lease) {
		j.Trouble = events.JobTroubled{
			Epoch: f.Epoch, Lease: f.Lease, Kind: events.TroubleHostFault, Step: f.LastStep, Remedy: exitRemedy(f),
			Detail: fmt.Sprintf("%s, %d times in a row without a checkpoint between, on the second machine that failed the job", exitDetail(f), maxRestarts+1),
		}
	}
	j.Fault = Fault{Lease: f.Lease, Commits: len(j.Commits)}
	return j
}

// exitRemedy is what a person can do about a trainer that dies wherever it runs.
func exitRemedy(f events.JobExited) string {
	switch {
	case f.OutOfMemory:
		return "it needs more memory than its machines have: give it less to hold, or ask for more with resources.memory, then resume the job"
	case f.Signal != "":
		return "see its last lines and what sends it " + f.Signal + ", such as a limit on its memory, then resume the job"
	}
	return fmt.Sprintf("see its last lines before it exits with code %d, then resume the job", f.Code)
}

func exitDetail(f events.JobExited) string {
	if f.Signal != "" {
		if f.OutOfMemory {
			return "the trainer was killed by " + f.Signal + " for memory"
		}
		return "the trainer was killed by " + f.Signal
	}
	return fmt.Sprintf("the trainer exited with code %d", f.Code)
}
