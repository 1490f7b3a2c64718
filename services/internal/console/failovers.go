package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Failover is a record with the job it belongs to, and what was learned since.
type Failover struct {
	Job    events.JobID    `json:"job"`
	Name   string          `json:"name"`
	Event  events.EventID  `json:"event"`  // job.failed-over
	Record events.Failover `json:"record"` // as it was appended; it is never edited
	// Cause and Detail are the newest known: the record's, or the newest refinement's.
	Cause   events.Cause `json:"cause"`
	Detail  string       `json:"detail"`
	Refined []Refinement `json:"refined,omitempty"` // oldest first
}

// Refinement is what was learned about a failover after its record.
type Refinement struct {
	Event    events.EventID   `json:"event"`
	Time     time.Time        `json:"time"`
	Cause    events.Cause     `json:"cause"`
	Detail   string           `json:"detail"`
	Evidence []events.EventID `json:"evidence"`
}

// Took is how long the job did not move on, from the first sign to the first step elsewhere.
func (f Failover) Took() time.Duration { return f.Record.Ended.Sub(f.Record.Began) }

// Phase is how long all phases of that name took, and whether there was one.
func (f Failover) Phase(name string) (d time.Duration, ok bool) {
	for _, p := range f.Record.Phases {
		if p.Name == name {
			d, ok = d+time.Duration(p.MS)*time.Millisecond, true
		}
	}
	return d, ok
}

// Phases lists the names of phases in the order in which a move goes through them.
func Phases() []string {
	return []string{"detect", "save", "upload", "wait", "decide", "acquire", "boot", "inputs-ahead", "place", "setup", "image", "inputs", "restore", "first-step"}
}

// FailoverQuery is the body of what is asked about failovers; each verb uses the fields it needs.
type FailoverQuery struct {
	Job    string    `json:"job,omitempty"` // as in Query
	N      int       `json:"n,omitempty"`   // of the failover; 0: all, or the newest
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Seller string    `json:"seller,omitempty"` // that the job left or went to
	Cause  string    `json:"cause,omitempty"`  // the newest known
	// Sort is "began" (or empty: oldest first), or "took", "lost" (steps), "cost" (of them) or a phase: most first.
	Sort string `json:"sort,omitempty"`
	// Limit keeps that many: the newest, or the first of another order. 0: all.
	Limit  int            `json:"limit,omitempty"`
	Offset int            `json:"offset,omitempty"` // of the first to be answered
	By     string         `json:"by,omitempty"`     // of statistics: "seller", "cause" or "pool"
	Event  events.EventID `json:"event,omitempty"`  // of a decision: lease.intended or lease.declined
	After  uint64         `json:"after,omitempty"`  // of events: the position to go on from
}

// FailoverList is a part of a list and where to go on.
type FailoverList struct {
	Items []Failover `json:"items"`
	Next  int        `json:"next"` // give it as Offset
	More  bool       `json:"more"`
}

// answerFailovers answers every verb that is about failovers.
func (s *Server) answerFailovers(verb Verb, q FailoverQuery) (any, error) {
	switch verb {
	case GetFailovers:
		list, err := s.failovers(q)
		return page(list, 0).Items, err
	case GetFailoverList:
		list, err := s.failovers(q)
		return page(list, q.Offset), err
	case GetFailoverStats:
		return s.failoverStats(q)
	case GetFailoverEvents:
		return s.failoverEvents(q)
	case GetDecision:
		return s.decision(q.Event)
	}
	return nil, fmt.Errorf("request %s is not about failovers", verb)
}

// page is what of a list fits into one answer.
func page(list []Failover, from int) FailoverList {
	from = min(max(from, 0), len(list))
	p := FailoverList{Items: []Failover{}, Next: from}
	size := 0
	for _, f := range list[from:] {
		b, err := json.Marshal(f)
		if size += len(b); err != nil || (len(p.Items) > 0 && size > answerLimit) {
			p.More = true
			break
		}
		p.Items, p.Next = append(p.Items, f), p.Next+1
	}
	return p
}

