package plane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/bidder/market"
	"github.com/spotferry/spotferry/services/internal/console"
)

// buying is the part of the plane about price and money.
type buying struct {
	prices  *prices
	watcher *market.Watcher
	bidder  *bidder.Service
}

func (p *Plane) newBuying() error {
	c := p.cfg
	b := &p.buying
	b.prices = newPrices(c.Log, p.moment)
	var feeds []market.Feed
	for i, name := range slices.Sorted(maps.Keys(c.Sellers)) {
		feeds = append(feeds, market.Feed{Seller: name, Source: c.Sellers[name], Every: c.Poll, Offset: time.Duration(i) * c.Poll / 10})
	}
	var err error
	b.watcher, err = market.NewWatcher(c.Log, market.WatcherConfig{Feeds: feeds, Now: p.moment, Log: c.Logger.Named("watcher")})
	if err != nil {
		return err
	}
	b.bidder, err = bidder.New(bidder.Config{
		Log: c.Log, Book: p.money, Market: b.prices, Sellers: c.Sellers, Bootstrap: p.gateway.Bootstrap, Now: p.moment,
		Timers: c.Timers, Mark: c.Mark, Logger: c.Logger.Named("bidder"), Scale: c.Clock.MarketFor(time.Second).Nanoseconds() / int64(time.Second),
		Poll: c.Poll, Crash: c.Crash, Turn: c.Turn,
	})
	return err
}

func (p *Plane) runBuying(ctx context.Context, g *errgroup.Group) {
	b := p.buying
	g.Go(func() error { return b.prices.watchOffers(ctx) })
	g.Go(func() error { return b.prices.watchLeases(ctx) })
	g.Go(func() error { return b.watcher.Run(ctx) })
	g.Go(func() error { return b.bidder.Run(ctx) })
}

// offers is what the console shows of the market.
func (p *Plane) offers() []console.Offer {
	now := p.moment()
	var out []console.Offer
	for _, o := range p.buying.prices.Offers() {
		hazard, _ := p.buying.prices.Rate(o.Pool, 0)
		if !o.Pool.Capacity.Reclaimable() {
			hazard = 0
		}
		out = append(out, console.Offer{Offer: o, AgeMS: now.Control.Sub(o.Seen).Milliseconds(), Hazard: hazard})
	}
	return out
}

func (p *Plane) feedHealth() console.Check {
	c := console.Check{Name: "prices", Remedy: "see the watcher's lines in the log"}
	newest := p.buying.prices.newest()
	n := len(p.buying.prices.Offers())
	if newest.IsZero() || n == 0 {
		c.Detail = "no offer has come yet"
		return c
	}
	age := p.cfg.Now().Sub(newest)
	c.OK, c.Detail = age < 10*p.cfg.Poll, fmt.Sprintf("%d pools, newest offer %s old", n, age.Round(time.Millisecond))
	return c
}
