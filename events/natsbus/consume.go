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

const (
	defaultWait   = 30 * time.Second
	maxAckPending = 256 // events of one durable that may wait for another try
	retryFirst    = 250 * time.Millisecond
	retryCap      = 30 * time.Second
	rebuildFirst  = 250 * time.Millisecond
	rebuildCap    = 15 * time.Second
)

// Consume hands the events of a subscription to handle, one at a time and in
// the order of the stream, until ctx ends.
//
// With a name, replicas that consume under the same name share the events, and
// each event is acknowledged when handle has returned nil for it. While handle
// works the broker is told so. An event whose handle failed comes back after a
// pause that grows to half a minute; the events behind it are not held up, so
// only events that never failed are sure to come in order. A message that
// cannot be decoded goes to the dead letters by reference and does not come
// back. A deleted consumer is made anew and starts from the oldest event.
//
// Without a name nothing is acknowledged: what fails is tried again in place,
// what cannot be decoded is counted and passed over.
//
// It returns nil when ctx ends, an error only for a subscription that cannot
// be and when somebody closed the connection.
func (l *Log) Consume(ctx context.Context, s events.Subscription, handle func(context.Context, events.Event) error) error {
	stream, err := streamOf(s.Filters)
	if err != nil {
		return err
	}
	if s.Name != "" && (s.Last || s.From != 0 || s.CaughtUp != nil) {
		return fmt.Errorf("subscription %s: Last, From and CaughtUp are for subscriptions without a name", s.Name)
	}
	if s.Wait == 0 {
		s.Wait = defaultWait
	}
	handle = l.o.Wrap(s, handle)
	if s.Name == "" {
		p := &private{log: l, stream: stream, sub: s, start: s.From, deliver: func(ctx context.Context, m jetstream.Msg, at uint64) {
			l.deliverPrivate(ctx, stream, m, at, handle)
		}}
		return p.run(ctx)
	}
	d := &durable{log: l, stream: stream, sub: s, handle: handle}
	return l.keep(ctx, s.Name, d.session)
}

// keep runs sessions of a consumer until ctx ends, with a growing pause
// between those that fail soon.
func (l *Log) keep(ctx context.Context, name string, session func(context.Context) error) error {
	pause := rebuildFirst
	for {
		began := time.Now()
		err := session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if l.nc.IsClosed() {
			return fmt.Errorf("consumer %s: %w", name, nats.ErrConnectionClosed)
		}
		if time.Since(began) > rebuildCap {
			pause = rebuildFirst
		}
		l.o.Counters.add(CountRebuilds, name)
		l.o.Log.Warn("consumer interrupted", zap.String("consumer", name), zap.Duration("again_in", pause), zap.Error(err))
		if sleep(ctx, pause+l.o.Jitter(pause)) != nil {
			return nil
		}
		pause = min(2*pause, rebuildCap)
	}
}

// durable is one subscription that is shared and acknowledged.
type durable struct {
	log    *Log
	stream string
	sub    events.Subscription
	handle Handler
}

func (d *durable) config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: d.sub.Name, FilterSubjects: d.sub.Filters,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: d.sub.Wait, MaxDeliver: -1, MaxAckPending: maxAckPending,
	}
}

// pullExpiry bounds how long a request for the next message stands. A request has
// been seen, once and under the race detector, to get nothing although a message had
// come back; why is not known. Delivery goes on when the request is made anew.
const pullExpiry = 10 * time.Second

// session consumes until something breaks. One message is asked for at a time:
// one that waits here behind a slow handler would be given to another replica as well.
func (d *durable) session(ctx context.Context) error {
	c, err := d.create(ctx)
	if err != nil {
		return err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(pullExpiry))
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		d.deliver(ctx, m)
	}
}

func (d *durable) create(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := d.log.bounded(ctx)
	defer cancel()
	c, err := d.log.js.CreateOrUpdateConsumer(ctx, d.stream, d.config())
	if err != nil {
		return nil, fmt.Errorf("consumer %s of stream %s: %w", d.sub.Name, d.stream, err)
	}
	return c, nil
}

