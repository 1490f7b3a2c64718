package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/spotferry/spotferry/events"
)

// FailoverEvents is a part of a failover's events and where to go on.
type FailoverEvents struct {
	Events []EventLine `json:"events"`
	Next   uint64      `json:"next"` // give it as After
	More   bool        `json:"more"`
}

// EventLine is an event in the JSON form of CloudEvents 1.0, with what it takes to check
// its hash: SHA-256 over id, type, prevhash and sfcommands, each after its
// header's name, with a zero byte behind each, and then data as it stands.
type EventLine struct {
	SpecVersion string          `json:"specversion"`
	ID          events.EventID  `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Time        string          `json:"time"`
	Subject     string          `json:"subject"`
	Schema      string          `json:"dataschema"`
	Content     string          `json:"datacontenttype"`
	Sequence    string          `json:"sequence"`
	Correlation string          `json:"correlationid,omitempty"`
	Causation   string          `json:"causationid,omitempty"`
	PrevHash    string          `json:"prevhash,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	NATSSubject string          `json:"sfsubject"`
	Position    uint64          `json:"sfposition"`            // in the stream
	Commands    string          `json:"sfcommands,omitempty"`  // what was owed after it
	Hash        string          `json:"sfhash"`                // what the next one's prevhash is
	Rewritten   bool            `json:"sfrewritten,omitempty"` // data is not byte for byte as it was: another version wrote it
	Data        json.RawMessage `json:"data"`
}

// Lead is how many events of the job before the first sign of a move are told with it.
const Lead = 20

// failoverEvents returns the events of a move, oldest first: the job's from a little before its
// first sign to its record, without a gap; what was learned later; and all of every
// lease concerned.
func (s *Server) failoverEvents(q FailoverQuery) (FailoverEvents, error) {
	return with(s, q.Job, func(r *jobRecord) (FailoverEvents, error) {
		m, err := r.moves.find(q.Job, q.N)
		if err != nil {
			return FailoverEvents{}, err
		}
		out := FailoverEvents{Events: []EventLine{}, Next: q.After}
		size := 0
		of := r.concerns(m)
		for _, e := range r.events {
			if e.Position <= q.After || !of(e) {
				continue
			}
			line, err := NewEventLine(e)
			if err != nil {
				return FailoverEvents{}, err
			}
			if size += len(line.Data) + len(line.Commands) + 1000; len(out.Events) > 0 && size > answerLimit {
				out.More = true
				break
			}
			out.Events, out.Next = append(out.Events, line), e.Position
		}
		return out, nil
	})
}

// concerns says which events belong to a move.
func (r *jobRecord) concerns(m moveRecord) func(events.Event) bool {
	from, to := r.span(m)
	return func(e events.Event) bool {
		if e.Aggregate.Kind == "lease" {
			l := events.LeaseID(e.Aggregate.ID)
			return l == m.record.From.Lease || m.led(l)
		}
		if e.Sequence >= from && e.Sequence <= to {
			return true
		}
		switch f := e.Fact.(type) {
		case events.JobFailoverRefined:
			return f.N == m.record.N
		case events.JobLastWords:
			return f.Epoch == m.record.From.Epoch
		case events.JobReleased:
			return f.Lease == m.record.From.Lease
		}
		return false
	}
}

// span is the run of the job's events that a move is told by. The first event of a job
// is not in it: the specification has the user's environment in it.
func (r *jobRecord) span(m moveRecord) (from, to uint64) {
	first := uint64(0)
	for _, e := range r.events {
		if e.Aggregate.Kind != "job" {
			continue
		}
		if e.ID == m.event {
			to = e.Sequence
		}
		if first == 0 && (slices.Contains(m.record.Evidence, e.ID) || !e.Time.Before(m.record.Began)) {
			first = e.Sequence
		}
	}
	if first == 0 || first > to {
		first = to
	}
	if first > Lead {
		from = first - Lead
	}
	return max(from, 2), to
}

// NewEventLine writes an event down.
func NewEventLine(e events.Event) (EventLine, error) {
	m, err := events.Encode(e)
	if err != nil {
		return EventLine{}, fmt.Errorf("writing event %s: %w", e.ID, err)
	}
	hash, err := e.Hash()
	if err != nil {
		return EventLine{}, fmt.Errorf("writing event %s: %w", e.ID, err)
	}
	l := EventLine{
		SpecVersion: "1.0", ID: e.ID, Source: e.Source, Type: m.Get("ce-type"), Time: m.Get("ce-time"), Subject: e.Aggregate.Key(),
		Schema: m.Get("ce-dataschema"), Content: "application/json", Sequence: m.Get("ce-sequence"),
		Correlation: e.Correlation, Causation: string(e.Causation), PrevHash: e.Prev, Traceparent: e.Trace,
		NATSSubject: m.Subject, Position: e.Position, Commands: m.Get("Sf-Commands"), Hash: hash, Data: m.Body,
	}
	l.Rewritten = l.Computed() != hash
	return l, nil
}

// Computed is the hash of the line as it stands; it equals Hash unless the line was Rewritten or tampered with.
func (l EventLine) Computed() string { return l.message().Hash() }

// Event reads the line back.
func (l EventLine) Event() (events.Event, error) {
	e, err := events.Decode(l.message())
	e.Position = l.Position
	return e, err
}

// message is the event as it travels.
func (l EventLine) message() events.Message {
	m := events.Message{Subject: l.NATSSubject, Header: map[string][]string{}, Body: l.Data}
	for k, v := range map[string]string{
		"ce-specversion": l.SpecVersion, "ce-id": string(l.ID), "ce-source": l.Source, "ce-type": l.Type, "ce-time": l.Time,
		"ce-sequence": l.Sequence, "ce-correlationid": url.PathEscape(l.Correlation), "ce-causationid": l.Causation,
		"ce-prevhash": l.PrevHash, "ce-traceparent": l.Traceparent, "Sf-Commands": l.Commands,
	} {
		if v != "" {
			m.Header[k] = []string{v}
		}
	}
	return m
}
