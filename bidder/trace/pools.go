package trace

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// modelPool is one pool of the synthetic market.
type modelPool struct {
	region, zone, typ string
	capacity          events.CapacityType
	base              events.PerInstanceHour // the price wanders around it
	law               Law
	lawOf             string // the trace pool whose hazards law has, in the public spot traces
	notice            int64  // control seconds
	terms             events.Terms
	country           string
}

// The seller's ways to bill. No two agree, on purpose: what computes a bill from
// an offer's terms must not get by with one rule.
var (
	bySecondFree   = events.Terms{GrainS: 1, MinimumS: 60, FreeIfReclaimedS: 3600, FollowsMarket: true}
	bySecondFixed  = events.Terms{GrainS: 1, MinimumS: 60}
	byMinuteMarket = events.Terms{GrainS: 60, MinimumS: 60, FollowsMarket: true}
	byMinuteFixed  = events.Terms{GrainS: 60, MinimumS: 60}
	onDemandTerms  = events.Terms{GrainS: 1, MinimumS: 60}
)

// modelPools is the synthetic market: three sorts of GPU in three regions. Hazards
// of V100s are those of AWS zones in February 2023 and October 2022, those of H100s
// of Google zones in October 2025. Price levels are of that order, and no forecast.
// The pool without warnings is never the cheapest of its sort.
func modelPools() []modelPool {
	const usd = events.DollarPerHour / 100
	return []modelPool{
		{"us-east", "us-east-a", "v100x1", events.Spot, 108 * usd, Law{1.268, 0.3201}, "us-east-1c_v100_1", 120, bySecondFree, "US"},
		{"us-west", "us-west-b", "v100x1", events.Spot, 97 * usd, Law{0.676, 0.0593}, "us-west-2b_v100_1", 120, bySecondFree, "US"},
		{"eu-west", "eu-west-a", "v100x1", events.Spot, 119 * usd, Law{1.139, 0.209}, "us-east-1f_v100_1", 30, bySecondFixed, "IE"},
		{"us-east", "us-east-a", "a100x1", events.Spot, 158 * usd, Law{1.268, 0.3201}, "us-east-1c_v100_1", 120, bySecondFree, "US"},
		{"eu-west", "eu-west-a", "a100x1", events.Spot, 171 * usd, Law{0.673, 0.2651}, "us-west-2b_v100_1", 30, byMinuteFixed, "IE"},
		{"us-east", "us-east-b", "h100x1", events.Spot, 236 * usd, Law{0.938, 0.1434}, "us-central1-b", 30, byMinuteMarket, "US"},
		{"us-west", "us-west-a", "h100x1", events.Spot, 249 * usd, Law{0.806, 0.1499}, "us-central1-c", 0, byMinuteMarket, "US"},
		{"us-west", "us-west-b", "v100x1", events.OnDemand, 306 * usd, Law{}, "", 0, onDemandTerms, "US"},
		{"eu-west", "eu-west-a", "a100x1", events.OnDemand, 410 * usd, Law{}, "", 0, onDemandTerms, "IE"},
		{"us-east", "us-east-b", "h100x1", events.OnDemand, 688 * usd, Law{}, "", 0, onDemandTerms, "US"},
	}
}

func (p modelPool) info(seller string, notice int64) PoolInfo {
	o := events.Offer{
		Pool:    events.Pool{Seller: seller, Region: p.region, Zone: p.zone, InstanceType: p.typ, Capacity: p.capacity, Gang: 1},
		Country: p.country, Terms: p.terms, NoticeS: notice, SpeedPct: 100, DiskGB: 200, Egress: 20_000,
	}
	switch p.typ {
	case "v100x1":
		o.GPU, o.VCPU, o.RAMMiB = events.GPU{Vendor: "nvidia", Model: "V100", Form: "SXM", Count: 1, MemoryMiB: 16384}, 8, 61<<10
	case "a100x1":
		o.GPU, o.VCPU, o.RAMMiB = events.GPU{Vendor: "nvidia", Model: "A100-80GB", Form: "SXM", Count: 1, MemoryMiB: 81920}, 12, 170<<10
	case "h100x1":
		o.GPU, o.VCPU, o.RAMMiB = events.GPU{Vendor: "nvidia", Model: "H100", Form: "SXM", Count: 1, MemoryMiB: 81920}, 26, 234<<10
	}
	return PoolInfo{Offer: o}
}

// pair tells every pool where its machine is sold on demand.
func pair(infos []PoolInfo) {
	for i, p := range infos {
		infos[i].OnDemand = p.Offer.Pool
		for _, od := range infos {
			if od.Offer.Pool.Capacity == events.OnDemand && od.Offer.Pool.InstanceType == p.Offer.Pool.InstanceType && p.Offer.Pool.Capacity != events.OnDemand {
				infos[i].OnDemand = od.Offer.Pool
			}
		}
	}
}

// path is a price that wanders around a base: piecewise constant, in steps of
// some tenths of a percent as spot prices move, within about a fifth of the
// base, and the same from whichever end it is looked at. It is integer
// arithmetic throughout, so every machine computes the same price.
type path struct {
	base  events.PerInstanceHour
	seed  uint64
	slot  time.Duration // mean time between steps
	waves []wave        // that add up; none: the price stands
}

// wave moves a price by up to swing/10000 of the base over span steps.
type wave struct{ span, swing int64 }

// long, middle and short waves of a market that is left to itself.
func ordinaryWaves() []wave { return []wave{{160, 1500}, {20, 400}, {5, 60}} }

// level is the deviation in the k-th slot, in ten-thousandths of the base.
func (p path) level(k int64) int64 {
	var sum int64
	for i, o := range p.waves {
		family := mix(p.seed + uint64(i))
		n, r := floorDiv(k, o.span)
		a, b := swing(at(family, n), o.swing), swing(at(family, n+1), o.swing)
		sum += a + (b-a)*r/o.span
	}
	return sum
}

func swing(x uint64, most int64) int64 { return int64(x>>1)%(2*most+1) - most }

const quantum = int64(events.DollarPerHour) / 10_000 // prices are quoted to a hundredth of a cent

func (p path) price(k int64) events.PerInstanceHour {
	v := int64(p.base) / 10_000 * (10_000 + p.level(k))
	return events.PerInstanceHour((v + quantum/2) / quantum * quantum)
}

// step returns when the k-th slot begins: anywhere in the first half of its share of time.
func (p path) step(k int64) time.Time {
	jitter := int64(at(p.seed, k)>>1) % int64(p.slot/2)
	return time.Unix(0, k*int64(p.slot)+jitter).UTC()
}

func (p path) index(t time.Time) int64 {
	k, _ := floorDiv(t.UnixNano(), int64(p.slot))
	if t.Before(p.step(k)) {
		k--
	}
	return k
}

func (p path) quote(t time.Time) Quote {
	if len(p.waves) == 0 {
		return Quote{Price: p.base, From: time.Unix(0, 0).UTC()}
	}
	k := p.index(t)
	return Quote{Price: p.price(k), From: p.step(k), Until: p.step(k + 1)}
}