func (d *durable) deliver(ctx context.Context, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return // not a delivery; nothing could be acknowledged
	}
	log := d.log.o.Log.With(zap.String("consumer", d.sub.Name), zap.Uint64("sequence", meta.Sequence.Stream))
	e, err := events.Decode(events.Message{Subject: m.Subject(), Header: m.Headers(), Body: m.Data()})
	if err != nil {
		d.bury(ctx, log, m, meta, err)
		return
	}
	e.Position = meta.Sequence.Stream
	err = d.work(ctx, m, e)
	switch {
	case err == nil:
		d.answer(log, "ack", m.Ack())
	case ctx.Err() != nil: // being stopped: the next one to start gets it at once
		d.answer(log, "nak", m.Nak())
	default:
		d.log.o.Counters.add(CountRetries, d.sub.Name)
		delay := retryDelay(meta.NumDelivered)
		delay += d.log.o.Jitter(delay)
		log.Warn("event comes back", zap.String("event", string(e.ID)), zap.Uint64("deliveries", meta.NumDelivered), zap.Duration("in", delay), zap.Error(err))
		d.answer(log, "nak", m.NakWithDelay(delay))
	}
}

// answer logs an answer that did not go out: the event will come again.
func (d *durable) answer(log *zap.Logger, what string, err error) {
	if err != nil {
		log.Debug("answer not sent", zap.String("answer", what), zap.Error(err))
	}
}

// work calls the handler and tells the broker three times per Wait that it is being worked on.
func (d *durable) work(ctx context.Context, m jetstream.Msg, e events.Event) error {
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	wg.Go(func() {
		t := time.NewTicker(d.sub.Wait / 3)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				_ = m.InProgress() // if it does not arrive, the event comes twice
			}
		}
	})
	return d.handle(ctx, e)
}

func retryDelay(deliveries uint64) time.Duration {
	shift := min(max(deliveries, 1)-1, 10)
	return min(retryFirst<<shift, retryCap)
}

// bury sends a message that cannot be read to the dead letters, and only then
// ends its delivery.
func (d *durable) bury(ctx context.Context, log *zap.Logger, m jetstream.Msg, meta *jetstream.MsgMetadata, cause error) {
	letter := DeadLetter{
		Stream: d.stream, Sequence: meta.Sequence.Stream, Consumer: d.sub.Name,
		Subject: m.Subject(), Type: m.Headers().Get("ce-type"), Reason: cause.Error(),
	}
	if err := d.log.sendDead(ctx, letter); err != nil {
		log.Error("dead letter not written", zap.Error(err))
		d.answer(log, "nak", m.NakWithDelay(retryDelay(meta.NumDelivered)))
		return
	}
	d.log.o.Counters.add(CountDeadLetters, d.sub.Name)
	log.Error("message set aside", zap.String("stream", d.stream), zap.String("subject", m.Subject()), zap.Error(cause))
	d.answer(log, "term", m.TermWithReason("cannot be decoded"))
}

// deliverPrivate tries one event until its handler has taken it or ctx ends.
func (l *Log) deliverPrivate(ctx context.Context, stream string, m jetstream.Msg, at uint64, handle Handler) {
	e, err := events.Decode(events.Message{Subject: m.Subject(), Header: m.Headers(), Body: m.Data()})
	if err != nil {
		l.o.Counters.add(CountDeadLetters, "private")
		l.o.Log.Warn("message passed over", zap.String("stream", stream), zap.Uint64("sequence", at), zap.Error(err))
		return
	}
	e.Position = at
	for try := uint64(1); ; try++ {
		err := handle(ctx, e)
		if err == nil || ctx.Err() != nil {
			return
		}
		l.o.Counters.add(CountRetries, "private")
		delay := retryDelay(try)
		l.o.Log.Warn("event tried again", zap.String("event", string(e.ID)), zap.Duration("in", delay), zap.Error(err))
		if sleep(ctx, delay+l.o.Jitter(delay)) != nil {
			return
		}
	}
}

var errGap = errors.New("deliveries are missing")