// failovers returns what q asks for, in its order.
func (s *Server) failovers(q FailoverQuery) ([]Failover, error) {
	most, err := order(q.Sort)
	if err != nil {
		return nil, err
	}
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	ids := s.model.order
	if q.Job != "" {
		r, p := s.model.find(q.Job)
		if p != nil {
			return nil, p
		}
		ids = []events.JobID{r.job.ID}
	}
	out := []Failover{}
	for _, id := range ids {
		r := s.model.jobs[id]
		for i := range r.moves.list {
			if f := r.moves.list[i].view(r); q.fits(f) {
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Failover) int { return a.Record.Began.Compare(b.Record.Began) })
	if most == nil {
		if q.Limit > 0 {
			out = out[max(len(out)-q.Limit, 0):]
		}
		return out, nil
	}
	slices.SortStableFunc(out, func(a, b Failover) int { return cmp.Compare(most(b), most(a)) })
	if q.Limit > 0 {
		out = out[:min(q.Limit, len(out))]
	}
	return out, nil
}

func (q FailoverQuery) fits(f Failover) bool {
	r := f.Record
	return (q.N <= 0 || r.N == q.N) && (q.Cause == "" || string(f.Cause) == q.Cause) &&
		(q.Seller == "" || r.From.Pool.Seller == q.Seller || r.To.Pool.Seller == q.Seller) &&
		!r.Began.Before(q.Since) && (q.Until.IsZero() || !r.Began.After(q.Until))
}

// order is what a list is sorted by, most first; nil: by time.
func order(by string) (func(Failover) int64, error) {
	switch by {
	case "", "began":
		return nil, nil
	case "took":
		return func(f Failover) int64 { return int64(f.Took()) }, nil
	case "lost":
		return func(f Failover) int64 { return f.Record.LostSteps }, nil
	case "cost":
		return func(f Failover) int64 { return int64(f.Record.LostCost) }, nil
	}
	if !slices.Contains(Phases(), by) {
		return nil, &Problem{Code: "invalid", Message: fmt.Sprintf("failovers cannot be sorted by %.40q", by),
			Remedy: "give began, took, lost, cost or a phase: " + strings.Join(Phases(), ", ")}
	}
	return func(f Failover) int64 {
		d, ok := f.Phase(by)
		if !ok {
			return -1 // behind one that took no time
		}
		return int64(d)
	}, nil
}

// moves are a job's failovers as they are told.
type moves struct {
	list  []moveRecord
	words map[int]events.Event // job.last-words, by epoch
}

type moveRecord struct {
	event   events.EventID
	record  events.Failover
	refined []Refinement
}

// fold takes an event of the job.
func (m *moves) fold(e events.Event) {
	switch f := e.Fact.(type) {
	case events.JobFailedOver:
		m.list = append(m.list, moveRecord{event: e.ID, record: f.Record})
	case events.JobFailoverRefined:
		for i := range m.list {
			if m.list[i].record.N == f.N {
				m.list[i].refined = append(m.list[i].refined, Refinement{Event: e.ID, Time: e.Time, Cause: f.Cause, Detail: f.Detail, Evidence: f.Evidence})
			}
		}
	case events.JobLastWords:
		if m.words == nil {
			m.words = map[int]events.Event{}
		}
		if _, spoken := m.words[f.Epoch]; !spoken {
			m.words[f.Epoch] = e
		}
	}
}

func (m moveRecord) view(r *jobRecord) Failover {
	f := Failover{Job: r.job.ID, Name: r.job.Spec.Name, Event: m.event, Record: m.record, Cause: m.record.Cause, Detail: m.record.Detail, Refined: slices.Clone(m.refined)}
	if n := len(m.refined); n > 0 {
		f.Cause, f.Detail = m.refined[n-1].Cause, m.refined[n-1].Detail
	}
	return f
}
