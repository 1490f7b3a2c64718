// Package eventstest holds an events.Log in memory for tests: the promises of
// the real bus, its habits (duplicates, redelivery, lost answers) on demand,
// and nothing that needs a disk, a port or a goroutine of its own, so that it
// runs inside a testing/synctest bubble.
package eventstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Fate is what happens to one append.
type Fate uint8

// The fates. A caller cannot tell the last two apart: both answer events.ErrUnknown.
const (
	Done    Fate = iota // written and acknowledged
	LostAck             // written, the acknowledgement lost
	LostAsk             // never written, no answer
)

// Faults are the bus's bad habits, asked for each event. They run without any
// lock of the Log held. A nil field means that all is well.
type Faults struct {
	Append func(e events.Event) Fate
	// Copies says how many times too many an event is delivered to a durable consumer.
	Copies func(consumer string, e events.Event) int
}

// Log is an events.Log in memory. Events are kept encoded, so that what a
// reader gets shares nothing with what the writer had. Make it with New.
type Log struct {
	mu      sync.Mutex
	faults  Faults
	retry   time.Duration
	streams map[string]*stream
	jobs    map[events.JobID]events.Aggregate
	dead    []events.Message
	changed chan struct{} // closed and replaced whenever something may be deliverable
}

var _ events.Log = (*Log)(nil)

type stream struct {
	messages   []stored         // ascending positions; gaps only where the newest of a subject replaced an older one
	last       uint64           // newest position ever given
	aggregates map[string][]int // subject without its last token -> indexes into messages (append-only streams)
	durables   map[string]*durable
}

type stored struct {
	events.Message
	position uint64
}

// New returns an empty log. An event whose handler returned an error comes
// back after retry; 0 is 10 ms.
func New(retry time.Duration) *Log {
	if retry <= 0 {
		retry = 10 * time.Millisecond
	}
	return &Log{
		retry: retry, streams: map[string]*stream{},
		jobs: map[events.JobID]events.Aggregate{}, changed: make(chan struct{}),
	}
}

// SetFaults replaces the bad habits.
func (l *Log) SetFaults(f Faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// Append implements events.Log. An event that cannot follow where it claims to
// (wrong sequence or previous hash at the right position) is a bug of the
// caller and is refused as such.
func (l *Log) Append(ctx context.Context, after uint64, e events.Event) (events.Event, error) {
	if err := ctx.Err(); err != nil {
		return events.Event{}, err
	}
	m, err := events.Encode(e)
	if err != nil {
		return events.Event{}, err
	}
	fate := Done
	if f := l.currentFaults().Append; f != nil {
		fate = f(e)
	}
	if fate == LostAsk {
		return events.Event{}, fmt.Errorf("appending %s: %w", e.ID, events.ErrUnknown)
	}
	position, err := l.append(after, e, m)
	if err != nil {
		return events.Event{}, err
	}
	if fate == LostAck {
		return events.Event{}, fmt.Errorf("appending %s: %w", e.ID, events.ErrUnknown)
	}
	e.Position = position
	return e, nil
}

func (l *Log) append(after uint64, e events.Event, m events.Message) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stream(m.Subject)
	index := s.aggregates[e.Aggregate.Filter()]
	var newest stored
	for i := len(index) - 1; i >= 0; i-- {
		old := s.messages[index[i]]
		if i == len(index)-1 {
			newest = old
		}
		if old.Get(events.HeaderMsgID) == m.Get(events.HeaderMsgID) {
			return old.position, nil
		}
		if old.position <= after {
			break
		}
	}
	if newest.position != after {
		return 0, fmt.Errorf("appending %s after %d, newest is %d: %w", e.ID, after, newest.position, events.ErrConflict)
	}
	if err := follows(newest, e); err != nil {
		return 0, err
	}
	return l.store(s, m), nil
}

