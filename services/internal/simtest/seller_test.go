package simtest

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

const sellerName = "sim"

// newSeller is a fake that sells the model's pools and misbehaves as the seed tells.
func (w *world) newSeller() {
	w.market = trace.NewModel(uint64(w.chance), sellerName)
	offers := trace.Offers(w.market, w.now(), 10*time.Minute)
	for i := range offers {
		offers[i].InStock = nil // what the seller answers, it answers when asked
	}
	w.fake = providertest.New(providertest.Config{
		Seller: sellerName, Now: w.now, Offers: offers, Buy: 2 * time.Second, Boot: 10 * time.Second, Stop: 4 * time.Second,
		Visible: 20 * time.Second, EndVisible: 6 * time.Second, Memory: 48 * time.Hour,
		Chaos: w.misbehave, OnLaunch: w.born, OnEnd: w.gone,
		OnNotice: func(n provider.Notice) {
			m := w.machine(n.Instance)
			switch {
			case m == nil:
			case n.Withdrawn:
				m.warn(time.Time{})
			default:
				m.warn(n.Deadline)
			}
		},
	})
	for i, p := range w.market.Pools()[:2] {
		w.foreign = append(w.foreign, w.fake.Foreign(p.Offer.Pool, fmt.Sprint("someone-", i), map[string]string{"env": "another"}, true))
	}
}

// misbehave draws what happens to one call. The seller calls it under its lock.
func (w *world) misbehave(c providertest.Call) providertest.Fault {
	t := w.opt.trouble
	w.asked[c.Op+c.About]++ // not c.N: that depends on who else is calling
	about := []any{c.Op, c.About, w.asked[c.Op+c.About]}
	if w.shut.Load() {
		return providertest.Fault{Mode: providertest.Fail, Kind: provider.Transient}
	}
	switch {
	case !w.chaotic():
	case c.Op == provider.OpLaunch && w.chance.hits(t.twice, append(about, "twice")...):
		w.hits.add("seller: launch twice")
		return providertest.Fault{Mode: providertest.Duplicate}
	case c.Op == provider.OpLaunch && w.chance.hits(t.lost, append(about, "lost")...):
		w.hits.add("seller: launch unanswered")
		return []providertest.Fault{{Mode: providertest.Lost}, {Mode: providertest.Hang}, {Mode: providertest.FailAfter, Kind: provider.Transient},
			{Mode: providertest.Garbage}}[w.chance.below(4, append(about, "how lost")...)]
	}
	// Launches and ends are few: they go wrong more often.
	often := map[string]float64{provider.OpLaunch: 4, provider.OpTerminate: 2}
	if !w.chaotic() || !w.chance.hits(t.seller*max(often[c.Op], 1), append(about, "seller")...) {
		return providertest.Fault{}
	}
	kinds := []provider.Kind{provider.NoCapacity, provider.PriceTooLow, provider.OfferGone, provider.Throttled, provider.Transient, provider.Quota, provider.UnknownOutcome}
	kind := kinds[w.chance.below(len(kinds), append(about, "kind")...)]
	choices := map[string][]providertest.Fault{
		provider.OpLaunch: {
			{Mode: providertest.Fail, Kind: kind}, {Mode: providertest.Fail, Kind: kind}, {Mode: providertest.FailAfter, Kind: provider.NoCapacity},
			{Mode: providertest.Lost}, {Mode: providertest.Lost}, {Mode: providertest.Slow, For: 25 * time.Second}, {Mode: providertest.Hang},
			{Mode: providertest.Duplicate}, {Mode: providertest.Throttle, For: 3 * time.Second}, {Mode: providertest.Garbage},
		},
		provider.OpTerminate: {
			{Mode: providertest.Fail, Kind: provider.Transient}, {Mode: providertest.Lost}, {Mode: providertest.Slow, For: 3 * time.Second},
			{Mode: providertest.Throttle, For: 2 * time.Second}, {Mode: providertest.Garbage},
		},
		provider.OpList: {
			{Mode: providertest.Partial}, {Mode: providertest.Partial}, {Mode: providertest.Fail, Kind: provider.Transient}, {Mode: providertest.Garbage},
			{Mode: providertest.Duplicate}, {Mode: providertest.Slow, For: 8 * time.Second}, {Mode: providertest.Lost},
		},
		provider.OpOffers: {{Mode: providertest.Fail, Kind: provider.Transient}, {Mode: providertest.Garbage}, {Mode: providertest.Lost}},
	}[c.Op]
	if len(choices) == 0 {
		return providertest.Fault{}
	}
	f := choices[w.chance.below(len(choices), append(about, "mode")...)]
	w.hits.add(fmt.Sprintf("seller: %s %s", c.Op, modes[f.Mode]))
	return f
}

