package failover

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// What people do to a job besides submitting and cancelling it. Doing the same
// twice does it once; what makes no sense now is refused, see Refuse.
type (
	// Pause saves, stops and gives the machine back until the job is resumed.
	Pause struct{ By, Reason string }
	// Resume takes a paused job up again.
	Resume struct{ By, Reason string }
	// Migrate seeks another machine while the job computes, then saves and moves.
	Migrate struct{ By, Reason string }
	// Drill is a failover on demand. With notice the agent saves, a replacement is
	// sought meanwhile, and the machine is taken when saved or at the Deadline;
	// with NoNotice it is given back at once and found gone like any other.
	Drill struct {
		By, Reason string
		NoNotice   bool
		Deadline   time.Time // control time; zero: drillNotice from now
	}
)

// ByBudget resumes a job that was paused for want of money, when there is money again.
const ByBudget = "budget"

// drillNotice is what a drill gives when nobody says otherwise: the notice of the large sellers.
const drillNotice = 2 * time.Minute

// maxDrillNotice bounds a drill's notice: longer is a migration.
const maxDrillNotice = time.Hour

// why is a person's act in words, for records.
func why(act, by, reason string) string {
	s := act + " by " + by
	if reason != "" {
		s += ": " + reason
	}
	return s
}

// hands carries a person's act out; Refuse has let it pass.
func (s *stepper) hands(in Input) {
	j := s.j
	if Refuse(j, s.now, in) != nil {
		return
	}
	switch in := in.(type) {
	case Pause:
		if j.Phase != Paused && j.Phase != Pausing {
			s.pause(events.JobPausing{Reason: events.PausedByPerson, Detail: in.Reason, By: in.By})
		}
	case Resume:
		if j.Phase == Paused {
			s.record(events.JobResumed{By: in.By, Reason: in.Reason})
		}
	case Migrate:
		if !j.migrating(in) {
			s.record(events.JobMoveRequested{Epoch: j.Epoch, Cause: events.CauseOperator, By: in.By, Reason: in.Reason})
		}
	case Drill:
		if !j.drilling(in) {
			s.drill(in)
		}
	}
}

func (s *stepper) drill(in Drill) {
	f := events.JobDrilled{Epoch: s.j.Epoch, Lease: s.j.Current.Lease, NoNotice: in.NoNotice, By: in.By, Reason: in.Reason}
	if !in.NoNotice {
		f.Deadline = in.Deadline
		if f.Deadline.IsZero() {
			f.Deadline = s.now.Control.Add(drillNotice)
		}
	}
	s.record(f)
}

// pause begins an orderly save and stop before a pause; with nothing running it is the pause at once.
func (s *stepper) pause(f events.JobPausing) {
	if s.j.idle() {
		s.paused(events.JobPaused{Reason: f.Reason, Detail: f.Detail, By: f.By})
		return
	}
	s.record(f)
}

func (s *stepper) paused(f events.JobPaused) {
	f.Checkpoint = s.j.Newest()
	if f.Remedy == "" {
		f.Remedy = remedy(f.Reason)
	}
	s.record(f)
}

// idle says whether no trainer can save any more.
func (j Job) idle() bool {
	c := j.Current
	return c == nil || c.Silent || c.Exited || c.Faulty != ""
}

// remedy is what a person can do about a pause when its trouble told nothing better.
func remedy(r events.PauseReason) string {
	switch r {
	case events.PausedByBudget:
		return "raise the budget; the job then goes on by itself"
	case events.PauseRestoreIgnored:
		return "have the trainer resume from its checkpoint directory, then resume the job"
	case events.PauseStalled:
		return "see the last log lines; resume the job, or raise policy.progress_timeout"
	case events.PauseGPUFault, events.PauseHostFault:
		return "two machines in a row failed without a checkpoint between: see their last log lines, then resume the job"
	}
	return "resume or cancel the job"
}

func foldDrilled(j Job, f events.JobDrilled, e events.Event) Job {
	if !j.current(f.Epoch, f.Lease) || j.Over() {
		return j
	}
	m := *j.Current
	m.Drill = Rehearsal{Event: e.ID, At: e.Time, Why: why("drill", f.By, f.Reason), Taken: f.NoNotice}
	j.Current = &m
	if f.NoNotice {
		return j
	}
	j.Notice = &Notice{Event: e.ID, Seen: e.Time, Recorded: e.Time, Deadline: f.Deadline, Drill: true}
	j.FinalSaved = false
	j.Move = beginMove(j, events.CauseOperator, e, e.Time)
	j.Move.NoticeFor = f.Deadline.Sub(e.Time)
	j.Phase = j.runningPhase()
	return j
}

func foldPausing(j Job, f events.JobPausing, e events.Event) Job {
	j.Pause = events.JobPaused{Reason: f.Reason, Detail: f.Detail, By: f.By}
	j.Phase, j.FinalSaved = Pausing, false
	j.StopBy = e.Time.Add(j.stopWithin())
	j.Next, j.Wait, j.Resumed = nil, events.JobWaiting{}, events.JobResumed{}
	return j.halt(e, j.Pause)
}

func foldPaused(j Job, f events.JobPaused, e events.Event) Job {
	j.Pause, j.Phase = f, Paused
	if c := j.Current; c != nil && f.Reason != events.PausedByPerson && f.Reason != events.PausedByBudget {
		j = j.left(j.Epoch, c.Lease, e.Time)
	}
	j = j.halt(e, f)
	if mv := j.Move; mv != nil {
		m := *mv
		m.leaveAt(e.Time)
		if m.WaitFrom.IsZero() {
			m.WaitFrom = e.Time
		}
		j.Move = &m
	}
	j.Current, j.Next, j.Notice, j.FinalSaved = nil, nil, nil, false
	j.Trouble, j.Wait, j.Resumed = events.JobTroubled{}, events.JobWaiting{}, events.JobResumed{}
	return j
}

// halt begins the move that a pause makes, unless one is under way: the next
// machine's record then says why this one was left.
func (j Job) halt(e events.Event, f events.JobPaused) Job {
	if j.Move == nil {
		if j.Current == nil {
			return j // never placed
		}
		j.Move = beginMove(j, events.CauseOperator, e, e.Time)
		j.Move.Detail = string(f.Reason)
		if f.By != "" {
			j.Move.Detail = why("paused", f.By, f.Detail)
		}
		j.Move.Kept = true
		return j
	}
	mv := *j.Move.with(e.ID)
	mv.Asked, mv.Voluntary = false, false
	j.Move = &mv
	return j
}

func foldResumed(j Job, f events.JobResumed) Job {
	j.Resumed, j.Phase = f, Acquiring
	j.Pause = events.JobPaused{}
	j.Fault, j.Streak, j.Crash, j.Restarts = Fault{}, Streak{}, Crash{}, 0
	return j
}
