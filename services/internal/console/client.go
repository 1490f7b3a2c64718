package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Client asks a Server over the bus.
type Client struct {
	nc   *nats.Conn
	user string
}

// NewClient asks as user, whose credential nc was opened with.
func NewClient(nc *nats.Conn, user string) *Client { return &Client{nc, user} }

// ErrUnreachable says that nobody answers: the bus is away, or no console runs.
var ErrUnreachable = errors.New("the system cannot be reached")

// Ask sends a request and returns its answer. Errors: *Problem, ErrUnreachable, or the context's.
func Ask[T any](ctx context.Context, c *Client, v Verb, request any) (T, error) {
	var a answer[T]
	b, err := json.Marshal(request)
	if err != nil {
		return a.Value, err
	}
	m, err := c.nc.RequestWithContext(ctx, Subject(c.user, v), b)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrTimeout):
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

// Serve answers requests that arrive on nc, several at a time, until ctx ends. It
// is called once.
func (s *Server) Serve(ctx context.Context, nc *nats.Conn) error {
	slots := make(chan struct{}, 16)
	sub, err := nc.QueueSubscribe(apiRoot+"*.*", "console", func(m *nats.Msg) {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			_ = m.Respond(s.Handle(ctx, m.Subject, m.Data))
		}()
	})
	if err != nil {
		return fmt.Errorf("serving the console: %w", err)
	}
	close(s.heard)
	<-ctx.Done()
	return errors.Join(sub.Unsubscribe())
}