// follows checks what events.Follow derives.
func follows(newest stored, e events.Event) error {
	if newest.position == 0 {
		if e.Sequence != 1 || e.Prev != "" {
			return fmt.Errorf("%s opens its aggregate with sequence %d and previous hash %q", e.ID, e.Sequence, e.Prev)
		}
		return nil
	}
	prev, err := events.Decode(newest.Message)
	if err != nil {
		return err
	}
	hash, err := prev.Hash()
	if err != nil {
		return err
	}
	if e.Sequence != prev.Sequence+1 || e.Prev != hash {
		return fmt.Errorf("%s does not follow %s: sequence %d after %d, previous hash %.8s, want %.8s",
			e.ID, prev.ID, e.Sequence, prev.Sequence, e.Prev, hash)
	}
	return nil
}

// Publish implements events.Log: the newest event of each subject stays.
func (l *Log) Publish(ctx context.Context, e events.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := events.Encode(e)
	if err != nil {
		return err
	}
	if e.Aggregate != (events.Aggregate{}) {
		return fmt.Errorf("publishing %s: it belongs to aggregate %s and must be appended", e.ID, e.Aggregate.Key())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stream(m.Subject)
	s.messages = slices.DeleteFunc(s.messages, func(old stored) bool { return old.Subject == m.Subject })
	l.store(s, m)
	return nil
}

// Inject writes any message as it is, garbage too, past every check.
func (l *Log) Inject(m events.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(l.stream(m.Subject), m)
}

// Read implements events.Log.
func (l *Log) Read(ctx context.Context, a events.Aggregate, after uint64) ([]events.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	s := l.stream(a.Filter())
	var found []stored
	for _, i := range s.aggregates[a.Filter()] {
		if s.messages[i].position > after {
			found = append(found, s.messages[i])
		}
	}
	l.mu.Unlock()
	return decodeAll(found)
}

// Find implements events.Log.
func (l *Log) Find(ctx context.Context, job events.JobID) (events.Aggregate, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.jobs[job]
	return a, ok, ctx.Err()
}

// Events returns everything that matches filter, oldest first: what a test looks at afterwards.
func (l *Log) Events(filter string) []events.Event {
	l.mu.Lock()
	var found []stored
	for _, m := range l.stream(filter).messages {
		if Match(filter, m.Subject) {
			found = append(found, m)
		}
	}
	l.mu.Unlock()
	var out []events.Event
	for _, m := range found {
		if e, err := m.decode(); err == nil {
			out = append(out, e)
		}
	}
	return out
}

// Dead returns the messages that no consumer could decode, each once per consumer that met it.
func (l *Log) Dead() []events.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.dead)
}

func decodeAll(found []stored) ([]events.Event, error) {
	out := make([]events.Event, 0, len(found))
	for _, m := range found {
		e, err := m.decode()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (m stored) decode() (events.Event, error) {
	e, err := events.Decode(m.Message)
	e.Position = m.position
	return e, err
}

func (l *Log) currentFaults() Faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults
}

// stream returns the stream a subject or filter belongs to. The caller holds mu.
func (l *Log) stream(subject string) *stream {
	name := subject
	if f := strings.Split(subject, "."); len(f) > 2 {
		name = f[2]
	}
	switch name {
	case "lease", "ops":
		name = "job"
	case "quarantine":
		name = "offer"
	}
	s, ok := l.streams[name]
	if !ok {
		s = &stream{aggregates: map[string][]int{}, durables: map[string]*durable{}}
		l.streams[name] = s
	}
	return s
}

// store gives m the next position and wakes the consumers. The caller holds mu.
func (l *Log) store(s *stream, m events.Message) uint64 {
	s.last++
	if cut := strings.LastIndexByte(m.Subject, '.'); cut > 0 {
		key := m.Subject[:cut] + ".>"
		s.aggregates[key] = append(s.aggregates[key], len(s.messages))
	}
	if f := strings.Split(m.Subject, "."); len(f) == 6 && f[2] == "job" {
		l.jobs[events.JobID(f[4])] = events.JobAggregate(events.OrgID(f[3]), events.JobID(f[4]))
	}
	s.messages = append(s.messages, stored{m, s.last})
	l.wake()
	return s.last
}

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Match says whether a subject matches a NATS wildcard.
func Match(filter, subject string) bool {
	if root, ok := strings.CutSuffix(filter, ">"); ok && !strings.Contains(root, "*") {
		return len(subject) > len(root) && strings.HasPrefix(subject, root)
	}
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || (token != "*" && token != s[i]) {
			return false
		}
	}
	return len(f) == len(s)
}
