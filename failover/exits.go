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

func exitDetail(f events.JobExited) string {
	if f.Signal != "" {
		return "the trainer was killed by " + f.Signal
	}
	return fmt.Sprintf("the trainer exited with code %d", f.Code)
}
