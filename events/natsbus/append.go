package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

const (
	appendTries = 5
	appendWait  = 50 * time.Millisecond // before the second try, doubled each time
)

// attempt is one Append under way.
type attempt struct {
	log    *Log
	event  events.Event
	msg    *nats.Msg
	id     string // of the message: event id and content hash
	filter string // what must not have moved on
	after  uint64
}

// Append writes e behind the event at position after, exactly once whatever
// the broker answers: see events.Log. An error that wraps none of ErrConflict,
// ErrUnknown, ErrRegressed means that nothing was written: ErrFull, an event
// that cannot be encoded, or a wrong call.
func (l *Log) Append(ctx context.Context, after uint64, e events.Event) (events.Event, error) {
	if (after == 0) != (e.Sequence == 1) || (after == 0) != (e.Prev == "") {
		return e, fmt.Errorf("appending %s: number %d with previous hash %q cannot follow position %d", e.ID, e.Sequence, e.Prev, after)
	}
	m, err := events.Encode(e)
	if err != nil {
		return e, err
	}
	a := &attempt{log: l, event: e, msg: message(m), id: m.Get(events.HeaderMsgID), filter: e.Aggregate.Filter(), after: after}
	if e.Aggregate.Kind == "job" && after == 0 {
		a.filter = anyOrg(events.JobID(e.Aggregate.ID))
	}
	row, _ := events.TypeOf(e.Fact)
	l.o.Point("before append of " + row.Family + "." + row.Event)
	position, err := a.run(ctx)
	l.o.Counters.appended(err)
	if err != nil {
		return e, fmt.Errorf("appending %s: %w", e.ID, err)
	}
	l.o.Point("after append of " + row.Family + "." + row.Event)
	e.Position = position
	return e, nil
}

// run publishes until the outcome is known. To publish again is safe: the
// expectation and the message id let the message stand once at most.
func (a *attempt) run(ctx context.Context) (uint64, error) {
	wait := appendWait
	var unclear error
	for try := range appendTries {
		if try > 0 {
			if err := sleep(ctx, wait+a.log.o.Jitter(wait)); err != nil {
				break
			}
			wait *= 2
		}
		position, err := a.publish(ctx)
		if err == nil {
			return position, nil
		}
		if position, known, err := a.judge(ctx, err); known {
			return position, err
		}
		unclear = err
		if ctx.Err() != nil {
			break
		}
	}
	return 0, errors.Join(events.ErrUnknown, ctx.Err(), unclear)
}

// errLook is why a publish must be read back although the broker did not complain.
var errLook = errors.New("the broker calls it a duplicate")

func (a *attempt) publish(ctx context.Context) (uint64, error) {
	if err := a.log.o.Room(); err != nil {
		return 0, err
	}
	ctx, cancel := a.log.bounded(ctx)
	defer cancel()
	ack, err := a.log.js.PublishMsg(ctx, a.msg, jetstream.WithExpectLastSequenceForSubject(a.after, a.filter))
	switch {
	case err != nil:
		return 0, err
	case ack.Duplicate:
		return 0, errLook
	}
	return ack.Sequence, nil
}

// judge reads through the leader what stands behind the expected position, and
// says whether that settles the append.
func (a *attempt) judge(ctx context.Context, cause error) (position uint64, known bool, err error) {
	a.log.o.Log.Debug("append read back", zap.String("event", string(a.event.ID)), zap.Error(cause))
	name, err := streamOf([]string{a.msg.Subject})
	if err != nil {
		return 0, true, err
	}
	s, err := a.log.stream(ctx, name)
	if err != nil {
		return 0, false, err
	}
	m, err := a.standing(ctx, s)
	switch {
	case err != nil:
		return 0, false, err
	case m == nil:
		return a.judgeEmpty(ctx, s, cause)
	case m.Subject == a.msg.Subject && m.Header.Get(events.HeaderMsgID) == a.id:
		return m.Sequence, true, nil
	}
	return 0, true, fmt.Errorf("%w: %s stands at position %d", events.ErrConflict, m.Header.Get("ce-id"), m.Sequence)
}

// standing returns the first event behind the expected position, or nil. It
// steps over messages that are no events: somebody with a service's rights put
// garbage there, and an aggregate must not be stuck behind it.
func (a *attempt) standing(ctx context.Context, s jetstream.Stream) (*jetstream.RawStreamMsg, error) {
	from := a.after + 1
	for {
		m, err := a.log.next(ctx, s, from, a.filter)
		if err != nil || m == nil {
			return nil, err
		}
		if _, err := decode(m); !errors.Is(err, events.ErrMalformed) {
			return m, nil
		}
		a.after, from = m.Sequence, m.Sequence+1
	}
}

// judgeEmpty decides when nothing stands behind the expected position. Only a
// certain refusal settles it; a message that was sent may still be on its way.
func (a *attempt) judgeEmpty(ctx context.Context, s jetstream.Stream, cause error) (uint64, bool, error) {
	if refused := full(cause); errors.Is(refused, ErrFull) {
		return 0, true, refused
	}
	newest, err := a.log.last(ctx, s, a.filter)
	if err != nil {
		return 0, false, err
	}
	if stands := position(newest); stands < a.after {
		return 0, true, fmt.Errorf("%w: stream %s: the event at sequence %d is gone, the newest of %s is at %d",
			events.ErrRegressed, s.CachedInfo().Config.Name, a.after, a.filter, stands)
	}
	return 0, false, nil
}

func position(m *jetstream.RawStreamMsg) uint64 {
	if m == nil {
		return 0
	}
	return m.Sequence
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
