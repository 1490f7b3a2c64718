package market

import (
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// feed is what the watcher knows of one seller. It is pure: looks and times go
// in, facts come out.
//
// How a quarantined level becomes believed again. A 100-fold jump never does by
// itself, because a feed that changed its unit stays changed and no
// recorded market has moved so far between two looks; it ends when the price
// comes back or when an operator says Trust. A fall to exactly
// one GPU's share may be real (a two-GPU machine at half the price), so it is believed
// after Limits.Persist looks in a row at that level, if another multi-GPU pool of the
// seller was believed in the same looks: a mistaken unit hits them all.
type feed struct {
	seller string
	limits Limits
	ttl    time.Duration
	pools  map[events.Pool]*known
	looks  int       // complete answers so far
	asked  time.Time // control time at which the newest look began
}

const (
	refuseAgain = 10 * time.Minute   // a standing quarantine is published again
	forget      = 7 * 24 * time.Hour // a pool not offered this long is a new one when it comes back
	// MaxOffers is how many offers one look may have. More is a runaway page, not a market.
	MaxOffers = 50_000
)

func newFeed(seller string, limits Limits, ttl time.Duration) *feed {
	return &feed{seller: seller, limits: limits.withDefaults(), ttl: ttl, pools: map[events.Pool]*known{}}
}

// trust makes the next possible quote of a pool believed, whatever it cost before.
func (f *feed) trust(p events.Pool) {
	if k := f.pools[p]; k != nil {
		k.trusted = true
	}
}

// look takes one complete answer of the seller and returns what to publish,
// ordered by pool. Offers it has not are gone; offers it has but that are not believed
// are not refreshed, so that what stood before runs out by its TTL.
func (f *feed) look(now events.Moment, offers []events.Offer) []events.Fact {
	f.looks++
	quotes, facts := f.sort(now, offers)
	siblings := f.siblings(quotes)
	witnesses := 0
	doubts := make([]*Doubt, len(quotes))
	for n, o := range quotes {
		k := f.pools[o.Pool]
		if !k.trusted {
			doubts[n] = f.limits.suspect(o, k.last, siblings)
		}
		if doubts[n] == nil && k.last != nil && o.GPU.Count > 1 {
			witnesses++
		}
	}
	for n, o := range quotes {
		k := f.pools[o.Pool]
		if d := doubts[n]; d != nil && !f.relents(k, o, d, witnesses > 0) {
			facts = append(facts, f.refuse(now, o.Pool, d)...)
			continue
		}
		facts = append(facts, k.accept(o)...)
	}
	facts = append(facts, f.vanish(now)...)
	sortFacts(facts)
	return facts
}

// sort completes, checks and deduplicates an answer: one possible quote for each
// pool, newest effective first, ordered by pool, and the refusals.
func (f *feed) sort(now events.Moment, offers []events.Offer) ([]events.Offer, []events.Fact) {
	var facts []events.Fact
	best := map[events.Pool]events.Offer{}
	for _, o := range offers {
		o = f.complete(o, now)
		d := f.limits.Check(o, now)
		if d == nil && o.Pool.Seller != f.seller {
			d = doubt("pool.seller", o.Pool.Seller, "another seller's name")
		}
		if d != nil {
			f.saw(o.Pool, now)
			facts = append(facts, f.refuse(now, o.Pool, d)...)
			continue
		}
		if b, ok := best[o.Pool]; !ok || newer(o, b) {
			best[o.Pool] = o
		}
	}
	quotes := make([]events.Offer, 0, len(best))
	for p, o := range best {
		f.saw(p, now)
		if f.pools[p].outdates(o) || !o.Fresh(now.Control) {
			continue // an old row, or an old look of the seller's: nothing new is known
		}
		quotes = append(quotes, o)
	}
	slices.SortFunc(quotes, func(a, b events.Offer) int { return comparePools(a.Pool, b.Pool) })
	return quotes, facts
}

// complete fills in what sellers leave out.
func (f *feed) complete(o events.Offer, now events.Moment) events.Offer {
	if o.Seen.IsZero() {
		o.Seen = now.Control
	}
	if o.TTLS == 0 {
		o.TTLS = int64(f.ttl / time.Second)
	}
	o.TTLS = min(o.TTLS, int64(f.limits.MaxTTL/time.Second))
	if o.SpeedPct == 0 {
		o.SpeedPct = 100
	}
	if o.Market.IsZero() {
		o.Market = now.Market
		if last := f.pools[o.Pool].believed(); last != nil && last.Price == o.Price {
			o.Market = last.Market
		}
	}
	return o
}

func (f *feed) pool(p events.Pool) *known {
	if f.pools[p] == nil {
		f.pools[p] = &known{}
	}
	return f.pools[p]
}

func (f *feed) saw(p events.Pool, now events.Moment) {
	k := f.pool(p)
	k.looked, k.lastLook = now.Control, f.looks
}

// siblings are what a pool never seen is compared with: this answer and what is believed.
func (f *feed) siblings(quotes []events.Offer) siblings {
	out := siblings{}
	for n := range quotes {
		out.add(&quotes[n])
	}
	for _, k := range f.pools {
		if k.live {
			out.add(k.last)
		}
	}
	return out // used as a set: the order does not matter
}

// relents says whether a suspicious level has stood long enough to be real.
func (f *feed) relents(k *known, o events.Offer, d *Doubt, witnessed bool) bool {
	if d.Reason != reasonPerGPU || !witnessed || !near(float64(o.Price), float64(k.level), f.limits.Tolerance) {
		k.level, k.looks = o.Price, 1
		return false
	}
	k.looks++
	return k.looks > f.limits.Persist
}

func (f *feed) refuse(now events.Moment, p events.Pool, d *Doubt) []events.Fact {
	k := f.pool(p)
	class := Doubt{Field: d.Field, Reason: d.Reason}
	if k.refusal == class && now.Control.Sub(k.refusedAt) < refuseAgain {
		return nil
	}
	k.refusal, k.refusedAt = class, now.Control
	return []events.Fact{events.OfferQuarantined{Seller: f.seller, Pool: p, Field: d.Field, Value: d.Value, Reason: d.Reason}}
}

// vanish expires what the look just taken did not have, and what ran out.
func (f *feed) vanish(now events.Moment) []events.Fact {
	var facts []events.Fact
	for p, k := range f.pools {
		if k.live && k.lastLook < f.looks && !k.appeared(f.asked) {
			k.live = false
			facts = append(facts, events.OfferExpired{Pool: p, Reason: "gone", Last: k.last})
		}
	}
	return append(facts, f.expire(now)...)
}

// expire is what time alone does, whether or not the seller answers.
func (f *feed) expire(now events.Moment) []events.Fact {
	var facts []events.Fact
	for p, k := range f.pools {
		if k.live && !k.last.Fresh(now.Control) {
			k.live = false
			facts = append(facts, events.OfferExpired{Pool: p, Reason: "stale", Last: k.last})
		}
		if idle := now.Control.Sub(k.looked); idle > forget || (k.last == nil && idle > refuseAgain) {
			delete(f.pools, p)
		}
	}
	sortFacts(facts)
	return facts
}

// live counts the pools that consumers may buy in.
func (f *feed) live() int {
	n := 0
	for _, k := range f.pools {
		if k.live {
			n++
		}
	}
	return n
}
