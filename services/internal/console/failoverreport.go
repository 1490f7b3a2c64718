package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
)

// FailoverReport is one failover with everything that is known of it.
type FailoverReport struct {
	Failover
	Of         int         `json:"of"`              // failovers of the job so far
	Trace      string      `json:"trace"`           // W3C trace id
	Evidence   []Evidence  `json:"evidence_events"` // of the record and of what was learned since, in that order
	Choice     *Choice     `json:"choice,omitempty"`
	Considered []ChoiceRef `json:"considered,omitempty"` // other decisions of the move, oldest first
	LastWords  *LastWords  `json:"last_words,omitempty"` // of the machine that was left
	Bill       []BillLine  `json:"bill,omitempty"`       // of both machines
}

// Evidence is an event that says why.
type Evidence struct {
	ID      events.EventID `json:"id"`
	Time    time.Time      `json:"time,omitzero"`
	Type    string         `json:"type,omitempty"` // "": the event is not here
	Summary string         `json:"summary,omitempty"`
	After   events.EventID `json:"refinement,omitempty"` // of which refinement it is evidence; "": of the record
}

// Choice is a buying decision as it was recorded, and whether the same inputs still give it.
type Choice struct {
	Event    events.EventID  `json:"event"` // lease.intended or lease.declined
	Time     time.Time       `json:"time"`
	Lease    events.LeaseID  `json:"lease"`
	Decision events.Decision `json:"decision"`
	Replay   Replay          `json:"replay"`
}

// Replay is what deciding again on the recorded inputs gives.
type Replay struct {
	Same bool   `json:"same"`
	Why  string `json:"why,omitempty"` // it is not: the answer that they give now
}

// ChoiceRef is a decision in a line; GetDecision has all of it.
type ChoiceRef struct {
	Event   events.EventID `json:"event"`
	Time    time.Time      `json:"time"`
	Lease   events.LeaseID `json:"lease"`
	Action  string         `json:"action"`
	Rule    string         `json:"rule"`
	Summary string         `json:"summary"`
	Outcome string         `json:"outcome"` // what became of it: "declined", "refused", "launched", ...
}

// LastWords is what a machine said last.
type LastWords struct {
	Event events.EventID `json:"event"`
	Time  time.Time      `json:"time"`
	events.JobLastWords
}

// failover reports on failover q.N of a job, 0 for the newest.
func (s *Server) failover(ctx context.Context, q FailoverQuery) (rep FailoverReport, err error) {
	e := s.cfg.Money.View(ctx, s.cfg.Org, func(money *ledger.State) {
		rep, err = with(s, q.Job, func(r *jobRecord) (FailoverReport, error) {
			m, err := r.moves.find(q.Job, q.N)
			if err != nil {
				return FailoverReport{}, err
			}
			rep := r.report(m)
			bill := s.model.bill(r, money.Statement(r.job.ID))
			for _, l := range bill.Lines {
				if l.Lease == m.record.From.Lease || l.Lease == m.record.To.Lease {
					rep.Bill = append(rep.Bill, l)
				}
			}
			return rep, nil
		})
	})
	if e != nil {
		return FailoverReport{}, e
	}
	return rep, err
}

func (m *moves) find(job string, n int) (moveRecord, error) {
	for i := len(m.list) - 1; i >= 0; i-- {
		if n <= 0 || m.list[i].record.N == n {
			return m.list[i], nil
		}
	}
	what := fmt.Sprintf("job %.80q has not failed over", job)
	if have := len(m.list); have > 0 {
		what = fmt.Sprintf("job %.80q has failed over %d times, and no failover is number %d", job, have, n)
	}
	return moveRecord{}, &Problem{Code: "not-found", Message: what, Remedy: "'spotferry failover ls' lists them"}
}

// report is everything about a move but its money.
func (r *jobRecord) report(m moveRecord) FailoverReport {
	rep := FailoverReport{Failover: m.view(r), Of: len(r.moves.list), Trace: m.record.Trace().String()}
	rep.Evidence = r.evidence("", m.record.Evidence)
	for _, later := range m.refined {
		rep.Evidence = append(rep.Evidence, r.evidence(later.Event, later.Evidence)...)
	}
	for _, e := range r.events {
		c, ok := r.choice(e)
		switch {
		case !ok:
		case e.ID == m.record.Decision:
			c.Replay = r.replay(c.Decision)
			rep.Choice = &c
		case m.considers(e):
			rep.Considered = append(rep.Considered, ChoiceRef{Event: e.ID, Time: e.Time, Lease: c.Lease, Action: c.Decision.Action,
				Rule: c.Decision.Rule, Summary: Summary(e.Fact), Outcome: r.outcome(c.Lease)})
		}
	}
	if e, ok := r.moves.words[m.record.From.Epoch]; ok {
		if f, ok := e.Fact.(events.JobLastWords); ok {
			rep.LastWords = &LastWords{Event: e.ID, Time: e.Time, JobLastWords: f}
		}
	}
	return rep
}

