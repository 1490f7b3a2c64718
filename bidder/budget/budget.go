// Package budget is the arithmetic of a hard limit: what a commitment can cost
// at worst, whether it fits, and how long a machine can be paid for.
//
// One law: spent + reserved never exceeds the limit by an act of ours. A
// commitment is checked at its worst case (the highest price it may reach, the
// seller's minimum and grain, and the time it takes to get rid of a machine),
// rounded up, before it is made. The package knows plain numbers only; where
// they come from and how they are recorded is the ledger's business.
package budget

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Account is the state of one job's money.
type Account struct {
	Limit    events.MicroUSD // hard, total
	Spent    events.MicroUSD // settled
	Reserved events.MicroUSD // worst case of what is open
}

// Free is what may still be committed. It is negative after the limit was
// lowered below what is committed, or after a seller billed beyond a reservation.
func (a Account) Free() events.MicroUSD { return a.Limit - a.Spent - a.Reserved }

// Exceeded says by how much a commitment does not fit. It carries figures for
// people and is compared with errors.As.
type Exceeded struct {
	Account Account
	Wanted  events.MicroUSD
}

// Error names the figures and the remedy.
func (e *Exceeded) Error() string {
	return fmt.Sprintf("a commitment of %s does not fit: limit %s, spent %s, reserved %s, free %s (raise the budget or wait for a reservation to close)",
		e.Wanted.Dollars(), e.Account.Limit.Dollars(), e.Account.Spent.Dollars(), e.Account.Reserved.Dollars(), e.Account.Free().Dollars())
}

// Check returns nil if amount may be committed, else *Exceeded. An amount of
// zero or less commits nothing and always fits.
func (a Account) Check(amount events.MicroUSD) error {
	if amount > 0 && amount > a.Free() {
		return &Exceeded{a, amount}
	}
	return nil
}

// Reserve returns the account with amount set aside, or *Exceeded.
func (a Account) Reserve(amount events.MicroUSD) (Account, error) {
	if err := a.Check(amount); err != nil {
		return a, err
	}
	a.Reserved += max(amount, 0)
	return a, nil
}

// Settle returns the account with a reservation replaced by its cost.
func (a Account) Settle(reserved, cost events.MicroUSD) Account {
	a.Reserved -= reserved
	a.Spent += cost
	return a
}

// Exposure is the most that a machine can cost if it is paid for from from
// until until and it takes teardown longer to be rid of it, at a price that
// never exceeds price. It starts no earlier than from; starting later costs no
// more. All times are market time.
//
// Every price segment is rounded by itself when it is billed. For prices that
// move, one micro-dollar is added per started minute, which covers the rounding
// of one change of price a minute.
func Exposure(price events.PerInstanceHour, from, until time.Time, terms events.Terms, teardown time.Duration) events.MicroUSD {
	billed := Billed(from, until.Add(max(teardown, 0)), terms)
	cost := events.CostUp(price, billed)
	if terms.FollowsMarket {
		cost = add(cost, events.MicroUSD((billed+time.Minute-1)/time.Minute))
	}
	return cost
}

func add(a, b events.MicroUSD) events.MicroUSD {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Billed is the most time that is billed for a machine that ran from from to
// until at the latest: rounded up to the grain and, because a later start can
// shift an aligned span by a grain at either end, widened to whole grains.
func Billed(from, until time.Time, terms events.Terms) time.Duration {
	grain := time.Duration(max(terms.GrainS, 1)) * time.Second
	minimum := time.Duration(max(terms.MinimumS, 0)) * time.Second
	if until.Before(from) {
		until = from
	}
	if terms.AlignedGrain {
		from, until = floor(from, grain), ceil(until, grain)
	}
	used := until.Sub(from)
	if r := used % grain; r > 0 {
		if used > math.MaxInt64-grain {
			return math.MaxInt64
		}
		used += grain - r
	}
	return max(used, minimum)
}

func floor(t time.Time, grain time.Duration) time.Time {
	s, g := t.Unix(), int64(grain/time.Second)
	return time.Unix(s-((s%g)+g)%g, 0)
}

func ceil(t time.Time, grain time.Duration) time.Time {
	f := floor(t, grain)
	if f.Equal(t) {
		return f
	}
	return f.Add(grain)
}

// Horizon is the latest time, at most want after from, until which a machine
// can be paid for with what is free, the teardown kept back; and whether there is any.
// least is the shortest paid time that is worth buying.
func Horizon(free events.MicroUSD, price events.PerInstanceHour, from time.Time, least, want time.Duration, terms events.Terms, teardown time.Duration) (time.Time, bool) {
	fits := func(d time.Duration) bool {
		return Exposure(price, from, from.Add(d), terms, teardown) <= free
	}
	least = max(least, 0)
	if want < least || !fits(least) {
		return from, false
	}
	// Exposure grows with time, so the longest second that fits is found by halving.
	extra := int((want - least) / time.Second)
	n := sort.Search(extra, func(i int) bool { return !fits(least + time.Duration(i+1)*time.Second) })
	return from.Add(least + time.Duration(n)*time.Second), true
}

// Continue is the most that a machine running since start can come to if it is paid for until
// until: what it has cost by the prices it had until seen, and the worst case
// from then on, when its price is at most price. It never reckons less than will be billed.
func Continue(prices []events.PriceFrom, start, seen, until time.Time, price events.PerInstanceHour, terms events.Terms, teardown time.Duration) events.MicroUSD {
	grain := time.Duration(max(terms.GrainS, 1)) * time.Second
	from := start
	if terms.AlignedGrain {
		from, seen = floor(start, grain), floor(seen, grain)
	}
	if seen.Before(from) {
		seen = from
	}
	var cost events.MicroUSD
	for i, p := range prices {
		to := seen
		if i+1 < len(prices) {
			if to = prices[i+1].From; terms.AlignedGrain {
				to = ceil(to, grain)
			}
		}
		if to.After(seen) {
			to = seen
		}
		if to.After(from) {
			cost = add(cost, events.CostUp(p.Price, to.Sub(from)))
			from = to
		}
	}
	if ran := seen.Sub(start); terms.MinimumS > 0 {
		terms.MinimumS = max(terms.MinimumS-int64(max(ran, 0)/time.Second), 0)
	}
	return add(cost, Exposure(price, seen, until, terms, teardown))
}
