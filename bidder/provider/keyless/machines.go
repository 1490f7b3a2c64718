package keyless

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// machine is what the desk knows of one.
type machine struct {
	Record
	id      events.InstanceID
	state   provider.State
	by      string // who ended it, or is ending it
	prices  []events.PriceFrom
	born    time.Time     // control: first known here
	listed  bool          // a list has had it
	asked   events.Moment // when the seller took our order to end it
	paused  events.Moment // since when it is Stopping and we did not ask
	missing int           // complete lists in a row without it
	lost    events.Moment // of the first of them
	ended   events.Moment
}

func (d *Desk) remember(id events.InstanceID, r Record, now events.Moment) provider.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.meet(id, r, now)
	m.state = provider.Pending
	return m.instance()
}

// meet returns what is known of a machine, which may be nothing so far. d.mu is held.
func (d *Desk) meet(id events.InstanceID, r Record, now events.Moment) *machine {
	k := key{id, r.Token}
	m := d.known[k]
	if m == nil {
		m = &machine{Record: r, id: id, born: now.Control, prices: []events.PriceFrom{{From: r.Started, Price: r.Price}}}
		d.known[k] = m
	}
	return m
}

// find returns the first machine of a token, the one that a launch gives.
func (d *Desk) find(token string) (provider.Instance, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.sorted() {
		if m.Token == token {
			return m.instance(), true
		}
	}
	return provider.Instance{}, false
}

func (d *Desk) sorted() []*machine {
	all := slices.Collect(maps.Values(d.known))
	slices.SortFunc(all, func(a, b *machine) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.id, b.id), cmp.Compare(a.Token, b.Token))
	})
	return all
}

// List implements that method of provider.Provider.
func (d *Desk) List(ctx context.Context) (provider.Listing, error) {
	if ctx.Err() != nil {
		return provider.Listing{}, provider.HeldBack(ctx, provider.OpList)
	}
	at := d.cfg.Now()
	look, err := d.shop.Look(ctx)
	if err != nil {
		return provider.Listing{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[*machine]bool{}
	for _, s := range look.Sights {
		seen[d.sight(s, at)] = true
	}
	if look.Complete {
		d.looks++
		for _, m := range d.known {
			if !seen[m] {
				d.miss(m, at)
			}
		}
	}
	d.forget(at.Control)
	l := provider.Listing{Complete: look.Complete, At: at.Control}
	for _, m := range d.sorted() {
		if seen[m] || !m.ended.Control.IsZero() || look.Complete && m.listed {
			l.Instances = append(l.Instances, m.instance())
		}
	}
	return l, nil
}

// sight takes what a list says of a machine.
func (d *Desk) sight(s Sight, now events.Moment) *machine {
	m := d.meet(s.ID, s.Record, now)
	m.listed, m.missing = true, 0
	if !m.ended.Control.IsZero() {
		if s.State == provider.Gone || now.Control.Sub(m.ended.Control) < d.cfg.Settle {
			return m // the list lags
		}
		m.ended = events.Moment{} // it was not gone, and costs money
	}
	m.state, m.by = s.State, s.EndedBy
	m.reprice(s.Price, now.Market)
	if s.State == provider.Gone {
		m.end(now)
		return m
	}
	switch away := s.State == provider.Stopping; {
	case !m.asked.Control.IsZero():
		m.state = provider.Stopping
	case !away:
		m.paused = events.Moment{}
	case m.paused.Control.IsZero():
		m.paused = now
	}
	return m
}

// miss counts a complete list without the machine. One that we ended is gone; another
// is when it stays away, and one that no list has had yet is waited for.
func (d *Desk) miss(m *machine, now events.Moment) {
	if !m.ended.Control.IsZero() {
		return
	}
	if m.missing++; m.missing == 1 {
		m.lost = now
	}
	switch {
	case !m.asked.Control.IsZero():
		m.end(m.asked)
	case m.listed && m.missing >= looksOfAbsence:
		m.by = cmp.Or(m.by, "seller")
		m.end(m.lost)
	}
}

// end is the only place where a machine is gone. One that its seller had already
// stopped ended then.
func (m *machine) end(at events.Moment) {
	m.state, m.ended = provider.Gone, at
	if !m.paused.Control.IsZero() {
		m.ended = m.paused
		m.by = cmp.Or(m.by, "seller")
	} else if !m.asked.Control.IsZero() {
		m.by = "us"
	}
	m.by = cmp.Or(m.by, "us")
	if m.ended.Market.Before(m.Started) {
		m.ended.Market = m.Started
	}
}

// forget drops what ended long ago, what never appeared, and doubts that nobody asks about.
func (d *Desk) forget(now time.Time) {
	maps.DeleteFunc(d.known, func(_ key, m *machine) bool {
		if !m.ended.Control.IsZero() {
			return now.Sub(m.ended.Control) > d.cfg.Memory
		}
		return !m.listed && m.missing >= looksOfAbsence && now.Sub(m.born) > d.cfg.Settle
	})
	maps.DeleteFunc(d.doubts, func(_ string, x doubt) bool { return now.Sub(x.at) > d.cfg.Memory+d.cfg.Settle })
}

// tolerated is the part of a price, one in so many, that a seller's rounding may change.
const tolerated = 1000

func (m *machine) reprice(p events.PerInstanceHour, at time.Time) {
	last := m.prices[len(m.prices)-1]
	diff := p - last.Price
	if p <= 0 || max(diff, -diff) <= last.Price/tolerated || !at.After(last.From) {
		return
	}
	m.prices = append(m.prices, events.PriceFrom{From: at, Price: p})
}

func (m *machine) instance() provider.Instance {
	i := provider.Instance{
		ID: m.id, Token: m.Token, Pool: m.Pool, State: m.state, Started: m.Started, Terms: m.Terms,
		Labels: maps.Clone(m.Labels), Prices: slices.Clone(m.prices),
	}
	if m.state == provider.Stopping {
		i.EndedBy = m.by
	}
	if m.state == provider.Gone {
		i.Ended, i.EndedBy = m.ended.Market, m.by
	}
	if len(i.Prices) == 1 && i.Prices[0].Price == 0 {
		i.Prices = nil // not known is not free
	}
	return i
}