// considers says whether a decision was made for the move: while it went on, for a machine to go to.
func (m moveRecord) considers(e events.Event) bool {
	return m.led(events.LeaseID(e.Aggregate.ID)) && !e.Time.Before(m.record.Began) && !e.Time.After(m.record.Ended)
}

// led says whether a lease is one on the way to where the move led: of an epoch after
// the one that was left, and none after the one that was taken.
func (m moveRecord) led(l events.LeaseID) bool {
	_, last, _, err := m.record.To.Lease.Parts()
	_, epoch, _, err2 := l.Parts()
	return err == nil && err2 == nil && m.record.To.Lease != m.record.From.Lease && epoch > m.record.From.Epoch && epoch <= last
}

func (r *jobRecord) evidence(of events.EventID, ids []events.EventID) []Evidence {
	out := make([]Evidence, 0, len(ids))
	for _, id := range ids {
		ev := Evidence{ID: id, After: of}
		if i := slices.IndexFunc(r.events, func(e events.Event) bool { return e.ID == id }); i >= 0 {
			entry := entryOf(r.events[i])
			ev.Time, ev.Type, ev.Summary = entry.Time, entry.Type, entry.Summary
		}
		out = append(out, ev)
	}
	return out
}

// choice reads the decision of an event that has one.
func (r *jobRecord) choice(e events.Event) (Choice, bool) {
	c := Choice{Event: e.ID, Time: e.Time, Lease: events.LeaseID(e.Aggregate.ID)}
	switch f := e.Fact.(type) {
	case events.LeaseIntended:
		c.Decision = f.Decision
	case events.LeaseDeclined:
		c.Decision = f.Decision
	default:
		return c, false
	}
	return c, true
}

// outcome is the last thing that is known of a lease but for its end.
func (r *jobRecord) outcome(l events.LeaseID) string {
	out := ""
	for _, e := range r.events {
		if e.Aggregate.Kind != "lease" || e.Aggregate.ID != string(l) {
			continue
		}
		switch e.Fact.(type) {
		case events.LeaseDeclined, events.LeaseRefused, events.LeaseUnknown, events.LeaseLaunched:
			t, _ := events.TypeOf(e.Fact)
			out = t.Event
		}
	}
	return out
}

// replay decides again on the recorded inputs, and compares the answers as they are written down.
func (r *jobRecord) replay(d events.Decision) Replay {
	again := bidder.Decide(bidder.SituationOf(r.job.Spec, d))
	again.Omitted = d.Omitted // counts of what is not on record
	was, err := json.Marshal(d)
	is, err2 := json.Marshal(again)
	if err == nil && err2 == nil && bytes.Equal(was, is) {
		return Replay{Same: true}
	}
	return Replay{Why: differs(d, again)}
}

// differs says in what another answer is another.
func differs(was, is events.Decision) string {
	pick := func(d events.Decision) string {
		if d.Chosen < 0 || d.Chosen >= len(d.Candidates) {
			return "nothing"
		}
		return d.Candidates[d.Chosen].Offer.Pool.String()
	}
	switch {
	case was.Action != is.Action || was.Rule != is.Rule || pick(was) != pick(is):
		return fmt.Sprintf("it was %s %s by %s; now it would be %s %s by %s", was.Action, pick(was), was.Rule, is.Action, pick(is), is.Rule)
	case was.Reason != is.Reason || was.Detail != is.Detail:
		return "the same choice for another reason: " + is.Detail
	}
	return "the same choice from other figures: it was made by another version"
}

// decision returns the decision of one event of any job.
func (s *Server) decision(id events.EventID) (Choice, error) {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	for _, r := range s.model.jobs {
		if !bytes.HasPrefix([]byte(id), []byte(r.job.ID+"-")) {
			continue
		}
		for _, e := range r.events {
			if c, ok := r.choice(e); ok && e.ID == id {
				c.Replay = r.replay(c.Decision)
				return c, nil
			}
		}
	}
	return Choice{}, &Problem{Code: "not-found", Message: fmt.Sprintf("event %.80q is no decision", id), Remedy: "'spotferry failover show --explain' names them"}
}
