package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Input is something that happened to a job: a request, a lease's fate, a timer.
// The set is the types below.
type Input any

type (
	// Submit opens the job.
	Submit struct {
		Attribution events.Attribution
		Spec        events.JobSpec
		By          string
	}
	// Bought says that a lease was launched.
	Bought struct {
		Lease    events.LeaseID
		Intent   events.Event // lease.intended
		Launched events.Event // lease.launched
	}
	// Declined says that nothing was bought for a request, or that a lease cannot be paid on.
	Declined struct {
		Event events.Event // lease.declined
	}
	// Gone says that a lease is confirmed gone.
	Gone struct {
		Event events.Event // lease.ended
		Heard Heard        // what was last heard from its agent
	}
	// Joined says that an agent swapped its bootstrap token.
	Joined struct{ events.JobJoined }
	// Stepped says that the trainer made its first step of an epoch.
	Stepped struct{ events.JobStarted }
	// Noticed carries a seller's warning.
	Noticed struct{ events.JobNoticed }
	// Withdrawn takes it back.
	Withdrawn struct{ events.JobNoticeWithdrawn }
	// Committed asks that a verified checkpoint become true.
	Committed struct{ events.JobCommitted }
	// Rejected says that a checkpoint did not restore.
	Rejected struct{ events.JobCheckpointRejected }
	// Exited says how the trainer ended.
	Exited struct {
		Epoch int
		events.DoneRequest
	}
	// Silent says that no heartbeat came for Timers.Lost while the control plane itself was well.
	Silent struct {
		Epoch int
		Heard Heard
	}
	// Returned says that a heartbeat came from a machine given up as silent, be it of an older epoch.
	Returned struct{ Epoch int }
	// Cancel is a person's act; Reason may be empty.
	Cancel struct{ By, Reason string }
	// Tick lets due times pass.
	Tick struct{}
)

// Heard is the newest that any heartbeat told of an epoch.
type Heard struct {
	Step int64
	At   time.Time
}

// Step is the failover policy: given a job, the time and one input, it returns
// the job as it is afterwards and the events to append, in order. It does no
// I/O and reads no clock, so a recorded failover can be replayed exactly. An
// input that is late, repeated or about another machine changes nothing, except
// that a machine bought too late is given back.
//
// What is owed after each event is Owed of the job folded so far; the caller
// of Step need not ask: every event returned carries it.
func Step(j Job, now events.Moment, in Input) (Job, []events.Event) {
	s := stepper{j: j, now: now}
	for s.leftOver() { // by a crash: what comes next may begin another
	}
	s.causation = ""
	s.react(in)
	for s.followUp() {
	}
	return s.j, s.out
}

// leftOver records the next thing that the event before has made certain, and
// says whether there was one.
func (s *stepper) leftOver() bool {
	return s.finishMove() || s.halted() || s.giveUpNext() || s.giveUp() || s.holdOff() || s.refineHeard()
}

type stepper struct {
	j         Job
	now       events.Moment
	out       []events.Event
	causation events.EventID
}

// record folds a fact into the job and puts it on the list to append.
func (s *stepper) record(fact events.Fact) {
	agg := s.j.Aggregate
	e := events.Event{
		ID: events.EventID(fmt.Sprintf("%s-%d", agg.Key(), s.j.Sequence+1)), Aggregate: agg, Sequence: s.j.Sequence + 1,
		Source: "/spotferry/failover", Time: s.now.Control, Correlation: agg.ID, Causation: s.causation,
		Attribution: s.j.Attribution, Finality: events.Final, Fact: fact,
	}
	before := s.j
	s.j = Fold(s.j, e)
	s.j.Position = before.Position // that of the event is not known before the append
	e.Trace, e.Commands = traceOf(before, s.j), Owed(s.j)
	s.out = append(s.out, e)
	s.causation = e.ID
}

