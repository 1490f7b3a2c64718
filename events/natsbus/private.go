package natsbus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
)

const (
	privateBatch = 256
	// privateIdle removes a private consumer whose process has died.
	privateIdle = time.Minute
)

// private reads a stream in order for one process. It acknowledges nothing:
// whatever interrupts it, it makes a new consumer behind the last message it
// delivered.
type private struct {
	log     *Log
	stream  string
	sub     events.Subscription
	start   uint64 // next stream sequence; 0: from the beginning, or Last
	since   time.Time
	deliver func(ctx context.Context, m jetstream.Msg, at uint64)

	made     time.Time // when the stream was
	pending  uint64    // messages until CaughtUp
	caughtUp bool
}

func (p *private) run(ctx context.Context) error {
	return p.log.keep(ctx, "private", p.session)
}

func (p *private) config() jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		FilterSubjects: p.sub.Filters, AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: privateIdle,
	}
	switch {
	case p.start > 0:
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, p.start
	case p.sub.Last:
		c.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy
	case !p.since.IsZero():
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &p.since
	}
	return c
}

func (p *private) session(ctx context.Context) error {
	c, err := p.create(ctx)
	if err != nil {
		return err
	}
	defer p.remove(ctx, c)
	p.pending = c.CachedInfo().NumPending
	p.progress(0)
	it, err := c.Messages(jetstream.PullMaxMessages(privateBatch))
	if err != nil {
		return err
	}
	defer it.Stop()
	defer p.stopOnReconnect(it)()
	var delivered uint64
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if delivered++; meta.Sequence.Consumer != delivered {
			return errGap
		}
		p.deliver(ctx, m, meta.Sequence.Stream)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.start = meta.Sequence.Stream + 1
		p.progress(1)
	}
}

// progress counts down to CaughtUp.
func (p *private) progress(n uint64) {
	p.pending -= min(n, p.pending)
	if p.pending > 0 || p.caughtUp {
		return
	}
	p.caughtUp = true
	if p.sub.CaughtUp != nil {
		p.sub.CaughtUp()
	}
}

// create makes the consumer. A stream in memory is made anew when its broker was
// restarted, and numbers from 1 again: what it has then is all new.
func (p *private) create(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := p.log.bounded(ctx)
	defer cancel()
	s, err := p.log.js.Stream(ctx, p.stream)
	if err != nil {
		return nil, err
	}
	if made := s.CachedInfo().Created; !made.Equal(p.made) {
		if !p.made.IsZero() {
			p.start = p.sub.From
		}
		p.made = made
	}
	return p.log.js.CreateConsumer(ctx, p.stream, p.config())
}

// remove deletes the consumer so that none piles up. It runs when ctx may have
// ended, and gives up soon: the broker removes an idle one by itself.
func (p *private) remove(ctx context.Context, c jetstream.Consumer) {
	if !p.log.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.log.js.DeleteConsumer(ctx, p.stream, c.CachedInfo().Name)
}

// stopOnReconnect ends the iteration when the connection has been away: what
// was under way then is lost, and the broker believes it delivered.
func (p *private) stopOnReconnect(it jetstream.MessagesContext) (cancel func()) {
	back := p.log.nc.StatusChanged(nats.CONNECTED)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, open := <-back; open {
			it.Stop()
		}
	}()
	return func() {
		p.log.nc.RemoveStatusListener(back)
		<-ended
	}
}
