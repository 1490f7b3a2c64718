package failover

import (
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Move gathers a failover while it happens; record turns it into what is kept for ever.
type Move struct {
	Cause     events.Cause
	Detail    string
	Evidence  []events.EventID
	From      Machine
	To        Machine
	Voluntary bool

	Began      time.Time // control time of the first sign
	Detected   time.Time // control time at which the job knew
	NoticeFor  time.Duration
	WaitFrom   time.Time // control time since which nothing could be bought; zero: never
	Lost       time.Time // control time at which the old machine was known gone; zero while it lives
	LastSeen   time.Time
	LastStep   int64
	LastCommit time.Time // since the move began
	Drained    time.Time // control time at which nothing more was expected of the old machine; zero: its deadline
	SaveMS     int64
	UploadMS   int64

	Placed time.Time
	First  *events.Event // job.started on the new machine: the move is complete and to be recorded
}

func beginMove(j Job, cause events.Cause, e events.Event, sign time.Time) *Move {
	if sign.IsZero() || sign.After(e.Time) {
		sign = e.Time
	}
	m := &Move{
		Cause: cause, Evidence: []events.EventID{e.ID}, Began: sign, Detected: e.Time,
		LastStep: j.Step(),
	}
	if j.Current != nil {
		m.From = *j.Current
	}
	if f, ok := e.Fact.(events.JobMoveRequested); ok {
		m.Voluntary, m.Detail = true, f.Reason
	}
	return m
}

// with returns the move with more evidence.
func (m Move) with(evidence ...events.EventID) *Move {
	m.Evidence = slices.Clone(m.Evidence)
	for _, id := range evidence {
		if !slices.Contains(m.Evidence, id) {
			m.Evidence = append(m.Evidence, id)
		}
	}
	return &m
}

// lose records that the old machine is gone, which may confirm or sharpen an earlier cause.
func (m *Move) lose(f events.JobLost, e events.Event) {
	m.Evidence = m.with(append(f.Evidence[:len(f.Evidence):len(f.Evidence)], e.ID)...).Evidence
	if !m.Placed.IsZero() {
		return // the next machine went before its first step: the same move goes on
	}
	if m.Cause == events.CauseSilent {
		m.Cause = f.Cause // the seller now says why it was silent
	}
	if m.Drained.IsZero() {
		m.Drained = e.Time
	}
	m.Detail = f.Detail
	m.Lost = e.Time
	if f.Cause != events.CauseSilent && !f.LastSeen.IsZero() {
		m.Lost = f.LastSeen
	}
	m.LastSeen = f.LastSeen
	m.LastStep = max(m.LastStep, f.LastStep)
}

// record is the completed move as it is kept.
func (j Job) record(market func(control time.Duration) time.Duration) events.Failover {
	m := j.Move
	started, at := m.First.Fact.(events.JobStarted), m.First.Time
	resumed, since := j.restored(started.From)
	r := events.Failover{
		N: j.Failovers + 1, Cause: m.Cause, Detail: m.Detail, Evidence: m.Evidence,
		From: m.From.Side(), To: m.To.Side(),
		Noticed: m.NoticeFor > 0, NoticeMS: m.NoticeFor.Milliseconds(),
		Began: m.Began, Ended: at, Resumed: resumed, LastStep: m.LastStep, Decision: m.To.Decision,
	}
	r.To.Epoch = started.Epoch
	if r.Noticed && !m.LastCommit.IsZero() {
		r.UsedMS = ms(m.LastCommit.Sub(m.Began))
	}
	r.LastStep = max(m.LastStep, started.Before)
	r.LostSteps = max(r.LastStep-started.From, 0)
	if r.LostSteps > 0 {
		end := m.Lost
		if end.IsZero() {
			end = m.Placed
		}
		if resumed == nil {
			since = m.From.Started
		}
		if lost := end.Sub(since); lost > 0 && !since.IsZero() {
			r.LostMS = ms(lost)
			r.LostCost = events.Cost(m.From.Price, market(lost))
		}
	}
	r.Phases = m.phases(started, at)
	return r
}

func (m Move) phases(started events.JobStarted, at time.Time) []events.Phase {
	var out []events.Phase
	add := func(name string, from, to time.Time) {
		if !from.IsZero() && !to.Before(from) {
			out = append(out, events.Phase{Name: name, Began: from, MS: ms(to.Sub(from)), Clock: "control"})
		}
	}
	add("detect", m.Began, m.Detected)
	if !m.LastCommit.IsZero() {
		end := m.LastCommit
		up := end.Add(-time.Duration(m.UploadMS) * time.Millisecond)
		out = append(out,
			events.Phase{Name: "save", Began: up.Add(-time.Duration(m.SaveMS) * time.Millisecond), MS: m.SaveMS, Clock: "agent"},
			events.Phase{Name: "upload", Began: up, MS: m.UploadMS, Clock: "agent"})
	}
	ready := m.Placed
	if m.To.Lease != m.From.Lease {
		decided := m.To.Decided
		if !m.WaitFrom.IsZero() && m.WaitFrom.Before(decided) {
			add("wait", m.WaitFrom, decided)
			decided = m.WaitFrom
		}
		if decided.After(m.Detected) {
			add("decide", m.Detected, decided)
		}
		add("acquire", m.To.Decided, m.To.Bought)
		add("boot", m.To.Bought, m.To.Joined)
	}
	drained := m.Drained
	if drained.IsZero() {
		drained = m.Began.Add(m.NoticeFor)
	}
	if m.To.Joined.After(drained) && m.To.Lease != m.From.Lease {
		drained = m.To.Joined
	}
	add("place", drained, m.Placed)
	agent := func(name string, d int64) {
		if d > 0 {
			out = append(out, events.Phase{Name: name, Began: ready, MS: d, Clock: "agent"})
			ready = ready.Add(time.Duration(d) * time.Millisecond)
		}
	}
	agent("setup", started.Clock.SetupMS)
	agent("restore", started.Clock.RestoreMS)
	if ready.After(at) {
		ready = at
	}
	add("first-step", ready, at)
	return out
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

// leaseOfEvent reads the lease from the id of one of its events: <job>-<epoch>-<n>-<sequence>.
func leaseOfEvent(id events.EventID) (events.JobID, int, int, error) {
	s := string(id)
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		s = s[:i]
	}
	return events.LeaseID(s).Parts()
}
