package market

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// hear takes what some watcher of this seller has published: this one before it
// was restarted, or a replica. Replicas look at the seller each by itself; what one has told the
// others need not tell again, and what one still sees no other lets expire.
func (f *feed) hear(e events.Event, now events.Moment) {
	switch c := e.Fact.(type) {
	case events.OfferChanged:
		if f.limits.Check(c.Offer, now) == nil {
			f.pool(c.Offer.Pool).heardOffer(c.Offer)
		}
	case events.OfferExpired:
		k := f.pool(c.Pool)
		if k.last == nil && c.Last != nil && c.Last.Pool == c.Pool {
			k.last = c.Last
		}
		k.heardExpiry(e.Time)
	case events.OfferQuarantined:
		k := f.pool(c.Pool)
		if e.Time.After(k.refusedAt) {
			k.refusal, k.refusedAt = Doubt{Field: c.Field, Reason: c.Reason}, e.Time
		}
		k.touch(e.Time)
	}
}

// heardOffer takes an offer that stands published.
func (k *known) heardOffer(o events.Offer) {
	k.touch(o.Seen)
	if !o.Seen.After(k.expired) {
		return // somebody has seen since that it is gone
	}
	if k.last == nil || o.Seen.After(k.last.Seen) {
		k.last, k.refusal, k.elsewhere = &o, Doubt{}, o.Seen
	}
	if o.Seen.After(k.told) && sameOffer(*k.last, o) {
		k.told = o.Seen
	}
	k.live = true
}

// heardExpiry takes that nobody may buy what was told until then. What has been seen since is
// told again at the next look.
func (k *known) heardExpiry(at time.Time) {
	k.touch(at)
	if at.After(k.expired) {
		k.expired = at
	}
	if !k.told.After(k.expired) {
		k.live = false
	}
}

func (k *known) touch(at time.Time) {
	if at.After(k.looked) {
		k.looked = at
	}
}
