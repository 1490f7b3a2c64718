package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder/provider"
)

// ask sends one request and waits for the whole answer.
func (c *Client) ask(ctx context.Context, op string, request any) (*book, error) {
	if ctx.Err() != nil {
		return nil, provider.HeldBack(ctx, op)
	}
	limit := c.cfg.Other
	if op == provider.OpLaunch {
		limit = c.cfg.Launch
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	sub, err := c.send(ctx, op, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	return c.receive(ctx, op, sub)
}

// send returns the subscription that the answer comes to. Its errors mean that nothing was sent.
func (c *Client) send(ctx context.Context, op string, request any) (*nats.Subscription, error) {
	if status := c.nc.Status(); status != nats.CONNECTED {
		// What is published now would wait for the connection and be carried out
		// long after the caller gave up.
		return nil, unsent(op, fmt.Errorf("the bus is %s", status))
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Invalid, Op: op, Message: "the request cannot be written as JSON", Err: err}
	}
	if room := c.nc.MaxPayload() - pageOverhead; int64(len(body)) > room {
		return nil, &provider.Error{
			Kind: provider.Invalid, Op: op, Code: "request_too_large",
			Message: fmt.Sprintf("the request has %d bytes and the bus carries %d; send less user data", len(body), room),
		}
	}
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, unsent(op, err)
	}
	m := &nats.Msg{Subject: Subject(c.seller, op), Reply: inbox, Data: body, Header: nats.Header{}}
	if end, ok := ctx.Deadline(); ok {
		m.Header.Set(headerTimeout, strconv.FormatInt(max(time.Until(end).Milliseconds(), 1), 10))
	}
	carry(ctx, m.Header)
	if err := c.nc.PublishMsg(m); err != nil {
		_ = sub.Unsubscribe()
		return nil, unsent(op, err)
	}
	return sub, nil
}

func unsent(op string, err error) *provider.Error {
	return &provider.Error{Kind: provider.Transient, Op: op, Scope: "seller", Code: "unreachable", Err: err}
}

// receive collects pages. Its errors, but for nobody listening, mean that the request was sent.
func (c *Client) receive(ctx context.Context, op string, sub *nats.Subscription) (*book, error) {
	var b book
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, unsent(op, fmt.Errorf("nobody serves seller %q: %w", c.seller, err))
		}
		if err != nil && ctx.Err() != nil {
			return nil, provider.Unanswered(op, why(ctx))
		}
		if err != nil {
			return nil, provider.Unanswered(op, err)
		}
		c.learn(m.Header)
		done, err := b.add(m.Data)
		if err != nil {
			return nil, malformed(op, err)
		}
		if done {
			if f := b.pages[0].Error; f != nil {
				return nil, f.err(op)
			}
			return &b, nil
		}
	}
}

// why tells our own time-out from the caller's end, and is the context's error either way.
func why(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", cause, ctx.Err())
	}
	return context.Cause(ctx)
}

func (c *Client) learn(h nats.Header) {
	if v, ok := h[headerCapabilities]; ok && len(v) > 0 {
		can := parseCapabilities(v[0])
		c.can.Store(&can)
	}
}

func malformed(op string, err error) error {
	e := provider.Unanswered(op, err)
	e.Code = "malformed_answer"
	return e
}

func read[T any](op string, b *book) ([]T, error) {
	all, err := items[T](b)
	if err != nil {
		return nil, malformed(op, err)
	}
	return all, nil
}

func one[T any](op string, b *book) (T, error) {
	all, err := read[T](op, b)
	if err == nil && len(all) != 1 {
		err = malformed(op, fmt.Errorf("the answer has %d items, want 1", len(all)))
	}
	if err != nil {
		var none T
		return none, err
	}
	return all[0], nil
}
