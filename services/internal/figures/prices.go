package figures

import (
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// place is what a price is told of: a market's pools of one kind in a region.
type place struct{ seller, region, gpu, capacity string }

// Prices are the figures of what is on offer.
func Prices(c Config) []follow {
	p := &prices{offers: map[events.Pool]events.Offer{}, seen: map[string]time.Time{}}
	m := maker{c.Registerer}
	m.scraped("price_dollars", "What an hour of the cheapest machine on offer costs, by GPU and capacity type.",
		[]string{"seller", "region", "gpu", "type"}, func(set func(float64, ...string)) { p.each(c.Now(), set) })
	m.scraped("feed_age_seconds", "Age of the newest offer event of a seller.", []string{"seller"}, func(set func(float64, ...string)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for seller, at := range p.seen {
			set(c.Now().Sub(at).Seconds(), seller)
		}
	})
	return []follow{{filters: []string{events.FilterOffers}, last: true, take: p.take}}
}

type prices struct {
	mu     sync.Mutex
	offers map[events.Pool]events.Offer
	seen   map[string]time.Time
}

func (p *prices) take(e events.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f := e.Fact.(type) {
	case events.OfferChanged:
		p.offers[f.Offer.Pool] = f.Offer
		p.heard(f.Offer.Pool.Seller, e.Time)
	case events.OfferExpired:
		delete(p.offers, f.Pool)
		p.heard(f.Pool.Seller, e.Time)
	}
}

func (p *prices) heard(seller string, at time.Time) {
	if at.After(p.seen[seller]) {
		p.seen[seller] = at
	}
}

func (p *prices) each(now time.Time, set func(float64, ...string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := map[place]events.PerInstanceHour{}
	for pool, o := range p.offers {
		at := place{pool.Seller, pool.Region, o.GPU.Model, string(pool.Capacity)}
		if have, ok := best[at]; o.Fresh(now) && (!ok || o.Price < have) {
			best[at] = o.Price
		}
	}
	for at, price := range best {
		set(float64(price)/1e9, at.seller, at.region, at.gpu, at.capacity)
	}
}
