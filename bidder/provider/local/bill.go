package local

import (
	"math"
	"math/big"
	"time"

	"github.com/spotferry/spotferry/events"
)

// stay is a machine's time with us, as the bill sees it. Times are market time.
type stay struct {
	start, end time.Time
	endedBy    string
	prices     []events.PriceFrom // in force, oldest first; the first is what was bought
	terms      events.Terms
}

// line is one price on a bill. Instants are nanoseconds since the Unix epoch.
type line struct {
	price    events.PerInstanceHour
	since    time.Time // from when the price held
	from, to *big.Int
	amount   int64 // micro-dollars
}

const (
	second  = 1_000_000_000        // nanoseconds
	perHour = 3600 * second * 1000 // nanoseconds in an hour x nano-dollars in a micro-dollar
)

// bill is the seller's invoice: every grain that was begun is paid, at least the
// minimum, each price by itself and rounded once, half a micro-dollar to even.
// Aligned grains begin at whole multiples since the Unix epoch and cost what was
// asked as they began; otherwise a price holds until the next, and what rounding
// adds is paid at the last. A machine taken back early enough costs nothing.
func bill(s stay) []line {
	from, to := s.billed()
	var lines []line
	for i, p := range s.prices {
		l := line{price: p.Price, since: p.From, from: from, to: to}
		if i > 0 {
			l.from = most(from, s.effective(p.From))
		}
		if i+1 < len(s.prices) {
			l.to = least(to, s.effective(s.prices[i+1].From))
		}
		if l.from.Cmp(l.to) < 0 {
			l.amount = s.charge(l)
			lines = append(lines, l)
		}
	}
	return lines
}

func total(lines []line) int64 {
	var sum int64
	for _, l := range lines {
		sum += l.amount
	}
	return sum
}

// billed returns the time to be paid.
func (s stay) billed() (from, to *big.Int) {
	from, to = instant(s.start), most(instant(s.end), instant(s.start))
	if s.terms.AlignedGrain {
		from, to = s.floor(from), s.ceil(to)
	}
	used := s.ceil(new(big.Int).Sub(to, from))
	used = most(used, seconds(s.terms.MinimumS))
	return from, new(big.Int).Add(from, used)
}

// effective returns when a price begins to be charged.
func (s stay) effective(t time.Time) *big.Int {
	if s.terms.AlignedGrain {
		return s.ceil(instant(t))
	}
	return instant(t)
}

func (s stay) charge(l line) int64 {
	if s.free() || l.price <= 0 {
		return 0
	}
	exact := new(big.Int).Mul(big.NewInt(int64(l.price)), new(big.Int).Sub(l.to, l.from))
	q, r := new(big.Int).QuoRem(exact, big.NewInt(perHour), new(big.Int))
	if half := r.Lsh(r, 1).Cmp(big.NewInt(perHour)); half > 0 || half == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return math.MaxInt64 // an absurd price must not look cheap
	}
	return q.Int64()
}

func (s stay) free() bool {
	limit := seconds(s.terms.FreeIfReclaimedS)
	lived := new(big.Int).Sub(instant(s.end), instant(s.start))
	return s.endedBy == endedBySeller && limit.Sign() > 0 && lived.Cmp(limit) <= 0
}

func (s stay) grain() *big.Int { return seconds(max(s.terms.GrainS, 1)) }

// floor and ceil are the whole grains around x.
func (s stay) floor(x *big.Int) *big.Int {
	g := s.grain()
	return new(big.Int).Sub(x, new(big.Int).Mod(x, g)) // Mod is Euclidean: right before 1970, too
}

func (s stay) ceil(x *big.Int) *big.Int {
	return s.floor(new(big.Int).Add(x, new(big.Int).Sub(s.grain(), big.NewInt(1))))
}

func seconds(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(max(n, 0)), big.NewInt(second)) }

func instant(t time.Time) *big.Int {
	ns := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(second))
	return ns.Add(ns, big.NewInt(int64(t.Nanosecond())))
}

func most(a, b *big.Int) *big.Int {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// clockTime is the inverse of instant.
func clockTime(x *big.Int) time.Time {
	s, ns := new(big.Int).DivMod(x, big.NewInt(second), new(big.Int))
	return time.Unix(s.Int64(), ns.Int64()).UTC()
}
