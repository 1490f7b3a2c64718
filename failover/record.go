package failover

import (
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

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
		Drill: m.Drill,
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
			r.LostCost = events.Cost(m.From.Price, market(time.Duration(r.LostMS)*time.Millisecond)) // as anybody would check it
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
	if m.To.Lease != m.From.Lease && started.Clock.AheadMS > 0 && !m.To.Joined.IsZero() { // beside whatever else went on until the job was placed
		out = append(out, events.Phase{Name: "inputs-ahead", Began: m.To.Joined, MS: started.Clock.AheadMS, Clock: "agent"})
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
	c := started.Clock
	agent("image", c.ImageMS)
	agent("inputs", c.InputsMS)
	agent("setup", c.SetupMS-c.ImageMS-c.InputsMS)
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
