package events

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// CapacityType says on which terms a machine is ours.
type CapacityType string

// The four ways to have a machine.
const (
	Spot     CapacityType = "spot"      // the seller takes it back when it likes; its price is not ours
	Bid      CapacityType = "bid"       // an auction: our price decides whether we run
	OnDemand CapacityType = "on-demand" // ours until we give it back
	Owned    CapacityType = "owned"     // a machine someone already has
)

// Reclaimable says whether the seller can take the machine away.
func (c CapacityType) Reclaimable() bool { return c == Spot || c == Bid }

// Pool is the unit of price, capacity and reclaim risk.
type Pool struct {
	Seller       string       `json:"seller"`
	Region       string       `json:"region"`
	Zone         string       `json:"zone"`
	InstanceType string       `json:"instance_type"`
	Capacity     CapacityType `json:"capacity_type"`
	Gang         int          `json:"gang_size"` // machines bought together; 1 for all jobs today
}

// String is how people and logs see a pool: seller/zone/type/capacity, and xN for a gang.
func (p Pool) String() string {
	s := strings.Join([]string{p.Seller, p.Zone, p.InstanceType, string(p.Capacity)}, "/")
	if p.Gang > 1 {
		s += "x" + strconv.Itoa(p.Gang)
	}
	return s
}

// Subject is the pool's last token on an offer subject.
func (p Pool) Subject() string {
	return Token(fmt.Sprintf("%s-%s-%s-%d", p.Zone, p.InstanceType, p.Capacity, max(p.Gang, 1)))
}

// GPU is what the model needs to know of an accelerator. Names are never
// compared across sellers: A100 alone is two products.
type GPU struct {
	Vendor    string `json:"vendor"`
	Model     string `json:"model"` // "V100", "H100", "A100-80GB"
	Form      string `json:"form,omitempty"`
	Count     int    `json:"count"`
	MemoryMiB int    `json:"memory_mib"`
}

// Terms are the seller's billing rules for an offer, as data.
type Terms struct {
	GrainS           int64 `json:"grain_s"`                  // use is rounded up to this many seconds; at least 1
	MinimumS         int64 `json:"minimum_s"`                // the least that is billed for a launch
	FreeIfReclaimedS int64 `json:"free_if_reclaimed_s"`      // nothing is billed when the seller reclaims within this time
	AlignedGrain     bool  `json:"aligned_grain,omitempty"`  // grains start at whole multiples since the Unix epoch, not at the launch
	FollowsMarket    bool  `json:"follows_market,omitempty"` // the price of a running instance moves with the pool's
}

// Offer is one thing that can be bought now, in one place, on one set of terms.
type Offer struct {
	Pool     Pool            `json:"pool"`
	GPU      GPU             `json:"gpu"`
	VCPU     int             `json:"vcpu"`
	RAMMiB   int             `json:"ram_mib"`
	DiskGB   int             `json:"disk_gb"`
	Country  string          `json:"country"` // ISO 3166-1 alpha-2; "" is unknown, which residency rules do not allow
	Price    PerInstanceHour `json:"price"`
	PerGPU   bool            `json:"per_gpu,omitempty"` // the seller quoted per GPU; Price has been converted
	Terms    Terms           `json:"terms"`
	NoticeS  int64           `json:"notice_s"`           // warning before a reclaim, control time; 0 is none
	SpeedPct int             `json:"speed_pct"`          // speed relative to the type's norm; 100 when unknown
	Egress   MicroUSD        `json:"egress_per_gb"`      // to leave the region
	Market   time.Time       `json:"market_effective"`   // when this price began, market time
	Seen     time.Time       `json:"observed"`           // when we saw it, control time
	TTLS     int64           `json:"ttl_s"`              // control seconds after Seen during which it may be bought
	InStock  *bool           `json:"in_stock,omitempty"` // nil: the seller does not say
}

// Fresh says whether the offer may still be bought at now (control time).
func (o Offer) Fresh(now time.Time) bool {
	return !now.After(o.Seen.Add(time.Duration(o.TTLS) * time.Second))
}

// Available says whether the seller claims to have one now; not saying counts as having.
func (o Offer) Available() bool { return o.InStock == nil || *o.InStock }

// Moment is now on two clocks that must not be mixed.
type Moment struct {
	Control time.Time // timers, notices, boots, polls, event times: real time
	Market  time.Time // prices, deadlines, bills, dwell, paid-until: scaled in demo, simulation and backtest
}
