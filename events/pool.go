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
	Model     string `json:"model"`          // "V100", "H100", "A100-80GB"
	Form      string `json:"form,omitempty"` // "SXM", "PCIE", "NVL"
	Count     int    `json:"count"`
	MemoryMiB int    `json:"memory_mib"` // of one, or of one slice
	// FractionPct is what part of a whole GPU each of Count is, in hundredths; 0 and
	// 100 are a whole one. Slice is the MIG profile, such as "1g.10gb", if that is what it is.
	FractionPct int    `json:"fraction_pct,omitempty"`
	Slice       string `json:"slice,omitempty"`
	// Interconnect is "nvlink", "none", or "" when the seller does not say.
	Interconnect string `json:"interconnect,omitempty"`
	// Capability is CUDA's compute capability, times ten: 80 is 8.0. 0 is unknown.
	Capability int `json:"capability,omitempty"`
}

// Known says whether the accelerator was found in the table of GPUs. One that was
// not keeps its seller's name as Model and is shown, and nothing is bought with it.
func (g GPU) Known() bool { return g.Vendor != "" }

// Whole says whether it is GPUs and not parts of them.
func (g GPU) Whole() bool { return g.Slice == "" && (g.FractionPct == 0 || g.FractionPct == 100) }

// Trust says whose machine it is that an offer sells.
type Trust string

// Whose machine. An offer that does not say is of a data centre.
const (
	TrustOwn        Trust = "own"         // of the organisation itself
	TrustDataCentre Trust = "data-centre" // of a business that answers for it
	TrustCommunity  Trust = "community"   // of anybody who rents out a machine
)

// Isolation says what stands between a job and the machine's other tenants.
type Isolation string

// From the strongest to the weakest. An offer that does not say is unknown.
const (
	BareMetal   Isolation = "bare-metal"
	Passthrough Isolation = "passthrough" // a virtual machine with whole GPUs
	MIG         Isolation = "mig"
	VGPU        Isolation = "vgpu"      // time-sliced: up to 40 % slower
	Container   Isolation = "container" // of a shared kernel
)

// AfterReclaim says what becomes of a machine that its seller takes back.
type AfterReclaim string

// What becomes of it. An offer that does not say: gone.
const (
	AfterGone    AfterReclaim = "gone"
	AfterStopped AfterReclaim = "stopped" // its disk stays, and is billed
	AfterPaused  AfterReclaim = "paused"  // its disk stays, and it may run again by itself
)

// NoticeKind says by which channel a reclaim is announced on the machine.
type NoticeKind string

// The channels. An offer that does not say: EC2's metadata.
const (
	NoticeEC2     NoticeKind = "ec2"     // instance metadata, version 2
	NoticeGCP     NoticeKind = "gcp"     // metadata server, and ACPI
	NoticeAzure   NoticeKind = "azure"   // scheduled events
	NoticeAlibaba NoticeKind = "alibaba" // instance metadata of ECS
	NoticeSignal  NoticeKind = "signal"  // SIGTERM and nothing else
	NoticeNone    NoticeKind = "none"    // the machine is just gone
)

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

	// What follows is said by some sellers; zero is "does not say".

	Machine   string    `json:"machine,omitempty"` // offers of one machine's slices exclude each other
	Trust     Trust     `json:"trust,omitempty"`
	Isolation Isolation `json:"isolation,omitempty"`
	Driver    string    `json:"driver,omitempty"` // version of the GPU's driver, "550.54.15"
	CUDA      string    `json:"cuda,omitempty"`   // the newest that the driver runs, "12.4"
	// Storage is a GB-month of disk while the machine runs, StorageStopped while it
	// is stopped or paused; a month is 730 hours. Ingress is to enter the region.
	Storage        MicroUSD `json:"storage_per_gb_month,omitempty"`
	StorageStopped MicroUSD `json:"storage_stopped_per_gb_month,omitempty"`
	Ingress        MicroUSD `json:"ingress_per_gb,omitempty"`
	UpMbps         int      `json:"up_mbps,omitempty"`
	DownMbps       int      `json:"down_mbps,omitempty"`

	NoticeKind   NoticeKind   `json:"notice_kind,omitempty"`
	AfterReclaim AfterReclaim `json:"after_reclaim,omitempty"`
	// MaxLifetimeS is after how many seconds the seller ends the machine whatever
	// happens; Until is when nothing of it can be had any more: a contract's end.
	MaxLifetimeS int64     `json:"max_lifetime_s,omitempty"`
	Until        time.Time `json:"until,omitzero"`
	// Score is the seller's own guess of how likely a launch succeeds, Reliability
	// how reliable it says the machine is, both in hundredths.
	Score       int `json:"score_pct,omitempty"`
	Reliability int `json:"reliability_pct,omitempty"`
	// Currency and Quoted are what the seller's list says, where that is not
	// dollars an instance-hour: "EUR", "2.10".
	Currency string `json:"currency,omitempty"`
	Quoted   string `json:"quoted,omitempty"`
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
