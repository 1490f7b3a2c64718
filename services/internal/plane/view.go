package plane

import (
	"context"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/market"
	"github.com/spotferry/spotferry/events"
)

// prices is the market as the bidder sees it: the book of offers and the measured
// reclaim rates, kept current from the streams.
type prices struct {
	log  events.Log
	now  func() events.Moment
	book *market.Book

	mu      sync.Mutex
	rate    *market.ReclaimRate
	changed chan struct{}
	seen    time.Time // control time of the newest offer event
}

func newPrices(log events.Log, now func() events.Moment) *prices {
	return &prices{
		log: log, now: now, book: market.NewBook(market.Limits{}), rate: market.NewReclaimRate(market.RateConfig{}),
		changed: make(chan struct{}),
	}
}

// Offers returns the newest believable offer of every pool.
func (p *prices) Offers() []events.Offer { return p.book.Snapshot(p.now().Control) }

// Rate returns reclaims per market hour and expected market hours of a machine of this age.
func (p *prices) Rate(pool events.Pool, age time.Duration) (perHour, life float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	risk := p.rate.Risk(pool, p.now().Market)
	return risk.Hazard(age), risk.MeanResidual(age)
}

// Changed is closed at the next change of an offer.
func (p *prices) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *prices) watchOffers(ctx context.Context) error {
	return p.log.Consume(ctx, events.Subscription{Filters: []string{events.FilterOffers}, Last: true}, func(_ context.Context, e events.Event) error {
		changed := p.book.Apply(e)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen = e.Time
		if changed {
			close(p.changed)
			p.changed = make(chan struct{})
		}
		return nil
	})
}

func (p *prices) watchLeases(ctx context.Context) error {
	return p.log.Consume(ctx, events.Subscription{Filters: []string{events.FilterLeases}}, func(_ context.Context, e events.Event) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rate.Apply(e)
		return nil
	})
}

// newest is when any offer event was last seen.
func (p *prices) newest() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *prices) runs() []func(context.Context) error {
	return []func(context.Context) error{p.watchOffers, p.watchLeases}
}
