package bidder

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// job is what the bidder folds of a job's events. It is made from the newest
// event of each kind as well as from all of them: nothing in it needs more.
type job struct {
	id        events.JobID
	org       events.OrgID
	owner     events.Attribution
	spec      events.JobSpec
	by        string
	submitted events.EventID
	began     time.Time    // market, of the submission
	newest    events.Event // carries what is owed
	epoch     int
	lease     events.LeaseID
	placed    time.Time // control
	idle      time.Time // control, since when there is no machine; zero while there is one
	noticed   bool
	stopping  bool // told to save and stop, or paused
	over      bool
	closed    bool
	started   events.JobStarted
	startedAt time.Time // control
	commit    *events.Checkpoint
	committed time.Time // control
	save      time.Duration
	pace      float64 // steps in a control hour, measured; 0: unknown
}

// apply folds an event; one that is not newer in the stream changes nothing.
func (j job) apply(e events.Event) job {
	if e.Position <= j.newest.Position && j.newest.Position > 0 {
		return j
	}
	j.id, j.org, j.newest = events.JobID(e.Aggregate.ID), e.Aggregate.Org, e
	switch f := e.Fact.(type) {
	case events.JobSubmitted:
		j.spec, j.by, j.submitted, j.began, j.owner, j.idle = f.Spec, f.By, e.ID, f.Market, e.Attribution, e.Time
	case events.JobPlaced:
		j.epoch, j.lease, j.placed, j.idle, j.noticed = f.Epoch, f.Lease, e.Time, time.Time{}, false
		if f.Resume != nil {
			j.commit = f.Resume
		}
	case events.JobStarted:
		j.started, j.startedAt = f, e.Time
	case events.JobCommitted:
		j = j.commits(e, f)
	case events.JobNoticed:
		j.noticed = true
	case events.JobNoticeWithdrawn:
		j.noticed = false
	case events.JobLost:
		if f.Lease == j.lease {
			j.idle = e.Time
		}
	case events.JobStopping, events.JobPausing, events.JobPaused:
		j.stopping = true
	case events.JobResumed:
		j.stopping, j.idle = false, e.Time
	case events.JobEnded:
		j.over = true
	case events.JobClosed:
		j.over, j.closed = true, true
	}
	return j
}

func (j job) commits(e events.Event, f events.JobCommitted) job {
	if f.Epoch < j.epoch {
		return j // void
	}
	c := f.Checkpoint
	j.commit, j.committed, j.save = &c, e.Time, time.Duration(f.SaveMS)*time.Millisecond
	if ran := e.Time.Sub(j.startedAt); j.started.Epoch == f.Epoch && ran > time.Second && c.Step > j.started.Step {
		j.pace = float64(c.Step-j.started.Step) / ran.Hours()
	}
	return j
}

func (j job) step() int64 {
	if j.commit == nil {
		return 0
	}
	return j.commit.Step
}

// workLeft is the hours of work left on the reference GPU at the newest commit, or
// false. Without hours in the spec it is judged by the pace of the current machine.
func (j job) workLeft(scale int64) (time.Duration, bool) {
	whole, known := WorkOf(j.spec)
	steps := j.spec.Policy.Work.Steps
	todo := max(steps-j.step(), 0)
	switch {
	case known && steps > 0:
		return span(whole * float64(todo) / float64(steps)), true
	case known:
		return span(whole), true
	case steps > 0 && j.pace > 0:
		return span(float64(todo) / j.pace * float64(scale)), true
	}
	return 0, false
}

// moves says whether the job computes undisturbed, so that a voluntary move may be weighed.
func (j job) moves() bool {
	return j.epoch > 0 && j.idle.IsZero() && !j.noticed && !j.stopping && !j.over &&
		len(events.Owed(j.newest, events.Acquire)) == 0
}