func (s *stepper) react(in Input) {
	j := s.j
	if sub, ok := in.(Submit); ok {
		if j.Sequence == 0 {
			s.j.Attribution = sub.Attribution
			s.record(events.JobSubmitted{Spec: sub.Spec, By: sub.By, Market: s.now.Market})
		}
		return
	}
	if j.Sequence == 0 {
		return
	}
	switch in := in.(type) {
	case Bought:
		s.bought(in)
	case Declined:
		s.declined(in)
	case Gone:
		s.gone(in)
	case Joined:
		if n := j.Next; n != nil && n.Lease == in.Lease && n.Joined.IsZero() && !j.Over() {
			s.record(in.JobJoined)
		}
	case Stepped:
		if j.current(in.Epoch, in.Lease) && j.Current.Started.IsZero() && !j.Over() {
			s.record(in.JobStarted)
		}
	case Noticed:
		s.noticed(in)
	case Withdrawn:
		if j.current(in.Epoch, in.Lease) && j.Notice != nil && !j.Notice.Drill && !j.Over() {
			s.record(in.JobNoticeWithdrawn)
		}
	case Troubled:
		s.troubled(in)
	case LastWords:
		s.lastWords(in)
	case Pause, Resume, Migrate, Drill:
		s.hands(in)
	case Pin, Unpin, Drop, Collect:
		s.retain(in)
	case Committed:
		s.committed(in)
	case Verified:
		if in.Drops == len(j.Drops) {
			s.committed(in.Committed)
		}
	case Rejected:
		if c := j.committed(in.Checkpoint.Name); c != nil && j.dropped(c.Name) == nil && j.current(in.Epoch, in.Lease) && !slices.Contains(j.Rejected, c.Name) {
			in.Checkpoint = *c // as it was committed, whatever the agent says of it
			s.record(in.JobCheckpointRejected)
		}
	case Exited:
		s.exited(in)
	case Silent:
		if c := j.Current; c != nil && in.Epoch == j.Epoch && !c.Silent && !j.Over() {
			s.record(events.JobLost{
				Epoch: j.Epoch, Lease: c.Lease, Cause: events.CauseSilent, LastStep: in.Heard.Step, LastSeen: in.Heard.At,
				Detail: fmt.Sprintf("no heartbeat for %s", s.now.Control.Sub(in.Heard.At).Round(time.Millisecond)),
			})
		}
	case Returned:
		switch {
		case j.Over():
		case j.Current != nil && in.Epoch == j.Epoch:
			s.heard()
		case in.Epoch < j.Epoch:
			s.returned(in.Epoch)
		}
	case Cancel:
		s.cancel(in)
	}
}

// heard takes back that the current machine was given up as silent.
func (s *stepper) heard() {
	if c := s.j.Current; c.Silent {
		s.record(events.JobHeard{Epoch: s.j.Epoch, Lease: c.Lease})
	}
}

// noticed takes a seller's warning. A next machine that is going already is no next machine.
func (s *stepper) noticed(in Noticed) {
	j := s.j
	switch n := j.Next; {
	case j.Over():
	case n != nil && n.Lease == in.Lease && n.Epoch == in.Epoch:
		s.record(events.JobLost{Epoch: n.Epoch, Lease: n.Lease, Cause: events.CauseNotice,
			Detail: fmt.Sprintf("the seller takes it back at %s, before it was placed", in.Deadline.UTC().Format(time.TimeOnly))})
	case j.current(in.Epoch, in.Lease) && (j.Notice == nil || in.Deadline.Before(j.Notice.Deadline.Add(-time.Second))):
		s.heard()
		s.record(in.JobNoticed)
	}
}

func (s *stepper) cancel(in Cancel) {
	if s.j.Over() {
		return
	}
	reason := "cancelled by " + in.By
	if in.Reason != "" {
		reason += ": " + in.Reason
	}
	s.end(events.Cancelled, reason, 0)
}

func (s *stepper) committed(in Committed) {
	j := s.j
	if !j.current(in.Epoch, in.Lease) || j.Over() || in.Checkpoint.Step < j.Floor() {
		return
	}
	if j.committed(in.Checkpoint.Name) != nil && (!in.Final || j.FinalSaved) {
		return // already true
	}
	s.heard()
	s.record(in.JobCommitted)
}

func (s *stepper) end(o events.Outcome, reason string, code int) {
	s.record(events.JobEnded{Outcome: o, Reason: reason, ExitCode: code, Checkpoint: s.j.Newest()})
}

// stop begins an orderly save and stop; with nothing running it is the end at once.
func (s *stepper) stop(o events.Outcome, reason string) {
	if s.j.idle() {
		s.end(o, reason, 0)
		return
	}
	s.record(events.JobStopping{Outcome: o, Reason: reason})
}

// finishMove records a move that is complete, and says whether there was one.
func (s *stepper) finishMove() bool {
	m := s.j.Move
	if m == nil || m.First == nil {
		return false
	}
	s.causation = m.First.ID
	s.record(events.JobFailedOver{Record: s.j.record(s.marketFor)})
	return true
}

// marketFor converts a control-time span at the rate at which the two clocks have run since submission.
func (s *stepper) marketFor(d time.Duration) time.Duration {
	c, m := s.now.Control.Sub(s.j.Submitted.Control), s.now.Market.Sub(s.j.Submitted.Market)
	if c <= 0 {
		return d
	}
	return time.Duration(float64(d) * float64(m) / float64(c))
}
