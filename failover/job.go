package failover

import (
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Phase is where a job is in its life.
type Phase string

// The phases of a job that has not ended. After that its Outcome is its phase.
const (
	Acquiring Phase = "acquiring" // a machine is sought or boots; nothing runs
	Waiting   Phase = "waiting"   // holds still, for the reason in Job.Wait
	Starting  Phase = "starting"  // placed; no step yet, nothing restored
	Restoring Phase = "restoring" // placed; restoring a checkpoint, no step yet
	Running   Phase = "running"
	Draining  Phase = "draining"  // the machine is going: last save here, next machine on its way
	Finishing Phase = "finishing" // told to save and stop
	Pausing   Phase = "pausing"   // told to save and stop, to be paused
	Paused    Phase = "paused"    // holds no machine until it is resumed
)

// Job is the state of one job: what its events add up to. It is a value; Fold
// and Step return a new one and never change what they were given.
type Job struct {
	ID          events.JobID
	Aggregate   events.Aggregate
	Attribution events.Attribution
	Spec        events.JobSpec
	SpecEvent   events.EventID
	Submitted   events.Moment
	By          string

	Phase    Phase
	Wait     events.JobWaiting  // why no machine could be bought; zero unless one is sought
	Stopping events.JobStopping // valid while Phase is Finishing
	StopBy   time.Time          // control time after which a stop or a pause is enforced

	Pause   events.JobPaused   // why it pauses; valid while Phase is Pausing or Paused
	Resumed events.JobResumed  // who took it up last; valid until it pauses again
	Trouble events.JobTroubled // a trouble that pauses the job and has not yet; zero otherwise
	Fault   Fault
	Streak  Streak

	Outcome  events.Outcome // "" until it has ended
	Reason   string
	ExitCode int
	Ended    time.Time // control time
	Closed   bool      // ended, and no machine is left

	Epoch     int // of the placement that may commit; 0 before the first
	NextEpoch int // for the next machine; above every epoch that an agent ever joined
	NextN     int // for the next lease of NextEpoch

	Current *Machine         // placed, and as far as anyone knows alive
	Next    *Machine         // bought for NextEpoch (or joined under it), not yet placed
	Leases  []events.LeaseID // every lease ever bought, oldest first
	Open    []events.LeaseID // those of them not confirmed gone
	Keys    []string         // of every agent that ever joined, oldest first

	Notice     *Notice // of Current
	FinalSaved bool    // Current has committed its last save since the notice, the stop or the move began
	Move       *Move   // a failover in progress
	Failovers  int
	Unsettled  []Told // recorded moves whose old machine is not confirmed gone, oldest first
	Unspoken   []Left // epochs left in trouble whose last words are not kept yet, oldest first
	Spoken     []int  // epochs whose last words are kept

	Commits  []events.Checkpoint        // oldest first; void ones are not here
	CommitAt []time.Time                // control time of each
	Rejected []string                   // names of checkpoints that did not restore
	RejectAt []time.Time                // control time of each
	Drops    []Dropped                  // checkpoints that are gone, oldest first
	Pins     []Held                     // as far as nobody has taken them off; they end by themselves as well
	Unpinned events.JobCheckpointPinned // the newest change of a pin, if it took one off
	Crash    Crash
	Restarts int // of trainers that failed by themselves, since submission or the last resume

	Sequence uint64
	Position uint64
	last     *events.Event
}

// Machine is one lease in the job's hands.
type Machine struct {
	Lease    events.LeaseID
	Epoch    int
	Pool     events.Pool
	Instance events.InstanceID
	Price    events.PerInstanceHour
	Purpose  events.Purpose
	Decision events.EventID
	Decided  time.Time
	Bought   time.Time
	BootBy   time.Time
	Joined   time.Time // zero: not yet
	Key      string
	Placed   time.Time      // zero: not yet
	Started  time.Time      // first step; zero: not yet
	From     int64          // the step restored here
	Silent   bool           // given up as silent, may come back
	Exited   bool           // its trainer ended
	ExitedAt time.Time      // control time
	Again    bool           // the user's policy has that trainer started again, however often it was
	Restarts int            // in place, in a row, without a checkpoint between
	Faulty   events.Trouble // what its agent says is broken; "": nothing
	Drill    Rehearsal      // zero: nobody rehearses on it
}

// Rehearsal is a failover on demand as its machine remembers it.
type Rehearsal struct {
	Event events.EventID
	At    time.Time // control time
	Why   string
	Taken bool // given back without a word to the agent
}

// Fault remembers the last machine that an agent called broken, or that was
// blamed because trainers kept dying on it.
type Fault struct {
	Lease   events.LeaseID // "": there was none
	Commits int            // committed when it happened
}

// Told is a recorded move of which the seller may still say more.
type Told struct {
	N     int
	Cause events.Cause // the newest known
	From  events.Side
	Heard events.EventID // its agent was heard after all; "": not
	Back  bool           // and that is recorded
}

// Left is an epoch that ended in trouble.
type Left struct {
	Epoch int
	Lease events.LeaseID
	At    time.Time // control time
}

// Notice is a warning about the current machine.
type Notice struct {
	Event    events.EventID
	Seen     time.Time
	Recorded time.Time
	Deadline time.Time
	Drill    bool // given by a person, as a rehearsal: the seller knows nothing of it
}

// Crash remembers the last exit by the trainer's own doing.
type Crash struct {
	Code int
	Step int64 // newest committed when it happened
	Seen bool
}

// Side describes a machine in a record.
func (m *Machine) Side() events.Side {
	if m == nil {
		return events.Side{}
	}
	return events.Side{Epoch: m.Epoch, Lease: m.Lease, Pool: m.Pool, Price: m.Price}
}

// Over says whether the job has its outcome.
func (j Job) Over() bool { return j.Outcome != "" }

// Status is the one word a list shows: the outcome, why it waits or is paused, or the phase.
func (j Job) Status() string {
	switch {
	case j.Over():
		return string(j.Outcome)
	case j.Phase == Paused:
		return string(j.Pause.Reason)
	case j.Phase == Waiting:
		return j.Wait.Reason
	}
	return string(j.Phase)
}

// Newest returns the newest committed checkpoint that is kept and that no restore has rejected.
func (j Job) Newest() *events.Checkpoint {
	if r := j.Resume(); len(r) > 0 {
		return &r[0]
	}
	return nil
}

// Resume lists what may be restored, best first: nothing that was dropped, and
// nothing that did not restore before.
func (j Job) Resume() []events.Checkpoint {
	gone := j.gone(true)
	var out []events.Checkpoint
	for _, c := range slices.Backward(j.Commits) {
		if !gone[c.Name] {
			out = append(out, c)
		}
	}
	return out
}

// Step is the newest committed step, 0 if there is none.
func (j Job) Step() int64 {
	if c := j.Newest(); c != nil {
		return c.Step
	}
	return 0
}

// leaving says whether the current machine has to be replaced.
func (j Job) leaving() bool {
	c := j.Current
	return c == nil || j.Notice != nil || c.Silent || c.Exited || c.Faulty != ""
}

// stopping says whether the job computes no more, for now or for good, and nothing is to be bought for it.
func (j Job) stopping() bool {
	return j.Phase == Finishing || j.Phase == Pausing || j.Phase == Paused || j.Trouble.Kind != ""
}

// asked says whether a person wants the job on another machine, while the one it has would do.
func (j Job) asked() bool { return j.Move != nil && j.Move.Asked && j.Move.Placed.IsZero() }

// optional says whether the job is to leave a machine that works only because a person wants it.
func (j Job) optional() bool {
	c := j.Current
	return c != nil && !c.Silent && !c.Exited && c.Faulty == "" && (j.Notice == nil && j.asked() || j.Notice != nil && j.Notice.Drill)
}

// wantsMachine says whether a machine is to be bought.
func (j Job) wantsMachine() bool { return j.needsMachine() && !j.exhausted() }

func (j Job) needsMachine() bool {
	return !j.Over() && !j.stopping() && j.Next == nil && (j.leaving() || j.asked()) && !j.restartable()
}

// restartable says whether a dead trainer is to be started again where it was.
func (j Job) restartable() bool {
	c := j.Current
	return c != nil && c.Exited && !c.Silent && c.Faulty == "" && j.Notice == nil && (c.Restarts < maxRestarts || c.Again) &&
		(j.Next == nil || j.Next.Joined.IsZero())
}

// drained says whether nothing more is expected from the current machine.
func (j Job) drained(now time.Time) bool {
	c := j.Current
	switch {
	case c == nil || c.Silent || c.Exited || c.Faulty != "" || j.FinalSaved:
		return true
	case j.Notice != nil:
		return !now.Before(j.Notice.Deadline)
	}
	return false
}

// Floor is the least step that a commit of the current machine may have: the one
// it has restored. A trainer below it ignores what was restored, and what it
// saves must never become the newest.
func (j Job) Floor() int64 {
	if j.Current == nil {
		return 0
	}
	return j.Current.From
}

func (j Job) holds(l events.LeaseID) bool { return slices.Contains(j.Open, l) }

// restored returns the checkpoint that a machine which begins at this step has
// restored, and the control time of its commit; nil for a fresh start.
func (j Job) restored(from int64) (*events.Checkpoint, time.Time) {
	for i, c := range slices.Backward(j.Commits) {
		if c.Step == from && !slices.Contains(j.Rejected, c.Name) {
			return &c, j.CommitAt[i]
		}
	}
	return nil, time.Time{}
}

// committed returns the committed checkpoint of this name, or nil.
func (j Job) committed(name string) *events.Checkpoint {
	i := slices.IndexFunc(j.Commits, func(c events.Checkpoint) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Commits[i]
}
