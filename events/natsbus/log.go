package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// Handler takes one event of a subscription.
type Handler = func(context.Context, events.Event) error

// Options are what a Log takes from its surroundings. The zero value works.
type Options struct {
	Log *zap.Logger
	// Counters counts. nil: nobody looks.
	Counters *Counters
	// Jitter returns a duration in [0, its argument). It spreads retries; nil: none.
	Jitter func(time.Duration) time.Duration
	// Wrap is put around every handler given to Consume, once per call. A
	// simulation makes each event wait for its actor's turn there.
	Wrap func(events.Subscription, Handler) Handler
	// Point, if set, is called with a name before an event is appended and after
	// it was acknowledged, before anybody acts on that: "before append of
	// job.placed". A test ends the process there.
	Point func(point string)
	// Room is asked before every write; its error, which should wrap ErrFull, is
	// the write's. Embedded.Room is one.
	Room func() error
	// Timeout of one request to the bus. 0: 5 s.
	Timeout time.Duration
}

// Log is events.Log over JetStream. All methods may be called at once from any number of goroutines.
type Log struct {
	nc *nats.Conn
	js jetstream.JetStream
	o  Options

	mu      sync.Mutex
	streams map[string]jetstream.Stream
}

var _ events.Log = (*Log)(nil)

// New returns a Log over a connection, which stays the caller's to close. The
// streams must have been declared.
func New(nc *nats.Conn, o Options) (*Log, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Counters == nil {
		o.Counters = &Counters{}
	}
	if o.Point == nil {
		o.Point = func(string) {}
	}
	if o.Jitter == nil {
		o.Jitter = func(time.Duration) time.Duration { return 0 }
	}
	if o.Wrap == nil {
		o.Wrap = func(_ events.Subscription, h Handler) Handler { return h }
	}
	if o.Room == nil {
		o.Room = func() error { return nil }
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(o.Timeout))
	if err != nil {
		return nil, fmt.Errorf("opening JetStream: %w", err)
	}
	return &Log{nc: nc, js: js, o: o, streams: map[string]jetstream.Stream{}}, nil
}

// JetStream is the context that Declare and NewHighWater take.
func (l *Log) JetStream() jetstream.JetStream { return l.js }

// stream returns a handle; it asks the server once per stream.
func (l *Log) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	l.mu.Lock()
	s := l.streams[name]
	l.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := l.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	if s.CachedInfo().Config.AllowDirect {
		return nil, fmt.Errorf("stream %s: %w: direct get is on, so a read could miss what was written", name, ErrStreamMismatch)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams[name] = s
	return s, nil
}

// bounded limits one request to the bus.
func (l *Log) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.o.Timeout)
}

// next returns the first message at or after a position whose subject matches,
// as the leader has it, or nil.
func (l *Log) next(ctx context.Context, s jetstream.Stream, from uint64, filter string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	m, err := s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(filter))
	return none(m, err)
}

// last returns the newest message whose subject matches, as the leader has it, or nil.
func (l *Log) last(ctx context.Context, s jetstream.Stream, filter string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return none(s.GetLastMsgForSubject(ctx, filter))
}

func none(m *jetstream.RawStreamMsg, err error) (*jetstream.RawStreamMsg, error) {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// Newest is the position of the newest message of a stream, as its leader has it.
func (l *Log) Newest(ctx context.Context, stream string) (uint64, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", stream, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// Publish writes a fact that belongs to no aggregate.
func (l *Log) Publish(ctx context.Context, e events.Event) error {
	m, err := events.Encode(e)
	if err != nil {
		return err
	}
	if err := l.put(ctx, message(m)); err != nil {
		return fmt.Errorf("publishing %s: %w", e.ID, err)
	}
	return nil
}

// put writes one message that nothing is expected of.
func (l *Log) put(ctx context.Context, m *nats.Msg) error {
	if err := l.o.Room(); err != nil {
		return err
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.js.PublishMsg(ctx, m)
	return full(err)
}

func message(m events.Message) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Body}
}

// Find returns the aggregate of a job whatever its organisation.
func (l *Log) Find(ctx context.Context, job events.JobID) (events.Aggregate, bool, error) {
	if err := events.CheckToken("job", string(job)); err != nil {
		return events.Aggregate{}, false, err
	}
	s, err := l.stream(ctx, StreamJobs)
	if err != nil {
		return events.Aggregate{}, false, err
	}
	m, err := l.next(ctx, s, 1, anyOrg(job))
	if err != nil {
		return events.Aggregate{}, false, fmt.Errorf("finding job %s: %w", job, err)
	}
	for m != nil {
		if e, err := decode(m); err == nil {
			return e.Aggregate, true, nil
		}
		if m, err = l.next(ctx, s, m.Sequence+1, anyOrg(job)); err != nil {
			return events.Aggregate{}, false, fmt.Errorf("finding job %s: %w", job, err)
		}
	}
	return events.Aggregate{}, false, nil
}

// anyOrg covers a job whoever pays for it: job ids come from clients.
func anyOrg(job events.JobID) string {
	return events.JobAggregate("*", job).Filter()
}

func decode(m *jetstream.RawStreamMsg) (events.Event, error) {
	e, err := events.Decode(events.Message{Subject: m.Subject, Header: m.Header, Body: m.Data})
	e.Position = m.Sequence
	return e, err
}
