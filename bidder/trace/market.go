package trace

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// Market is what a seller sells from. All answers are pure, see the package comment.
type Market interface {
	// Pools returns every pool, always in the same order.
	Pools() []PoolInfo

	// Price returns the price in force in a pool, and while it is. A pool the
	// market does not have costs 0, which is no price.
	Price(p events.Pool, market time.Time) Quote

	// InStock says whether a machine can be bought.
	InStock(p events.Pool, market time.Time) bool

	// Reclaims returns what the seller will do to a machine, in order: any number
	// of warnings that are withdrawn, then at most one kill. key names the machine;
	// the lease id is used. Nothing happens to a machine on demand.
	Reclaims(p events.Pool, key string, launched time.Time) []Reclaim

	// NextChange returns the first instant after market at which the pool's price or
	// stock may be another, or the zero time if it stays as it is.
	NextChange(p events.Pool, market time.Time) time.Time
}

// PoolInfo is what never changes about a pool.
type PoolInfo struct {
	Offer    events.Offer  `json:"offer"`          // without price, times and stock
	OnDemand events.Pool   `json:"on_demand"`      // the same machine on demand; the pool itself if it is
	Boot     time.Duration `json:"boot,omitempty"` // market time from the launch until the machine runs
}

// Quote is a price and while it holds, market time.
type Quote struct {
	Price events.PerInstanceHour
	From  time.Time
	Until time.Time // zero: for good
}

// Kind says how a reclaim comes.
type Kind string

// The three kinds.
const (
	Noticed   Kind = "noticed"
	Unnoticed Kind = "unnoticed"
	Withdrawn Kind = "withdrawn" // a warning that is taken back: the machine lives on
)

// Reclaim is one thing that a seller does to a machine.
type Reclaim struct {
	Kind Kind `json:"kind"`
	// At is the kill. Of a withdrawn warning it is the deadline that was named.
	At time.Time `json:"market_at"`
	// Notice is control time from the warning to At; 0 without a warning.
	Notice time.Duration `json:"notice,omitempty"`
	// Withdraw is control time from the warning to its withdrawal.
	Withdraw time.Duration `json:"withdraw,omitempty"`
	// SaveOffset, if positive, aims the kill into a save: it comes this long
	// (control time) after the first checkpoint that begins after At. Where nobody
	// can see saves, At is the kill.
	SaveOffset time.Duration `json:"save_offset,omitempty"`
	// SaveWait is control time after At; without a save until then the kill comes all the same.
	SaveWait time.Duration `json:"save_wait,omitempty"`
	// Drawn says what the moment was drawn by, for the record.
	Drawn string `json:"drawn_by"`
}

// What a moment can be drawn by.
const (
	ByAge   = "age"   // the machine's
	BySave  = "save"  // an offset into one
	ByStorm = "storm" // the whole market's
	ByTick  = "tick"  // the recorded pool ran empty
)

// Offers returns everything the market quotes at a moment. ttl is control time, rounded up to whole seconds.
func Offers(m Market, at events.Moment, ttl time.Duration) []events.Offer {
	var out []events.Offer
	for _, p := range m.Pools() {
		o := p.Offer
		q := m.Price(o.Pool, at.Market)
		in := m.InStock(o.Pool, at.Market)
		o.Price, o.Market, o.InStock = q.Price, q.From, &in
		o.Seen, o.TTLS = at.Control, int64((ttl+time.Second-1)/time.Second)
		out = append(out, o)
	}
	return out
}

// Prices returns the prices in force from start until end, oldest first; the first
// holds at start. A price that was quoted again does not start anew.
func Prices(m Market, p events.Pool, start, end time.Time) []events.PriceFrom {
	q := m.Price(p, start)
	out := []events.PriceFrom{{From: start, Price: q.Price}}
	for !q.Until.IsZero() && q.Until.Before(end) {
		q = m.Price(p, q.Until)
		if q.Price != out[len(out)-1].Price {
			out = append(out, events.PriceFrom{From: q.From, Price: q.Price})
		}
	}
	return out
}

// Find returns the pool's description.
func Find(m Market, p events.Pool) (PoolInfo, bool) {
	for _, i := range m.Pools() {
		if i.Offer.Pool == p {
			return i, true
		}
	}
	return PoolInfo{}, false
}

// earliest returns the first of the times that are not zero.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
