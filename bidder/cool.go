package bidder

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/market"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// cooling knows which pools are not to be tried for a while: market.CoolDowns
// for pools that are empty or flap, and blocks for what a refusal says about more or less than
// a pool's capacity. It is a function of the leases' events, so every replica
// and every restart knows the same.
type cooling struct {
	pools  *market.CoolDowns
	unit   time.Duration         // the settle time: 2 minutes unless scaled
	blocks map[events.Pool]block // by scope: a pool with fields left empty
}

// block is a scope that is left alone until a control time.
type block struct {
	until time.Time
	why   string
}

func newCooling(unit time.Duration, scale int64) cooling {
	return cooling{
		unit: unit, blocks: map[events.Pool]block{},
		pools: market.NewCoolDowns(market.CoolDownConfig{
			First: unit, Most: 15 * unit, Quiet: 30 * unit,
			// Reclaims are the market's: an hour of it.
			Within: time.Hour / time.Duration(scale), FlapRest: 15 * time.Minute / time.Duration(scale),
			FlapMost: 8 * time.Hour / time.Duration(scale), FlapFor: 24 * time.Hour / time.Duration(scale),
		}),
	}
}

// refused notes a refusal. Waits are for what the kind says a caller can do about it.
func (c cooling) refused(p events.Pool, kind provider.Kind, at time.Time, seed events.LeaseID) {
	scope, wait := p, c.unit
	switch kind {
	case provider.NoCapacity, provider.UnknownOutcome:
		c.pools.Refused(p, at, jitter(seed))
		return
	case provider.OfferGone:
		wait = c.unit / 8
	case provider.PriceTooLow, provider.Transient:
		wait = c.unit / 4
	case provider.Quota: // of an account, a region, a family and a capacity type
		scope, wait = events.Pool{Seller: p.Seller, Region: p.Region, InstanceType: p.InstanceType, Capacity: p.Capacity}, 30*c.unit
	case provider.Auth:
		scope, wait = events.Pool{Seller: p.Seller}, 5*c.unit
	case provider.Throttled:
		scope, wait = events.Pool{Seller: p.Seller}, c.unit/4
	case provider.Invalid:
		wait = 30 * c.unit
	}
	if until := at.Add(wait); until.After(c.blocks[scope].until) {
		c.blocks[scope] = block{until, kind.String()}
	}
}

// at lists the cool-downs in force among offers, by pool.
func (c cooling) at(now time.Time, offers []events.Offer) []events.PoolUntil {
	var out []events.PoolUntil
	for _, o := range offers {
		p := o.Pool
		if u, ok := c.pools.Until(p, now); ok {
			out = append(out, u)
			continue
		}
		for _, scope := range []events.Pool{
			p, {Seller: p.Seller}, {Seller: p.Seller, Region: p.Region, InstanceType: p.InstanceType, Capacity: p.Capacity},
		} {
			if b, ok := c.blocks[scope]; ok && now.Before(b.until) {
				out = append(out, events.PoolUntil{Pool: p, Until: b.until, Why: b.why})
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b events.PoolUntil) int { return comparePools(a.Pool, b.Pool) })
	return out
}

// jitter in [0, 1) spreads what many would do at once, the same way for the same lease.
func jitter(seed events.LeaseID) float64 {
	h := fnv.New32a()
	h.Write([]byte(seed))
	return float64(h.Sum32()) / (1 << 32)
}
