package natsbus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// Read returns the aggregate's events behind a position. It looks at what was
// there when it began: one request when there is nothing new, one more per new
// event. Numbers must run without a gap and each event must name the hash of
// the one before; if not, the error wraps events.ErrRegressed. Messages that
// are no events are stepped over; an event of an unknown type is an error,
// because a fold without it would be wrong.
func (l *Log) Read(ctx context.Context, a events.Aggregate, after uint64) ([]events.Event, error) {
	name, err := streamOf([]string{a.Filter()})
	if err != nil {
		return nil, err
	}
	s, err := l.stream(ctx, name)
	if err != nil {
		return nil, err
	}
	out, err := l.read(ctx, s, a, after)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", a.Kind, a.Key(), err)
	}
	return out, nil
}

func (l *Log) read(ctx context.Context, s jetstream.Stream, a events.Aggregate, after uint64) ([]events.Event, error) {
	newest, err := l.last(ctx, s, a.Filter())
	if err != nil {
		return nil, err
	}
	if stands := position(newest); stands < after {
		return nil, fmt.Errorf("%w: stream %s: the event at sequence %d is gone, the newest is at %d",
			events.ErrRegressed, s.CachedInfo().Config.Name, after, stands)
	} else if stands == after {
		return nil, nil
	}
	c := chain{stream: s.CachedInfo().Config.Name, whole: after == 0}
	for from := after + 1; from <= newest.Sequence; {
		m, err := l.next(ctx, s, from, a.Filter())
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, fmt.Errorf("%w: stream %s: the event at sequence %d is gone", events.ErrRegressed, c.stream, newest.Sequence)
		}
		e, err := decode(m)
		switch {
		case errors.Is(err, events.ErrMalformed):
			l.o.Log.Warn("message in an aggregate is no event", zap.String("stream", c.stream), zap.Uint64("sequence", m.Sequence), zap.Error(err))
		case err != nil:
			return nil, fmt.Errorf("stream %s sequence %d: %w", c.stream, m.Sequence, err)
		default:
			if err := c.add(e); err != nil {
				return nil, err
			}
		}
		from = m.Sequence + 1
	}
	return c.events, nil
}

// chain collects events that follow each other.
type chain struct {
	stream string
	whole  bool // begins with the aggregate's first event
	events []events.Event
	hash   string // of the newest
}

func (c *chain) add(e events.Event) error {
	n := len(c.events)
	switch {
	case n == 0 && c.whole && e.Sequence != 1:
		return c.broken(e, "it is number %d and the ones before are gone", e.Sequence)
	case n > 0 && e.Sequence != c.events[n-1].Sequence+1:
		return c.broken(e, "it is number %d behind number %d", e.Sequence, c.events[n-1].Sequence)
	case n > 0 && e.Prev != c.hash:
		return c.broken(e, "its previous hash is not that of %s", c.events[n-1].ID)
	}
	hash, err := e.Hash()
	if err != nil {
		return err
	}
	c.events, c.hash = append(c.events, e), hash
	return nil
}

func (c *chain) broken(e events.Event, format string, args ...any) error {
	return fmt.Errorf("%w: stream %s sequence %d: %s does not follow: %s",
		events.ErrRegressed, c.stream, e.Position, e.ID, fmt.Sprintf(format, args...))
}
