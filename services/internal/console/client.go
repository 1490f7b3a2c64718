package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Client asks a Server over the bus.
type Client struct {
	nc   *nats.Conn
	role Role
	user string
}

// NewClient asks as user in a role, by the credential that nc was opened with.
func NewClient(nc *nats.Conn, role Role, user string) *Client { return &Client{nc, role, user} }

// ErrUnreachable says that nobody answers: the bus is away, or no console runs.
var ErrUnreachable = errors.New("the system cannot be reached")

// Ask sends a request and returns its answer. Errors: *Problem, ErrUnreachable, or the context's.
func Ask[T any](ctx context.Context, c *Client, v Verb, request any) (T, error) {
	var a answer[T]
	b, err := json.Marshal(request)
	if err != nil {
		return a.Value, err
	}
	m, err := c.nc.RequestWithContext(ctx, Subject(c.role, c.user, v), b)
	switch {
	case unreachable(err):
		return a.Value, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case err != nil:
		return a.Value, err
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a.Value, fmt.Errorf("reading the answer to %s: %w", v, err)
	}
	if a.Problem != nil {
		return a.Value, a.Problem
	}
	return a.Value, nil
}

// unreachable says whether err is the bus's being away or nobody's listening there.
func unreachable(err error) bool {
	for _, e := range []error{
		nats.ErrNoResponders, nats.ErrConnectionClosed, nats.ErrDisconnected, nats.ErrTimeout, nats.ErrConnectionReconnecting,
		nats.ErrConnectionDraining, nats.ErrReconnectBufExceeded, // nothing is buffered while the bus is away
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Serve answers requests that arrive on nc, several at a time, until ctx ends, and
// returns nil then, every answer given. It is called once.
func (s *Server) Serve(ctx context.Context, nc *nats.Conn) error {
	sub, err := nc.QueueSubscribeSync(apiRoot+"*.*.*", "console")
	if err != nil {
		return fmt.Errorf("serving the console: %w", err)
	}
	close(s.heard)
	var g errgroup.Group
	g.SetLimit(parallel)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			g.Go(func() error { s.respond(ctx, nc, m); return nil })
		case errors.Is(err, nats.ErrSlowConsumer):
			s.cfg.Logger.Warn("requests dropped: more came than can be answered")
		default:
			_ = g.Wait()
			_ = sub.Unsubscribe() // of a connection that is closed there is none
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("serving the console: %w", err)
		}
	}
}

// parallel is how many requests are answered at once.
const parallel = 16

func (s *Server) respond(ctx context.Context, nc *nats.Conn, m *nats.Msg) {
	answer := s.Handle(ctx, m.Subject, m.Data)
	if most := nc.MaxPayload(); int64(len(answer)) > most {
		s.cfg.Logger.Warn("answer too long", zap.String("subject", m.Subject), zap.Int("bytes", len(answer)))
		answer = []byte(`{"problem":{"code":"internal","message":"the answer is longer than the bus carries","remedy":"ask for one job"}}`)
	}
	if err := m.Respond(answer); err != nil {
		s.cfg.Logger.Warn("answer not sent", zap.String("subject", m.Subject), zap.Error(err))
	}
}