var modes = map[providertest.Mode]string{
	providertest.Fail: "refused", providertest.FailAfter: "refused after the effect", providertest.Lost: "unanswered", providertest.Slow: "slow",
	providertest.Hang: "never answered", providertest.Duplicate: "twice", providertest.Throttle: "throttled", providertest.Garbage: "garbage",
	providertest.Partial: "partial",
}

// prices follows the model, once a minute.
func (w *world) prices() {
	for sleep(w.ctx, time.Minute) {
		turn("prices")
		now := w.now()
		for _, p := range w.market.Pools() {
			w.fake.SetPrice(p.Offer.Pool, w.market.Price(p.Offer.Pool, now.Market).Price)
		}
	}
}

// shortages empties pools for a while.
func (w *world) shortages() {
	for n := 0; sleep(w.ctx, w.chance.wait(30*time.Minute, "shortage", n)); n++ {
		turn("shortages")
		if !w.chaotic() {
			return
		}
		pools := w.market.Pools()
		p := pools[w.chance.below(len(pools), "short of", n)].Offer.Pool
		w.hits.add("pool runs empty")
		w.fake.SetStock(p, 0)
		w.alive.Go(func() {
			sleep(w.ctx, w.chance.between(5*time.Minute, 25*time.Minute, "short for", n))
			turn(fmt.Sprint("shortage-", n))
			w.fake.SetStock(p, -1)
		})
	}
}

// closures are times in which the seller answers nothing.
func (w *world) closures() {
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.closed, "closed", n)); n++ {
		turn("closures")
		if !w.chaotic() {
			return
		}
		w.hits.add("seller answers nothing for minutes")
		w.trace("the seller closes")
		from := time.Now()
		w.shut.Store(true)
		sleep(w.ctx, w.chance.between(2*time.Minute, 20*time.Minute, "closed for", n))
		turn("closures")
		w.shut.Store(false)
		w.trace("the seller opens")
		w.outage(from)
	}
}

// lies make the feed absurd about one pool for a while.
func (w *world) lies() {
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.lies, "lie", n)); n++ {
		turn("lies")
		if !w.chaotic() {
			return
		}
		pools := w.market.Pools()
		p := pools[w.chance.below(len(pools), "lie about", n)].Offer.Pool
		kind := w.chance.below(4, "lie how", n)
		w.hits.add("feed: absurd price")
		w.fake.Quote(p, func(o events.Offer) events.Offer {
			o.Price = []events.PerInstanceHour{0, -o.Price, o.Price / 200, o.Price * 200}[kind]
			return o
		})
		from := time.Now()
		sleep(w.ctx, w.chance.between(3*time.Minute, 15*time.Minute, "lies for", n))
		turn("lies")
		w.fake.Quote(p, nil)
		w.mu.Lock()
		w.lied = append(w.lied, window{from, time.Now()})
		w.mu.Unlock()
	}
}

// storms take every spot machine at once.
func (w *world) storms() {
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.storm, "storm", n)); n++ {
		turn("storms")
		if !w.chaotic() {
			return
		}
		w.trace("storm")
		if len(w.fake.Live()) > 0 {
			w.hits.add("storm")
		}
		for _, p := range w.market.Pools() {
			if p.Offer.Pool.Capacity.Reclaimable() {
				w.fake.ReclaimPool(p.Offer.Pool)
			}
		}
	}
}
