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
	Asked     bool   // a person wants it, and a machine for it is still to be bought
	By, Why   string // the person, and what was said
	Drill     bool
	Kept      bool          // nothing is wrong with the pool: it need not be avoided
	Avoid     []events.Pool // other pools that failed the job during this move
	Heard     bool          // the agent of the old machine was heard after the placement

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
	// After is the move that has begun meanwhile: the new machine is to be left as
	// well. It takes over if that machine still makes its first step.
	After *Move
	First *events.Event // job.started on the new machine: the move is complete and to be recorded
}

func beginMove(j Job, cause events.Cause, e events.Event, sign time.Time) *Move {
	if sign.IsZero() || sign.After(e.Time) {
		sign = e.Time
	}
	m := Move{
		Cause: cause, Evidence: []events.EventID{e.ID}, Began: sign, Detected: e.Time,
		LastStep: j.Step(),
	}
	if c := j.Current; c != nil {
		m.From = *c
		if d := c.Drill; d.Event != "" {
			m.Cause, m.Drill, m.Detail, m.Evidence = events.CauseOperator, true, d.Why, []events.EventID{d.Event}
			m.Began = d.At // the first sign, whenever the machine was heard last
		}
	}
	if f, ok := e.Fact.(events.JobMoveRequested); ok {
		m.Voluntary, m.Detail, m.By, m.Why = true, f.Reason, f.By, f.Reason
		if m.Asked = f.Cause == events.CauseOperator; m.Asked {
			m.Detail = why("migrated", f.By, f.Reason)
		}
	}
	return m.with(e.ID)
}

// begin starts a move, or has it follow the one that waits for its first step.
func (j Job) begin(m *Move, e events.Event) Job {
	if j.arriving() {
		mv := *j.Move.with(e.ID)
		mv.After = m
		m = &mv
	}
	j.Move = m
	return j
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
	if !m.Drill && (m.Cause == events.CauseSilent || m.Voluntary) {
		m.Cause = f.Cause // the seller now says why it was silent, or was faster than we
		m.Voluntary = false
	}
	m.Asked = false
	m.say(f.Detail)
	m.leaveAt(e.Time)
	if m.Lost = e.Time; f.Cause != events.CauseSilent && !f.LastSeen.IsZero() {
		m.Lost = f.LastSeen
		if m.Drill {
			m.Lost = later(m.Lost, m.Began)
		}
	}
	m.LastSeen = f.LastSeen
	m.LastStep = max(m.LastStep, f.LastStep)
}

// leaveAt notes when the old machine's work ended, at the latest.
func (m *Move) leaveAt(t time.Time) {
	if m.Drained.IsZero() {
		m.Drained = t
	}
	if m.Lost.IsZero() {
		m.Lost = t
	}
}

// say adds to the detail.
func (m *Move) say(detail string) {
	switch {
	case m.Detail == "":
		m.Detail = detail
	case detail != "" && !strings.Contains(m.Detail, detail):
		m.Detail += "; " + detail
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func withPool(pools []events.Pool, p events.Pool) []events.Pool {
	if slices.Contains(pools, p) {
		return pools
	}
	return append(slices.Clone(pools), p)
}
