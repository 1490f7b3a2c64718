package events

import "time"

// Purpose is why a lease is bought.
type Purpose string

// The purposes of a lease.
const (
	ForStart   Purpose = "start"
	ForReplace Purpose = "replace"        // the current machine is going or gone
	ForReturn  Purpose = "return-to-spot" // voluntary
	ForCheaper Purpose = "cheaper-pool"   // voluntary
)

// Voluntary says whether nobody forces the move.
func (p Purpose) Voluntary() bool { return p == ForReturn || p == ForCheaper }

// LeaseIntended is written before every paid call. The seller's idempotency token is the lease id.
type LeaseIntended struct {
	Job      JobID           `json:"job"`
	Epoch    int             `json:"epoch"`
	N        int             `json:"n"`
	Purpose  Purpose         `json:"purpose"`
	Offer    Offer           `json:"offer"`     // as quoted
	MaxPrice PerInstanceHour `json:"max_price"` // refuse to buy above
	Reserved MicroUSD        `json:"reserved"`  // already in the money record
	PaidTill time.Time       `json:"market_paid_until"`
	Decision Decision        `json:"decision"`
}

// LeaseDeclined says that nothing was bought for a request, and why. It is final for this lease id.
type LeaseDeclined struct {
	Job      JobID     `json:"job"`
	Epoch    int       `json:"epoch"`
	N        int       `json:"n"`
	Reason   string    `json:"reason"` // a waiting reason, or "out-of-budget", "superseded"
	Detail   string    `json:"detail"`
	RetryAt  time.Time `json:"retry_at"` // control time
	Decision Decision  `json:"decision"`
}

// LeaseRefused says that the seller certainly sold nothing. It is final.
type LeaseRefused struct {
	Kind   string `json:"kind"` // one of the eleven error kinds
	Code   string `json:"code"` // the seller's own
	Detail string `json:"detail"`
}

// LeaseUnknown says that nobody knows yet whether the seller sold a machine.
type LeaseUnknown struct {
	Detail string `json:"detail"`
}

// LeaseLaunched says that a machine is ours and costs money.
type LeaseLaunched struct {
	Instance InstanceID      `json:"instance"`
	Price    PerInstanceHour `json:"price"`        // as bought
	Started  time.Time       `json:"market_start"` // billing began
	BootBy   time.Time       `json:"boot_by"`      // control time
	TookMS   int64           `json:"took_ms"`
	Found    bool            `json:"found,omitempty"` // reconciled from the seller's list, not from an answer
}

// LeaseTerminating says that we want the machine gone. It is left only by LeaseEnded.
type LeaseTerminating struct {
	Reason string `json:"reason"`
}

// LeaseEnded says that the seller confirmed the end.
type LeaseEnded struct {
	Instance InstanceID  `json:"instance"`
	Started  time.Time   `json:"market_start"`
	Ended    time.Time   `json:"market_end"`
	EndedBy  string      `json:"ended_by"` // "seller" (reclaimed), "us", "machine" (it ended itself), "fault"
	Prices   []PriceFrom `json:"prices"`   // in force during the lease, oldest first
	Terms    Terms       `json:"terms"`
	Pool     Pool        `json:"pool"`
}

// PriceFrom is a price and since when it held, market time.
type PriceFrom struct {
	From  time.Time       `json:"market_from"`
	Price PerInstanceHour `json:"price"`
}

// Decision records what a buying choice was made from, so that it can be replayed to the same answer.
type Decision struct {
	Rule       string      `json:"rule"`   // "uniform-progress", "deadline-net", "budget-guard", ...
	Action     string      `json:"action"` // "buy", "wait", "keep", "move", "stop"
	Control    time.Time   `json:"control_time"`
	Market     time.Time   `json:"market_time"`
	Inputs     Inputs      `json:"inputs"`
	Candidates []Candidate `json:"candidates"`
	Chosen     int         `json:"chosen"` // index into Candidates, -1 for none
	Detail     string      `json:"detail"`
}

// Inputs are the figures besides the offers that a decision saw.
type Inputs struct {
	Spec      EventID     `json:"spec"` // the job.submitted event
	Step      int64       `json:"step"`
	WorkLeftS int64       `json:"work_left_s"` // market seconds on the reference GPU; -1 unknown
	TimeLeftS int64       `json:"time_left_s"` // market seconds to the deadline; -1 none
	RestartS  int64       `json:"restart_s"`   // market seconds lost by a move, p99
	Budget    MicroUSD    `json:"budget"`
	Spent     MicroUSD    `json:"spent"`
	Reserved  MicroUSD    `json:"reserved"`
	MoneyAt   uint64      `json:"money_sequence"`
	Current   *Side       `json:"current,omitempty"`
	CoolDowns []PoolUntil `json:"cool_downs,omitempty"`
	LastMove  time.Time   `json:"market_last_move,omitzero"`
}

// PoolUntil is a pool not to be bought before a time (control).
type PoolUntil struct {
	Pool  Pool      `json:"pool"`
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}

// Candidate is one offer a decision looked at.
type Candidate struct {
	Offer  Offer           `json:"offer"`
	AgeMS  int64           `json:"age_ms"`
	Hazard float64         `json:"reclaims_per_hour"` // at the age that matters; market hours
	Hours  float64         `json:"hours_expected"`    // market hours to finish from here
	Total  MicroUSD        `json:"total_expected"`
	Score  PerInstanceHour `json:"score"`             // expected cost of one hour of useful work on the reference GPU
	WhyNot string          `json:"why_not,omitempty"` // empty: eligible
}

// OfferChanged is a pool's newest price and terms.
type OfferChanged struct {
	Offer Offer `json:"offer"`
}

// OfferExpired says that a pool's last offer may no longer be bought.
type OfferExpired struct {
	Pool   Pool   `json:"pool"`
	Reason string `json:"reason"` // "stale", "gone"
}

// OfferQuarantined says that a seller quoted something that no decision may see.
type OfferQuarantined struct {
	Seller string `json:"seller"`
	Pool   Pool   `json:"pool"`
	Field  string `json:"field"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}
