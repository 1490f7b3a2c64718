package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
)

// Place is where an agent speaks from: the end of a signal's or a log's subject.
type Place struct {
	Org   events.OrgID
	Job   events.JobID
	Epoch int
}

func (p Place) check() error {
	if err := events.CheckToken("org", string(p.Org)); err != nil {
		return err
	}
	if err := events.CheckToken("job", string(p.Job)); err != nil {
		return err
	}
	if p.Epoch < 1 {
		return fmt.Errorf("epoch %d: epochs count from 1", p.Epoch)
	}
	return nil
}

func (p Place) subject(root string) string {
	return fmt.Sprintf("%s%s.%s.%d", root, p.Org, p.Job, p.Epoch)
}

func placeOf(root, subject string) (Place, bool) {
	f := strings.Split(strings.TrimPrefix(subject, root), ".")
	if len(f) != 3 {
		return Place{}, false
	}
	epoch, err := strconv.Atoi(f[2])
	p := Place{events.OrgID(f[0]), events.JobID(f[1]), epoch}
	return p, err == nil && p.check() == nil
}

// PutSignal replaces the newest heartbeat of a job's epoch.
func (l *Log) PutSignal(ctx context.Context, p Place, h events.Heartbeat) error {
	if err := p.check(); err != nil {
		return err
	}
	m, err := jsonMessage(p.subject(events.SubjectSignal), h)
	if err == nil {
		err = l.put(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("heartbeat of job %s epoch %d: %w", p.Job, p.Epoch, err)
	}
	return nil
}

// WatchSignals calls handle with the newest heartbeat of every epoch that has
// one and with each one after that, until ctx ends. caughtUp, if not nil, is
// called once when what was there has been handled.
func (l *Log) WatchSignals(ctx context.Context, caughtUp func(), handle func(context.Context, Place, events.Heartbeat)) error {
	p := &private{log: l, stream: StreamSignals, sub: events.Subscription{Filters: []string{events.FilterSignals}, Last: true, CaughtUp: caughtUp}}
	p.deliver = func(ctx context.Context, m jetstream.Msg, _ uint64) {
		var h events.Heartbeat
		place, ok := placeOf(events.SubjectSignal, m.Subject())
		if !ok || json.Unmarshal(m.Data(), &h) != nil {
			l.o.Counters.add(CountDeadLetters, "signals")
			return
		}
		handle(ctx, place, h)
	}
	return p.run(ctx)
}

// Signal returns the newest heartbeat of a job's epoch, or false.
func (l *Log) Signal(ctx context.Context, p Place) (events.Heartbeat, bool, error) {
	var h events.Heartbeat
	if err := p.check(); err != nil {
		return h, false, err
	}
	s, err := l.stream(ctx, StreamSignals)
	if err != nil {
		return h, false, err
	}
	m, err := l.last(ctx, s, p.subject(events.SubjectSignal))
	if err != nil || m == nil {
		return h, false, err
	}
	err = json.Unmarshal(m.Data, &h)
	return h, err == nil, err
}

func jsonMessage(subject string, v any) (*nats.Msg, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(subject)
	m.Data = body
	return m, nil
}

// scan reads what a stream holds now, oldest first, and returns.
func (l *Log) scan(ctx context.Context, stream string, filters []string, take func(jetstream.Msg) error) error {
	return l.scanSince(ctx, stream, filters, time.Time{}, take)
}

func (l *Log) scanSince(ctx context.Context, stream string, filters []string, since time.Time, take func(jetstream.Msg) error) error {
	scanned, done := context.WithCancel(ctx)
	defer done()
	var stop error
	p := &private{log: l, stream: stream, sub: events.Subscription{Filters: filters, CaughtUp: done}, since: since}
	p.deliver = func(_ context.Context, m jetstream.Msg, _ uint64) {
		if stop == nil {
			if stop = take(m); stop != nil {
				done()
			}
		}
	}
	if err := p.run(scanned); err != nil {
		return err
	}
	if stop != nil {
		return stop
	}
	return ctx.Err()
}
