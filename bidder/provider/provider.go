// Package provider is the contract with a seller of GPU capacity: what any of
// them can be asked, and what a failure means to whoever asked.
//
// Laws. The same token always names the same instance, however often Launch is
// repeated. A failed or partial list proves nothing. A terminated instance is
// ours, and costs money, until the seller says it is gone. Every error is an
// *Error with one of the eleven kinds; nothing above this package reads a
// seller's own codes.
//
// Retry, breaker, rate limit and metrics are wrappers around the one interface,
// one file each, stacked in Stack; adapters contain none of them.
package provider

import (
	"context"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Provider is one seller as one of our accounts sees it.
type Provider interface {
	// Offers returns everything that can be bought now. An offer not returned is gone.
	Offers(ctx context.Context) ([]events.Offer, error)

	// Launch buys one instance. token is the idempotency key and the mark by which
	// List tells our instances apart: the lease id. Repeating it returns the same instance,
	// in whatever state it is by then. It may take minutes; the caller's context bounds it,
	// and a context that ends after the request was sent is UnknownOutcome.
	Launch(ctx context.Context, spec LaunchSpec, token string) (Instance, error)

	// Terminate gives the instance back. An instance already gone is not an
	// error. Returning nil does not mean that it is gone: List says so.
	Terminate(ctx context.Context, id events.InstanceID) error

	// List returns every instance that carries our mark, and those that ended
	// within the seller's memory (at least an hour). New instances may be missing for a while.
	List(ctx context.Context) (Listing, error)
}

// Rebidder can change the bid of a running instance.
type Rebidder interface {
	Rebid(ctx context.Context, id events.InstanceID, price events.PerInstanceHour) error
}

// Meter tells what an instance has cost by the seller's own count. It is ground
// truth for reconciliation and never an input of the ledger.
type Meter interface {
	Metered(ctx context.Context, id events.InstanceID) (Reading, error)
}

// Notifier delivers warnings outside the machine, for sellers that have them.
type Notifier interface {
	Notices(ctx context.Context, deliver func(Notice)) error
}

// Capabilities are the optional interfaces that a provider has, as told to remote callers.
type Capabilities struct {
	Rebid   bool `json:"rebid"`
	Meter   bool `json:"meter"`
	Notices bool `json:"notices"`
}

// CapabilitiesOf asks p.
func CapabilitiesOf(p Provider) Capabilities {
	if d, ok := p.(interface{ Capabilities() Capabilities }); ok {
		return d.Capabilities()
	}
	_, rebid := p.(Rebidder)
	_, meter := p.(Meter)
	_, notices := p.(Notifier)
	return Capabilities{rebid, meter, notices}
}

// LaunchSpec says what to buy and what the machine is born with.
type LaunchSpec struct {
	Pool     events.Pool            `json:"pool"`
	MaxPrice events.PerInstanceHour `json:"max_price"` // a price above it is PriceTooLow
	UserData []byte                 `json:"user_data"` // events.Bootstrap as JSON; repeated byte for byte with the token
	Labels   map[string]string      `json:"labels"`    // org, job, lease, and the environment's mark
}

// State is where an instance is in its life.
type State string

// The four states. Stopping still costs money.
const (
	Pending  State = "pending"
	Running  State = "running"
	Stopping State = "stopping"
	Gone     State = "gone"
)

// Instance is a machine as its seller sees it. Times are market time.
type Instance struct {
	ID      events.InstanceID `json:"id"`
	Token   string            `json:"token"`
	Pool    events.Pool       `json:"pool"`
	State   State             `json:"state"`
	Started time.Time         `json:"market_start"`
	Ended   time.Time         `json:"market_end,omitzero"` // zero until Gone
	EndedBy string            `json:"ended_by,omitempty"`  // "seller", "us", "machine", "fault"
	// Remains says that something of a machine that is Gone still costs money, such
	// as a disk that its seller keeps: Terminate removes it.
	Remains bool               `json:"remains,omitempty"`
	Prices  []events.PriceFrom `json:"prices"` // in force so far, oldest first; the first is what was bought
	Terms   events.Terms       `json:"terms"`
	Labels  map[string]string  `json:"labels,omitempty"`
}

// Price is what the instance was bought at, 0 if the seller has not said.
func (i Instance) Price() events.PerInstanceHour {
	if len(i.Prices) == 0 {
		return 0
	}
	return i.Prices[0].Price
}

// Listing is one look at everything of ours.
type Listing struct {
	Instances []Instance `json:"instances"`
	Complete  bool       `json:"complete"` // false: a page failed; absence proves nothing
	At        time.Time  `json:"at"`       // control time of the look
}

// Find returns the instance with this token.
func (l Listing) Find(token string) (Instance, bool) {
	for _, i := range l.Instances {
		if i.Token == token {
			return i, true
		}
	}
	return Instance{}, false
}

// Reading is a seller's meter for one instance.
type Reading struct {
	Amount events.MicroUSD `json:"amount"`
	Final  bool            `json:"final"` // the instance is gone and the amount will not change
}

// Notice is a warning that an instance will be taken.
type Notice struct {
	Instance  events.InstanceID `json:"instance"`
	Deadline  time.Time         `json:"deadline"` // control time
	Withdrawn bool              `json:"withdrawn,omitempty"`
}
