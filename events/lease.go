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

// LeaseDeclined says that nothing was bought for a request, and why. It is final
// for this lease id. It follows an intent only if that is void: nobody ever calls for one
// that stands after a freeze or a hold of its pool.
type LeaseDeclined struct {
	Job      JobID     `json:"job"`
	Epoch    int       `json:"epoch"`
	N        int       `json:"n"`
	Reason   string    `json:"reason"` // a waiting reason, or "out-of-budget"; "superseded" answers no request and only closes the id
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
//
// It can follow any state but ended, also refused: a machine that the seller
// denied and that turned up later is given back and paid for.
type LeaseTerminating struct {
	Reason   string     `json:"reason"`
	Instance InstanceID `json:"instance,omitempty"` // when no lease.launched names it
	Pool     Pool       `json:"pool,omitzero"`      // where Instance is
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
	// Reason is a wait's: "waiting-for-capacity", "waiting-for-price", "waiting-frozen", "paused-by-budget"; a stop's: "out-of-budget".
	Reason string `json:"reason,omitempty"`
	// RetryAt is when a wait is looked at again at the latest, control time.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Omitted counts the offers left out of a long list of candidates, by their WhyNot. None of them can change the choice.
	Omitted map[string]int `json:"omitted,omitempty"`
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

	Voluntary  bool       `json:"voluntary,omitempty"`   // the job runs and nobody forces a move
	Avoid      []Pool     `json:"avoid,omitempty"`       // pools that just failed this job
	Reclaims   int        `json:"reclaims,omitempty"`    // of this job within the last market hour
	WindowS    int64      `json:"window_s"`              // market seconds from submission to the deadline; -1 none
	WaitingS   int64      `json:"waiting_s,omitempty"`   // market seconds without a machine so far
	AcquireS   int64      `json:"acquire_s"`             // market seconds to acquire on-demand, p99
	SaveMS     int64      `json:"save_ms"`               // market milliseconds a checkpoint keeps the trainer waiting
	StateBytes int64      `json:"state_bytes,omitempty"` // what a move has to carry
	CommitMS   int64      `json:"commit_ms"`             // control milliseconds since the newest commit; -1 none
	FreshMS    int64      `json:"fresh_ms"`              // a commit counts as fresh for this long
	DwellS     int64      `json:"dwell_s"`               // market seconds between voluntary moves
	HorizonS   int64      `json:"horizon_s"`             // market seconds that a purchase is paid ahead
	TeardownS  int64      `json:"teardown_s"`            // market seconds from asking for the end to the last billed moment
	RetryMS    int64      `json:"retry_ms"`              // control milliseconds until a wait is looked at again
	Scale      int64      `json:"scale"`                 // market seconds in a control second
	Holds      []OpsHeld  `json:"holds,omitempty"`       // sellers and pools that nothing is bought from
	Frozen     *OpsFrozen `json:"frozen,omitempty"`      // nothing is bought at all

	GPU      string `json:"current_gpu,omitempty"`   // model of the current machine
	SpeedPct int    `json:"current_speed,omitempty"` // of the current machine, 100 is the model's norm
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
	Life   float64         `json:"life_hours"`        // expected until a reclaim, market hours; 0 unknown
	StoodS int64           `json:"stood_s,omitempty"` // market seconds that it could be bought without a break
	Max    PerInstanceHour `json:"max_price"`         // refuse to buy or stay above
	Hours  float64         `json:"hours_expected"`    // market hours to finish from here
	Total  MicroUSD        `json:"total_expected"`    // what the job will have cost in all
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
	Reason string `json:"reason"`         // "stale", "gone"
	Last   *Offer `json:"last,omitempty"` // as it was last believed: what the next quote is compared with
}

// OfferQuarantined says that a seller quoted something that no decision may see.
type OfferQuarantined struct {
	Seller string `json:"seller"`
	Pool   Pool   `json:"pool"`
	Field  string `json:"field"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}
