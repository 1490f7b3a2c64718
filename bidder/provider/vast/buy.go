package vast

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"strconv"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// What a machine finds in its environment: the user data in base64, and the record
// of its purchase.
const (
	envBootstrap = "SPOTFERRY_BOOTSTRAP"
	envRecord    = "SPOTFERRY_RECORD"
)

// quote is the cheapest ask of a pool.
type quote struct {
	events.Offer
	ask string
}

// or is the cheaper of two quotes, of which q may be none.
func (q quote) or(other quote) quote {
	if q.ask == "" || other.Price < q.Price || other.Price == q.Price && other.ask < q.ask {
		return other
	}
	return q
}

// since is q with the time from which its price holds, if it is that of before.
func (q quote) since(before quote) quote {
	if before.ask != "" && before.Price == q.Price {
		q.Market = before.Market
	}
	return q
}

// shop is the client as the desk uses it.
type shop struct{ *Client }

// tries is how many asks of a pool are tried when each has just been taken.
const tries = 3

// Buy implements keyless.Shop.
func (s shop) Buy(ctx context.Context, spec provider.LaunchSpec, r keyless.Record) (events.InstanceID, keyless.Record, error) {
	s.mu.Lock()
	q, known := s.quotes[spec.Pool]
	s.mu.Unlock()
	stale, gone := !known || !q.Fresh(s.cfg.Now().Control) || q.Price > spec.MaxPrice, ""
	for n := 1; ; n++ {
		if stale {
			var err error
			if q, err = s.requote(ctx, spec.Pool, gone); err != nil {
				return "", r, err
			}
		}
		if q.Price > spec.MaxPrice {
			return "", r, refusal(spec.Pool, provider.PriceTooLow, "market", "the price is "+q.Price.String())
		}
		if err := s.pace.create.Wait(ctx, provider.OpLaunch); err != nil {
			return "", r, err
		}
		r = r.At(s.cfg.Now())
		r.Price, r.Terms = s.bid(q, spec.MaxPrice), q.Terms
		id, err := s.create(ctx, spec, r, q.ask)
		if err == nil {
			return id, r, nil
		}
		s.outdated(spec.Pool)
		if provider.KindOf(err) != provider.OfferGone || id != "" || n == tries {
			return id, r, err
		}
		stale, gone = true, q.ask
	}
}

// outdated forgets a quote with which nothing could be bought.
func (c *Client) outdated(p events.Pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.quotes, p)
}

// bid is what is offered for a quote: with a bid, a little more than the least that would run.
func (c *Client) bid(q quote, most events.PerInstanceHour) events.PerInstanceHour {
	if q.Pool.Capacity != events.Bid {
		return q.Price
	}
	over := new(big.Int).Mul(big.NewInt(int64(q.Price)), big.NewInt(int64(c.cfg.BidOverPct)))
	over.Div(over, big.NewInt(100))
	return min(q.Price+events.PerInstanceHour(over.Int64()), most)
}

func refusal(p events.Pool, k provider.Kind, code, why string) *provider.Error {
	return &provider.Error{Kind: k, Op: provider.OpLaunch, Scope: "pool", Pool: &p, Code: code, Message: why}
}

// requote searches the pool's machine for an ask that is not the one that is gone.
func (c *Client) requote(ctx context.Context, p events.Pool, gone string) (quote, error) {
	machine, err := strconv.ParseInt(strings.TrimPrefix(p.Zone, "m"), 10, 64)
	if err != nil || p.Seller != c.cfg.Seller || p.Capacity != events.OnDemand && p.Capacity != events.Bid {
		return quote{}, refusal(p, provider.OfferGone, "no such pool", "nothing is sold in "+p.String()+": ask for offers again")
	}
	found := map[events.Pool]quote{}
	if err := c.search(ctx, provider.OpOffers, p.Capacity, map[string]any{"machine_id": machine}, found); err != nil {
		return quote{}, keyless.NotBought(err)
	}
	q, ok := found[p]
	if !ok || q.ask == gone {
		return quote{}, refusal(p, provider.OfferGone, "no such ask", "nothing is sold in "+p.String()+" any more")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q = q.since(c.quotes[p])
	c.quotes[p] = q
	return q, nil
}

// purchase is the body of one.
type purchase struct {
	Client        string            `json:"client_id"`
	Image         string            `json:"image"`
	Disk          int               `json:"disk"`
	Label         string            `json:"label"`
	Runtype       string            `json:"runtype"`
	Onstart       string            `json:"onstart,omitempty"`
	Env           map[string]string `json:"env"`
	Price         json.Number       `json:"price,omitempty"` // a bid's; without it the machine is on demand, at full price
	CancelUnavail bool              `json:"cancel_unavail"`  // false would leave a stopped machine of a lost race
}

func (c *Client) label(token string) string { return c.labelStart() + token }

func (c *Client) labelStart() string { return "sf1:" + c.cfg.Mark + ":" }

// create buys one ask. The id may come with an error.
func (c *Client) create(ctx context.Context, spec provider.LaunchSpec, r keyless.Record, ask string) (events.InstanceID, error) {
	record, err := r.Pack()
	if err != nil {
		return "", refusal(spec.Pool, provider.Invalid, "record", err.Error())
	}
	p := purchase{
		Client: "me", Image: c.cfg.Image, Disk: c.cfg.DiskGB, Label: c.label(r.Token), Runtype: c.cfg.Runtype, Onstart: c.cfg.Onstart,
		Env:           map[string]string{envBootstrap: base64.StdEncoding.EncodeToString(spec.UserData), envRecord: record},
		CancelUnavail: true,
	}
	if spec.Pool.Capacity == events.Bid {
		p.Price = json.Number(r.Price.String())
	}
	said, err := c.order(ctx, provider.OpLaunch, c.pace.create, wire.Question{Method: http.MethodPut, Path: "/api/v0/asks/" + ask + "/", Body: p})
	id := events.InstanceID(said.Contract.ID())
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Scope == "pool" {
		e.Pool = &spec.Pool
	}
	if err == nil && id == "" {
		err = wire.Garbled(provider.OpLaunch, wire.Answer{Status: http.StatusOK}, errors.New("bought, and no instance is named"))
	}
	return id, err
}

// Destroy implements keyless.Shop.
func (s shop) Destroy(ctx context.Context, id events.InstanceID) error {
	if err := s.pace.destroy.Wait(ctx, provider.OpTerminate); err != nil {
		return err
	}
	_, err := s.order(ctx, provider.OpTerminate, s.pace.destroy, wire.Question{Method: http.MethodDelete, Path: "/api/v0/instances/" + string(id) + "/"})
	return err
}
