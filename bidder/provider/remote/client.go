package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// ClientConfig bounds how long a client waits. Zero fields mean their defaults;
// a context that ends sooner wins.
type ClientConfig struct {
	Launch time.Duration // 10 min
	Other  time.Duration // 30 s
}

// Client is a seller in another process. It is safe for concurrent use.
//
// What the seller can do besides the four methods is learned from each answer, or
// from Learn; until then provider.As finds none of it.
type Client struct {
	nc     *nats.Conn
	seller string
	cfg    ClientConfig
	can    atomic.Pointer[provider.Capabilities]
}

// NewClient asks the named seller over nc, which stays the caller's. The seller need not be up.
func NewClient(nc *nats.Conn, seller string, cfg ClientConfig) (*Client, error) {
	if err := events.CheckToken("seller", seller); err != nil {
		return nil, err
	}
	if cfg.Launch == 0 {
		cfg.Launch = 10 * time.Minute
	}
	if cfg.Other == 0 {
		cfg.Other = 30 * time.Second
	}
	return &Client{nc: nc, seller: seller, cfg: cfg}, nil
}

// Learn asks the seller what it can do.
func (c *Client) Learn(ctx context.Context) error {
	_, err := c.ask(ctx, opCapabilities, struct{}{})
	return err
}

// Capabilities is what is known of the seller's optional interfaces.
func (c *Client) Capabilities() provider.Capabilities {
	if can := c.can.Load(); can != nil {
		return *can
	}
	return provider.Capabilities{}
}

// Offers implements provider.Provider.
func (c *Client) Offers(ctx context.Context) ([]events.Offer, error) {
	b, err := c.ask(ctx, provider.OpOffers, struct{}{})
	if err != nil {
		return nil, err
	}
	return read[events.Offer](provider.OpOffers, b)
}

// Launch implements provider.Provider.
func (c *Client) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	b, err := c.ask(ctx, provider.OpLaunch, launchRequest{token, spec})
	if err != nil {
		return provider.Instance{}, err
	}
	i, err := one[provider.Instance](provider.OpLaunch, b)
	if err == nil && i.Token != token {
		return provider.Instance{}, provider.Unanswered(provider.OpLaunch, fmt.Errorf("the answer is about token %q, not %q", i.Token, token))
	}
	return i, err
}

// Terminate implements provider.Provider.
func (c *Client) Terminate(ctx context.Context, id events.InstanceID) error {
	_, err := c.ask(ctx, provider.OpTerminate, instanceRequest{id})
	return err
}

// List implements provider.Provider.
func (c *Client) List(ctx context.Context) (provider.Listing, error) {
	b, err := c.ask(ctx, provider.OpList, struct{}{})
	if err != nil {
		return provider.Listing{}, err
	}
	all, err := read[provider.Instance](provider.OpList, b)
	if err != nil {
		return provider.Listing{}, err
	}
	l := provider.Listing{Instances: all}
	if meta := b.pages[0].List; meta != nil { // without it nothing says that the list is complete
		l.Complete, l.At = meta.Complete, meta.At
	}
	return l, nil
}

// Metered implements provider.Meter.
func (c *Client) Metered(ctx context.Context, id events.InstanceID) (provider.Reading, error) {
	b, err := c.ask(ctx, provider.OpMetered, instanceRequest{id})
	if err != nil {
		return provider.Reading{}, err
	}
	return one[provider.Reading](provider.OpMetered, b)
}

// Rebid implements provider.Rebidder.
func (c *Client) Rebid(ctx context.Context, id events.InstanceID, price events.PerInstanceHour) error {
	_, err := c.ask(ctx, provider.OpRebid, rebidRequest{id, price})
	return err
}

// Notices implements provider.Notifier. What is published while the connection
// is down is lost; a notice that cannot be read is skipped.
func (c *Client) Notices(ctx context.Context, deliver func(provider.Notice)) error {
	sub, err := c.nc.SubscribeSync(Subject(c.seller, provider.OpNotices))
	if err != nil {
		return provider.Unanswered(provider.OpNotices, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone, and the subscription with it
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, nats.ErrSlowConsumer) {
			continue
		}
		if err != nil {
			return provider.Unanswered(provider.OpNotices, err)
		}
		var n provider.Notice
		if json.Unmarshal(m.Data, &n) == nil && n.Instance != "" {
			deliver(n)
		}
	}
}
