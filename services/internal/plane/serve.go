package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/services/internal/console"
)

// serving answers requests on a subject, several at a time. Replicas that serve
// the same share a queue: each request goes to one of them.
type serving struct {
	*ground
	whom, subject, queue string
	turn                 string // one at a time, each after this actor's turn
}

func (g *ground) serving(whom, subject, queue string) *serving {
	return &serving{ground: g, whom: whom, subject: subject, queue: queue}
}

// run serves until ctx ends. Then nothing new is taken, and what is under way
// has Config.Drain to be answered.
func (s *serving) run(ctx context.Context, answer func(context.Context, *nats.Msg) []byte) error {
	sub, err := s.Conn.QueueSubscribeSync(s.subject, s.queue)
	if err != nil {
		return fmt.Errorf("serving %s: %w", s.whom, err)
	}
	working, done := lasting(ctx, s.Drain)
	defer done()
	var g errgroup.Group
	g.SetLimit(s.Parallel)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil && s.turn != "":
			s.Turn(s.turn)
			s.respond(working, m, answer)
		case err == nil:
			g.Go(func() error { s.respond(working, m, answer); return nil })
		case errors.Is(err, nats.ErrSlowConsumer):
			s.Logger.Warn("requests dropped: more came than can be answered", zap.String("from", s.whom))
		default:
			_ = sub.Unsubscribe() // of a connection that is closed there is none
			_ = g.Wait()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("serving %s: %w", s.whom, err)
		}
	}
}

func (s *serving) respond(ctx context.Context, m *nats.Msg, answer func(context.Context, *nats.Msg) []byte) {
	if err := m.Respond(answer(ctx, m)); err != nil && ctx.Err() == nil {
		s.Logger.Warn("answer not sent", zap.String("subject", m.Subject), zap.Error(err))
	}
}

// lasting is a context that ends a while after its parent does.
func lasting(ctx context.Context, d time.Duration) (context.Context, func()) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the parent by d
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-longer.Done():
		}
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// reply is what one program answers another with.
type reply[T any] struct {
	Value   T                `json:"value,omitzero"`
	Error   string           `json:"error,omitempty"`
	Problem *console.Problem `json:"problem,omitempty"` // an error that a person is to see as it is
}

// answered reads a request, and encodes what answer says to it.
func answered[Q, A any](body []byte, answer func(Q) (A, error)) []byte {
	var q Q
	var r reply[A]
	err := json.Unmarshal(body, &q)
	if err == nil {
		r.Value, err = answer(q)
	}
	if err != nil {
		r.Error = err.Error()
		errors.As(err, &r.Problem)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Appendf(nil, `{"error":"the answer could not be encoded"}`)
	}
	return b
}

// askLimit is how long another program may take to answer. What is asked is
// idempotent, so that an answer that got lost costs a repetition.
const askLimit = 10 * time.Second

// asked asks another program.
func asked[A any](ctx context.Context, nc *nats.Conn, subject string, q any) (A, error) {
	var r reply[A]
	body, err := json.Marshal(q)
	if err != nil {
		return r.Value, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askLimit, fmt.Errorf("no answer on %s within %s", subject, askLimit))
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return r.Value, fmt.Errorf("nobody answers on %s: is that program running?", subject)
	case err != nil && ctx.Err() != nil:
		return r.Value, context.Cause(ctx)
	case err != nil:
		return r.Value, err
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return r.Value, fmt.Errorf("the answer on %s cannot be read: %w", subject, err)
	}
	switch {
	case r.Problem != nil:
		return r.Value, r.Problem
	case r.Error != "":
		return r.Value, errors.New(r.Error)
	}
	return r.Value, nil
}
