package market

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// known is one pool of a feed.
type known struct {
	last      *events.Offer // newest believed
	told      time.Time     // Seen of the offer last published
	live      bool          // published and not expired
	expired   time.Time     // newest expiry that was published
	elsewhere time.Time     // Seen of the newest offer that a replica had and we had not
	looked    time.Time     // control time of the last look that had it
	lastLook  int           // and its number
	refusal   Doubt         // last quarantine published, without its value
	refusedAt time.Time
	level     events.PerInstanceHour // under suspicion
	looks     int                    // in a row at that level
	trusted   bool                   // an operator vouches for the next quote
}

func (k *known) believed() *events.Offer {
	if k == nil {
		return nil
	}
	return k.last
}

// outdates says whether what is known began later than o, at another price, or was seen later by somebody else.
func (k *known) outdates(o events.Offer) bool {
	return k.last != nil && (o.Market.Before(k.last.Market) && o.Price != k.last.Price || o.Seen.Before(k.elsewhere))
}

// appeared says whether the pool was first seen, by somebody else, after a look
// was begun whose answer does not have it.
func (k *known) appeared(asked time.Time) bool {
	return !asked.IsZero() && k.elsewhere.After(asked)
}

// accept believes o, and publishes it if something changed or if consumers would
// lose it: half of its TTL has passed since they were last told.
func (k *known) accept(o events.Offer) []events.Fact {
	k.looks, k.refusal, k.trusted = 0, Doubt{}, false
	if k.last != nil && o.Market.Before(k.last.Market) {
		o.Market = k.last.Market
	}
	tell := !k.live || !sameOffer(*k.last, o) || 2*o.Seen.Sub(k.told) >= time.Duration(o.TTLS)*time.Second
	k.last = &o
	if !tell {
		return nil
	}
	k.live, k.told = true, o.Seen
	return []events.Fact{events.OfferChanged{Offer: o}}
}
