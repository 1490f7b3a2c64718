package providertest

import (
	"math/big"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// MeterLine is what the seller's invoice says of one machine.
type MeterLine struct {
	Instance events.InstanceID
	Token    string
	Start    time.Time // market
	End      time.Time // market; of the look, if it lives
	EndedBy  string
	Prices   []events.PriceFrom
	Terms    events.Terms
	Amount   events.MicroUSD
	Final    bool
}

// Invoice returns a line for each of our machines, oldest first. Machines alive count to now.
func (f *Fake) Invoice() []MeterLine {
	return read(f, func() []MeterLine {
		var out []MeterLine
		for _, m := range f.sortedMachines() {
			if m.alien {
				continue
			}
			i := m.copy()
			out = append(out, MeterLine{
				Instance: i.ID, Token: i.Token, Start: i.Started, End: f.endOf(m), EndedBy: i.EndedBy,
				Prices: i.Prices, Terms: i.Terms, Amount: f.bill(m), Final: i.State == provider.Gone,
			})
		}
		return out
	})
}

// MeterTotal is the sum of the invoice.
func (f *Fake) MeterTotal() events.MicroUSD {
	var sum events.MicroUSD
	for _, l := range f.Invoice() {
		sum += l.Amount
	}
	return sum
}

func (f *Fake) endOf(m *machine) time.Time {
	if m.State == provider.Gone {
		return m.Ended
	}
	return f.now.Market
}

func (f *Fake) bill(m *machine) events.MicroUSD {
	return Bill(m.Started, f.endOf(m), m.EndedBy, m.Prices, m.Terms)
}

// Bill is what a machine costs by its seller's rules: whole grains, at least the
// minimum, each stretch at its price, half a micro-dollar rounded to even once a
// stretch, and nothing if the seller took the machine back soon enough.
//
// With aligned grains the machine pays for every grain of the calendar that it
// touched, at the price at which that grain began. What rounding up and the minimum
// add is charged at the last price.
func Bill(start, end time.Time, endedBy string, prices []events.PriceFrom, t events.Terms) events.MicroUSD {
	if len(prices) == 0 {
		return 0
	}
	if end.Before(start) {
		end = start
	}
	if endedBy == "seller" && end.Sub(start) <= time.Duration(t.FreeIfReclaimedS)*time.Second && t.FreeIfReclaimedS > 0 {
		return 0
	}
	from, to := billed(nanos(start), nanos(end), t)
	total := new(big.Int)
	for n, p := range prices {
		low, high := from, to
		if n > 0 {
			low = later(from, effect(p.From, from, t))
		}
		if n+1 < len(prices) {
			high = earlier(to, effect(prices[n+1].From, from, t))
		}
		if high.Cmp(low) > 0 {
			total.Add(total, charge(int64(p.Price), new(big.Int).Sub(high, low)))
		}
	}
	return events.MicroUSD(total.Int64())
}

// billed is the stretch that is paid for, in nanoseconds since 1970.
func billed(start, end *big.Int, t events.Terms) (from, to *big.Int) {
	grain := new(big.Int).Mul(big.NewInt(max(t.GrainS, 1)), big.NewInt(1e9))
	minimum := new(big.Int).Mul(big.NewInt(t.MinimumS), big.NewInt(1e9))
	if t.AlignedGrain {
		from, to = down(start, grain), up(end, grain)
	} else {
		from = start
		to = new(big.Int).Add(start, up(new(big.Int).Sub(end, start), grain))
	}
	return from, later(to, new(big.Int).Add(from, minimum))
}

// effect is when a new price begins to be charged: with aligned grains, at the
// first grain that begins under it.
func effect(at time.Time, from *big.Int, t events.Terms) *big.Int {
	if !t.AlignedGrain {
		return nanos(at)
	}
	grain := new(big.Int).Mul(big.NewInt(max(t.GrainS, 1)), big.NewInt(1e9))
	return later(from, up(nanos(at), grain))
}

// charge is nano-dollars an hour times nanoseconds in micro-dollars, half to even.
func charge(price int64, span *big.Int) *big.Int {
	product := new(big.Int).Mul(big.NewInt(max(price, 0)), span)
	unit := new(big.Int).Mul(big.NewInt(3_600_000_000_000), big.NewInt(1000))
	q, r := new(big.Int).QuoRem(product, unit, new(big.Int))
	switch r.Lsh(r, 1).Cmp(unit) {
	case 1:
		q.Add(q, big.NewInt(1))
	case 0:
		q.Add(q, new(big.Int).And(q, big.NewInt(1)))
	}
	return q
}

// nanos does not overflow, whatever the year.
func nanos(t time.Time) *big.Int {
	s := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(1e9))
	return s.Add(s, big.NewInt(int64(t.Nanosecond())))
}

// down and up are the whole multiples of grain around x, also before 1970.
func down(x, grain *big.Int) *big.Int {
	return new(big.Int).Sub(x, new(big.Int).Mod(x, grain))
}

func up(x, grain *big.Int) *big.Int {
	return new(big.Int).Neg(down(new(big.Int).Neg(x), grain))
}

func later(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func earlier(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}
