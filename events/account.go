package events

import "time"

// The money of one organisation is one aggregate: every budget, reservation and
// charge in one gap-free, hash-chained sequence, so that a budget is checked
// and a reservation recorded in one compare-and-set.

// BudgetSet limits what a job may ever cost.
type BudgetSet struct {
	Job    JobID    `json:"job"`
	Limit  MicroUSD `json:"limit"`
	By     string   `json:"by"`
	Reason string   `json:"reason"`
}

// MoneyReserved sets money aside for a lease before anything is bought.
type MoneyReserved struct {
	Job      JobID           `json:"job"`
	Lease    LeaseID         `json:"lease"`
	Amount   MicroUSD        `json:"amount"`
	Price    PerInstanceHour `json:"price"` // the most it was computed with
	PaidTill time.Time       `json:"market_paid_until"`
	Terms    Terms           `json:"terms"`
}

// MoneyExtended adds to a lease's reservation so that it may run longer.
type MoneyExtended struct {
	Job      JobID     `json:"job"`
	Lease    LeaseID   `json:"lease"`
	Amount   MicroUSD  `json:"amount"` // added
	PaidTill time.Time `json:"market_paid_until"`
}

// MoneySettled closes a lease: its reservation is replaced by what it cost.
type MoneySettled struct {
	Job      JobID     `json:"job"`
	Lease    LeaseID   `json:"lease"`
	Pool     Pool      `json:"pool"`
	Segments []Segment `json:"segments"`
	Amount   MicroUSD  `json:"amount"`               // sum of the segments
	Overrun  MicroUSD  `json:"overrun,omitempty"`    // above the reservation; pages someone
	Cause    EventID   `json:"lease_event"`          // the lease.ended event
	OnDemand MicroUSD  `json:"on_demand_equivalent"` // the same time at the cheapest on-demand price known; 0 unknown
}

// Segment is time at one price. Its id is <lease>-<n>.
type Segment struct {
	N        int             `json:"n"`
	Category string          `json:"category"` // "compute", "credit"
	From     time.Time       `json:"market_from"`
	To       time.Time       `json:"market_to"`
	Use      MicroHours      `json:"use"` // quantity as published; the amount comes from the exact time
	List     PerInstanceHour `json:"list_price"`
	Contract PerInstanceHour `json:"contracted_price"`
	Billed   PerInstanceHour `json:"billed_price"`
	Amount   MicroUSD        `json:"amount"` // negative for a credit
}

// MoneyReleased gives a reservation back: nothing was bought.
type MoneyReleased struct {
	Job    JobID   `json:"job"`
	Lease  LeaseID `json:"lease"`
	Reason string  `json:"reason"`
}
