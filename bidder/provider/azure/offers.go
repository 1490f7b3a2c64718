package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// What Azure charges besides, as of 2026, and how long it warns.
const (
	egress  events.MicroUSD = 87_000  // a GB, after the first hundred
	storage events.MicroUSD = 150_000 // a GB-month of premium disk
	noticeS                 = 30
)

// terms are alike for all: every second counts, and nothing is free.
func terms(c events.CapacityType) events.Terms {
	return events.Terms{GrainS: 1, FollowsMarket: c == events.Spot}
}

// quote is an offer and what the same machine costs on demand, 0 if that is not known.
type quote struct {
	offer    events.Offer
	onDemand events.PerInstanceHour
}

// catalog is what was read of sizes and prices, which change seldom and take long to read.
type catalog struct {
	turn chan struct{} // holds one while nobody reads
	mu   sync.Mutex
	read time.Time // control
	all  []quote
}

func newCatalog() *catalog {
	c := &catalog{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

func (c *catalog) fresh(now time.Time, age time.Duration) ([]quote, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, c.all != nil && now.Sub(c.read) < age && !now.Before(c.read)
}

func (c *catalog) keep(all []quote, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.all = at, all
}

// Offers implements provider.Provider. Sizes without a price, unknown to us or not
// for this subscription are left out.
func (c *Client) Offers(ctx context.Context) ([]events.Offer, error) {
	if ctx.Err() != nil {
		return nil, provider.HeldBack(ctx, provider.OpOffers)
	}
	all, err := c.quotes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]events.Offer, len(all))
	for n, q := range all {
		out[n] = q.offer
	}
	return out, nil
}

// quote is what a pool costs by the catalog. A launch whose price cannot be read
// was not sent.
func (c *Client) quote(ctx context.Context, spec provider.LaunchSpec) (quote, *provider.Error) {
	all, err := c.quotes(ctx)
	if err != nil {
		return quote{}, unsent(err)
	}
	p := spec.Pool
	p.Gang = max(p.Gang, 1)
	no := &provider.Error{Kind: provider.OfferGone, Op: provider.OpLaunch, Scope: "pool", Code: "catalog", Message: "nothing is sold there"}
	n := slices.IndexFunc(all, func(q quote) bool { return q.offer.Pool == p })
	switch {
	case n < 0:
		return quote{}, no
	case all[n].offer.Price > spec.MaxPrice:
		no.Kind, no.Message = provider.PriceTooLow, fmt.Sprintf("the list price is %s", all[n].offer.Price)
		return quote{}, no
	}
	return all[n], nil
}

// quotes reads the catalog, unless it was read lately. One reads and the others wait.
func (c *Client) quotes(ctx context.Context) ([]quote, *provider.Error) {
	select {
	case <-ctx.Done():
		return nil, provider.HeldBack(ctx, provider.OpOffers)
	case <-c.catalog.turn:
	}
	defer func() { c.catalog.turn <- struct{}{} }()
	now := c.cfg.Now()
	if all, ok := c.catalog.fresh(now.Control, c.cfg.Reread); ok {
		return all, nil
	}
	all := []quote{}
	for _, region := range c.cfg.Regions {
		sold, err := c.sold(ctx, region)
		if err != nil {
			return nil, err
		}
		costs := tariffs{}
		unpriced, err := c.tariffs(ctx, region, costs, now.Market)
		if err != nil {
			return nil, err
		}
		own := c.priced(region, sold, costs, now)
		c.cfg.Log.Debug("offers read", zap.String("region", region), zap.Int("sizes", len(sold)), zap.Int("offers", len(own)), zap.Int("unpriced", unpriced))
		all = append(all, own...)
	}
	c.catalog.keep(all, now.Control)
	return all, nil
}

// sold reads which sizes with GPUs this subscription can buy in a region.
func (c *Client) sold(ctx context.Context, region string) ([]size, *provider.Error) {
	var out []size
	pager := c.skus.NewListPager(&armcompute.ResourceSKUsClientListOptions{Filter: pointer("location eq '" + region + "'")})
	ctx, t := wire.Embark(ctx, wire.MostOffers)
	err := pages(func(link string) (string, error) {
		if link != "" && !pager.More() {
			return "", nil
		}
		p, err := pager.NextPage(ctx)
		if err != nil {
			return "", err
		}
		if p.Value == nil {
			return "", errNoRows
		}
		for _, s := range p.Value {
			if own, ok := sellable(s, region); ok && !slices.ContainsFunc(out, func(x size) bool { return x.name == own.name }) {
				out = append(out, own)
			}
		}
		return text(p.NextLink), nil
	})
	if err != nil {
		return nil, failed(provider.OpOffers, t.Sent(), err)
	}
	return out, nil
}

var errNoRows = errors.New("the answer has no rows")

// sellable is a size that is known, stands in the region and is not restricted.
func sellable(s *armcompute.ResourceSKU, region string) (size, bool) {
	if s == nil || text(s.ResourceType) != "virtualMachines" || len(s.Restrictions) > 0 {
		return size{}, false
	}
	own, ok := sizeOf(text(s.Name))
	if !ok || !slices.ContainsFunc(s.Locations, func(l *string) bool { return strings.EqualFold(text(l), region) }) {
		return size{}, false
	}
	for _, x := range s.Capabilities {
		if x == nil {
			continue
		}
		v, err := strconv.ParseFloat(text(x.Value), 64)
		if err != nil || v < 1 || v > 1<<16 {
			continue
		}
		switch text(x.Name) {
		case "vCPUs":
			own.vcpu = int(v)
		case "MemoryGB":
			own.ramGiB = int(v)
		}
	}
	return own, true
}

// priced puts sizes and prices together.
func (c *Client) priced(region string, sold []size, costs tariffs, now events.Moment) []quote {
	var out []quote
	for _, s := range sold {
		onDemand := costs[tariffKey(region, s.name, events.OnDemand)]
		for _, capacity := range []events.CapacityType{events.Spot, events.OnDemand} {
			if t, ok := costs[tariffKey(region, s.name, capacity)]; ok {
				out = append(out, quote{c.offer(region, s, capacity, t, now), onDemand.price})
			}
		}
	}
	slices.SortFunc(out, func(a, b quote) int {
		x, y := a.offer.Pool, b.offer.Pool
		return cmp.Or(cmp.Compare(x.InstanceType, y.InstanceType), cmp.Compare(x.Capacity, y.Capacity))
	})
	return out
}

func (c *Client) offer(region string, s size, capacity events.CapacityType, t tariff, now events.Moment) events.Offer {
	o := events.Offer{
		Pool: events.Pool{Seller: c.cfg.Seller, Region: region, Zone: region, InstanceType: s.name, Capacity: capacity, Gang: 1},
		GPU:  s.identify(), VCPU: s.vcpu, RAMMiB: s.ramGiB << 10, DiskGB: c.cfg.DiskGB,
		Country: countries[region], Price: t.price, Terms: terms(capacity), SpeedPct: 100,
		Egress: egress, Storage: storage, Market: t.since, Seen: now.Control,
		TTLS:  int64(2 * max(c.cfg.Reread, time.Minute) / time.Second),
		Trust: events.TrustDataCentre, Isolation: s.isolation(), AfterReclaim: events.AfterGone,
	}
	if capacity == events.Spot {
		o.NoticeS, o.NoticeKind = noticeS, events.NoticeAzure
	}
	return o
}
