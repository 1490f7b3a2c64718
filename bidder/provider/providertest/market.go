package providertest

import (
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Put sells an offer, in any number, or replaces what was sold in its pool.
// An empty seller becomes this one.
func (f *Fake) Put(o events.Offer) {
	f.do(func() {
		if o.Pool.Seller == "" {
			o.Pool.Seller = f.cfg.Seller
		}
		if o.Market.IsZero() {
			o.Market = f.now.Market
		}
		f.pools[o.Pool] = &pool{offer: o, stock: -1}
	})
}

// Remove stops selling in a pool. Machines already sold stay.
func (f *Fake) Remove(p events.Pool) { f.do(func() { delete(f.pools, p) }) }

// SetPrice moves a pool's price from now on. Machines whose terms follow the
// market move with it; those of an auction that bid less are taken back.
func (f *Fake) SetPrice(at events.Pool, price events.PerInstanceHour) {
	f.do(func() {
		p := f.pools[at]
		if p == nil || p.offer.Price == price {
			return
		}
		p.offer.Price, p.offer.Market = price, f.now.Market
		for _, m := range f.sortedMachines() {
			if m.Pool == at && m.State != provider.Gone {
				f.reprice(m, price)
			}
		}
	})
}

func (f *Fake) reprice(m *machine, price events.PerInstanceHour) {
	if m.Pool.Capacity == events.Bid && price > m.bid {
		f.end(m, "seller")
		return
	}
	if !m.Terms.FollowsMarket {
		return
	}
	if last := &m.Prices[len(m.Prices)-1]; last.From.Equal(f.now.Market) {
		last.Price = price
		return
	}
	m.Prices = append(m.Prices, events.PriceFrom{From: f.now.Market, Price: price})
}

// SetStock says how many machines a pool has left; -1 is any number.
func (f *Fake) SetStock(at events.Pool, n int) {
	f.do(func() {
		if p := f.pools[at]; p != nil {
			p.stock = n
		}
	})
}

// Quote makes the price feed lie about a pool; nil makes it honest again. What
// is bought and billed stays true.
func (f *Fake) Quote(at events.Pool, lie func(events.Offer) events.Offer) {
	f.do(func() {
		if p := f.pools[at]; p != nil {
			p.quote = lie
		}
	})
}

// Leave makes machines that we did not end leave a disk, which is billed until they
// are terminated all the same.
func (f *Fake) Leave(disks bool) { f.do(func() { f.leaves = disks }) }

// Remaining counts the disks that machines have left.
func (f *Fake) Remaining() int {
	return read(f, func() (n int) {
		for _, m := range f.machines {
			if m.Remains {
				n++
			}
		}
		return n
	})
}

// Lock makes every call fail with Auth until it is lifted: keys revoked, no funds.
func (f *Fake) Lock(locked bool) { f.do(func() { f.locked = locked }) }

// Foreign puts someone else's machine into the account. If it is shown, lists
// contain it with its own token and labels: another environment's mark.
// Terminating it is counted, and wrong.
func (f *Fake) Foreign(p events.Pool, token string, labels map[string]string, shown bool) events.InstanceID {
	var id events.InstanceID
	f.do(func() {
		id = f.instanceID("foreign " + token)
		f.machines[id] = &machine{
			alien: true, unshown: !shown, from: f.now,
			Instance: provider.Instance{
				ID: id, Token: token, Pool: p, State: provider.Running, Started: f.now.Market, Labels: cloneLabels(labels),
				Prices: []events.PriceFrom{{From: f.now.Market, Price: events.DollarPerHour}}, Terms: events.Terms{GrainS: 1},
			},
		}
	})
	return id
}

// ForeignKills counts terminations of machines that are not ours. It must stay 0.
func (f *Fake) ForeignKills() int { return read(f, func() int { return f.foreign }) }

// Calls counts the calls of op, or of every operation if op is empty.
func (f *Fake) Calls(op string) int {
	return read(f, func() int {
		if op != "" {
			return f.calls[op]
		}
		n := 0
		for _, c := range f.calls {
			n += c
		}
		return n
	})
}

// Faults counts how often a mode was met, so that a test can prove it was not vacuous.
func (f *Fake) Faults(m Mode) int { return read(f, func() int { return f.faults[m] }) }

// Interval is the life of one machine, as the seller knows it.
type Interval struct {
	Instance events.InstanceID
	Token    string
	Pool     events.Pool
	State    provider.State
	From     events.Moment
	To       events.Moment // zero while it lives
	EndedBy  string
	Foreign  bool
}

// LivesAt says whether the machine existed, and cost money, at a control time.
func (i Interval) LivesAt(t time.Time) bool {
	return !t.Before(i.From.Control) && (i.To.Control.IsZero() || t.Before(i.To.Control))
}

// Intervals returns every machine there ever was, oldest first.
func (f *Fake) Intervals() []Interval {
	return read(f, func() []Interval {
		var out []Interval
		for _, m := range f.sortedMachines() {
			out = append(out, Interval{
				Instance: m.ID, Token: m.Token, Pool: m.Pool, State: m.State,
				From: m.from, To: m.to, EndedBy: m.EndedBy, Foreign: m.alien,
			})
		}
		return out
	})
}

// Live returns our machines that cost money now.
func (f *Fake) Live() []Interval {
	var out []Interval
	for _, i := range f.Intervals() {
		if i.State != provider.Gone && !i.Foreign {
			out = append(out, i)
		}
	}
	return out
}

// Instance returns the truth about one machine, whatever lists say.
func (f *Fake) Instance(id events.InstanceID) (provider.Instance, bool) {
	type answer struct {
		i  provider.Instance
		ok bool
	}
	a := read(f, func() answer {
		if m := f.machines[id]; m != nil {
			return answer{m.copy(), true}
		}
		return answer{}
	})
	return a.i, a.ok
}

func read[T any](f *Fake, look func() T) T {
	var out T
	f.do(func() { out = look() })
	return out
}
