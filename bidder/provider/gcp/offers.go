package gcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// quote is an offer and how it is bought.
type quote struct {
	offer events.Offer
	shape shape
}

// catalog is what was read of types and prices, which change once a day at most
// and take ten seconds to read.
type catalog struct {
	turn chan struct{} // holds one while nobody reads
	mu   sync.Mutex
	read time.Time // control
	all  []quote
	by   map[events.Pool]quote
}

func newCatalog() *catalog {
	c := &catalog{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

func (c *catalog) fresh(now time.Time, age time.Duration) ([]quote, map[events.Pool]quote, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, c.by, c.by != nil && now.Sub(c.read) < age && !now.Before(c.read)
}

func (c *catalog) keep(all []quote, at time.Time) {
	by := make(map[events.Pool]quote, len(all))
	for _, q := range all {
		by[q.offer.Pool] = q
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.all, c.by = at, all, by
}

// Offers implements provider.Provider. Types without a price, or with a part of
// it missing, are left out.
func (c *Client) Offers(ctx context.Context) ([]events.Offer, error) {
	if ctx.Err() != nil {
		return nil, provider.HeldBack(ctx, provider.OpOffers)
	}
	all, _, err := c.quotes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]events.Offer, len(all))
	for n, q := range all {
		out[n] = q.offer
	}
	return out, nil
}

// quote is what a pool costs by the catalog. Google takes no limit with a purchase,
// so the limit is kept here; a launch whose price cannot be read was not sent.
func (c *Client) quote(ctx context.Context, spec provider.LaunchSpec) (quote, *provider.Error) {
	_, by, err := c.quotes(ctx)
	if err != nil {
		return quote{}, unsent(err)
	}
	p := spec.Pool
	p.Gang = max(p.Gang, 1)
	q, ok := by[p]
	switch {
	case !ok:
		return q, &provider.Error{Kind: provider.OfferGone, Op: provider.OpLaunch, Scope: "pool", Code: "catalog", Message: "nothing is sold there"}
	case q.offer.Price > spec.MaxPrice:
		return q, &provider.Error{
			Kind: provider.PriceTooLow, Op: provider.OpLaunch, Scope: "pool", Code: "catalog",
			Message: fmt.Sprintf("the list price is %s", q.offer.Price),
		}
	}
	return q, nil
}

// quotes reads the catalog, unless it was read lately. One reads and the others wait.
func (c *Client) quotes(ctx context.Context) ([]quote, map[events.Pool]quote, *provider.Error) {
	if all, by, ok := c.catalog.fresh(c.cfg.Now().Control, c.cfg.Reread); ok {
		return all, by, nil
	}
	select {
	case <-ctx.Done():
		return nil, nil, provider.HeldBack(ctx, provider.OpOffers)
	case <-c.catalog.turn:
	}
	defer func() { c.catalog.turn <- struct{}{} }()
	now := c.cfg.Now()
	if all, by, ok := c.catalog.fresh(now.Control, c.cfg.Reread); ok {
		return all, by, nil
	}
	sold, err := c.shapes(ctx)
	if err != nil {
		return nil, nil, err
	}
	rates, err := c.rates(ctx)
	if err != nil {
		return nil, nil, err
	}
	all := c.priced(sold, rates, now)
	if c.cfg.Advice {
		c.advise(ctx, all)
	}
	c.catalog.keep(all, now.Control)
	c.catalog.mu.Lock()
	defer c.catalog.mu.Unlock()
	return c.catalog.all, c.catalog.by, nil
}

// priced puts types and prices together.
func (c *Client) priced(sold map[string][]shape, rates prices, now events.Moment) []quote {
	var out []quote
	missing := 0
	for zone, shapes := range sold {
		for _, s := range shapes {
			for _, capacity := range []events.CapacityType{events.Spot, events.OnDemand} {
				if capacity == events.OnDemand && !s.onDemand() {
					continue
				}
				r, ok := rates.of(s, regionOf(zone), capacity == events.Spot)
				if !ok {
					missing++
					continue
				}
				out = append(out, quote{c.offer(zone, s, capacity, r, now), s})
			}
		}
	}
	slices.SortFunc(out, func(a, b quote) int {
		x, y := a.offer.Pool, b.offer.Pool
		return cmp.Or(cmp.Compare(x.Zone, y.Zone), cmp.Compare(x.InstanceType, y.InstanceType), cmp.Compare(x.Capacity, y.Capacity))
	})
	out = slices.CompactFunc(out, func(a, b quote) bool { return a.offer.Pool == b.offer.Pool })
	c.cfg.Log.Debug("catalog read", zap.Int("offers", len(out)), zap.Int("without_price", missing), zap.Int("rates", len(rates)))
	return out
}

// What Google asks for traffic and disks, for comparison: both have tiers.
const (
	egress  = 120_000 // micro-dollars a GB
	storage = 100_000 // micro-dollars a GB-month
	notice  = 30      // seconds
)

func (c *Client) offer(zone string, s shape, capacity events.CapacityType, r rate, now events.Moment) events.Offer {
	o := events.Offer{
		Pool: events.Pool{Seller: c.cfg.Seller, Region: regionOf(zone), Zone: zone, InstanceType: s.instanceType(), Capacity: capacity, Gang: 1},
		GPU:  s.identify(), VCPU: s.vcpu, RAMMiB: s.ramMiB, DiskGB: c.cfg.DiskGB, Country: country(regionOf(zone)),
		Price: events.PerInstanceHour(r.nanos), Terms: events.Terms{GrainS: 1, MinimumS: 60}, SpeedPct: 100,
		Egress: egress, Storage: storage, StorageStopped: storage, Market: r.since, Seen: now.Control,
		TTLS:  int64(2 * max(c.cfg.Reread, time.Minute) / time.Second),
		Trust: events.TrustDataCentre, Isolation: events.Passthrough, NoticeKind: events.NoticeGCP, AfterReclaim: events.AfterGone,
		MaxLifetimeS: int64(c.cfg.MaxRun / time.Second),
	}
	if capacity == events.Spot {
		o.Terms.FreeIfReclaimedS, o.NoticeS = 60, notice
	}
	if o.Market.IsZero() {
		o.Market = now.Market
	}
	return o
}
