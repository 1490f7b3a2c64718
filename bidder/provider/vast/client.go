package vast

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Client is Vast.ai as one account sees it. It is safe for concurrent use.
type Client struct {
	cfg  Config
	api  *wire.API
	pace paces
	desk *keyless.Desk

	mu     sync.Mutex
	quotes map[events.Pool]quote // of the newest search
}

// Offers implements provider.Provider: one search for machines on demand, one for bids.
func (c *Client) Offers(ctx context.Context) ([]events.Offer, error) {
	found := map[events.Pool]quote{}
	for _, terms := range []events.CapacityType{events.OnDemand, events.Bid} {
		if err := c.search(ctx, provider.OpOffers, terms, nil, found); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, q := range found {
		found[p] = q.since(c.quotes[p])
	}
	c.quotes = found
	return offers(found), nil
}

// Launch implements provider.Provider.
func (c *Client) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	return c.desk.Launch(ctx, spec, token)
}

// List implements provider.Provider.
func (c *Client) List(ctx context.Context) (provider.Listing, error) { return c.desk.List(ctx) }

// Terminate implements provider.Provider.
func (c *Client) Terminate(ctx context.Context, id events.InstanceID) error {
	return c.desk.Terminate(ctx, id)
}

// Rebid implements provider.Rebidder.
func (c *Client) Rebid(ctx context.Context, id events.InstanceID, price events.PerInstanceHour) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpRebid)
	}
	_, ours, err := c.desk.Living(ctx, provider.OpRebid, id)
	if err != nil {
		return err
	}
	if !ours {
		return &provider.Error{Kind: provider.NotFound, Op: provider.OpRebid, Code: "not ours", Message: "no living instance " + string(id) + " of ours"}
	}
	if err := c.pace.bid.Wait(ctx, provider.OpRebid); err != nil {
		return err
	}
	_, err = c.order(ctx, provider.OpRebid, c.pace.bid, wire.Question{
		Method: http.MethodPut, Path: "/api/v0/instances/bid_price/" + string(id) + "/",
		Body: map[string]any{"client_id": "me", "price": json.Number(price.String())},
	})
	if err == nil {
		c.desk.Repriced(id, price)
	}
	return err
}

// order asks for something to be done, and reads whether it was.
func (c *Client) order(ctx context.Context, op string, pace *wire.Pace, q wire.Question) (reply, error) {
	a, err := c.api.Ask(ctx, q)
	if err != nil {
		return reply{}, wire.Broken(ctx, op, err)
	}
	r, err := readReply(a)
	if err != nil && a.OK() {
		return reply{}, wire.Garbled(op, a, err)
	}
	if a.OK() && r.Success != nil && *r.Success {
		return r, nil
	}
	return r, c.refused(op, pace, a, r)
}

// refused is a refusal, with the time to wait that Vast.ai does not tell.
func (c *Client) refused(op string, pace *wire.Pace, a wire.Answer, r reply) *provider.Error {
	e := classify(op, a.Status, r)
	if e.Kind == provider.Throttled {
		e.RetryAfter = max(wire.RetryAfter(a.Header, c.cfg.Now().Control), pace.Interval())
		if op == provider.OpLaunch {
			e.RetryAfter = max(e.RetryAfter, c.pace.penalty)
		}
	}
	return e
}

// ask reads something.
func (c *Client) ask(ctx context.Context, op string, pace *wire.Pace, q wire.Question, into any) error {
	if err := pace.Wait(ctx, op); err != nil {
		return err
	}
	a, err := c.api.Ask(ctx, q)
	if err != nil {
		return wire.Broken(ctx, op, err)
	}
	r, err := readReply(a)
	if !a.OK() || err == nil && r.Success != nil && !*r.Success {
		return c.refused(op, pace, a, r)
	}
	if err == nil {
		err = json.Unmarshal(a.Body, into)
	}
	if err != nil {
		return wire.Garbled(op, a, err)
	}
	return nil
}
