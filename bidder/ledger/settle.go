package ledger

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// Settle returns the charge for a lease that has ended. reserved is what was set
// aside for it; whatever exceeds it is Overrun. fallback is the price to bill when
// the seller named none: the highest agreed, never zero, because zero is not free.
//
// The rules are the seller's Terms. What is billed is the time from start to
// end, rounded up to the grain, at least the minimum. With AlignedGrain the time
// is first widened to whole grains since the Unix epoch and each grain costs the
// price in force at its start; otherwise each price holds for its own time and
// the rounding-up is billed at the last one. Every price is rounded once, half
// to even. A machine that the seller took back within FreeIfReclaimedS costs nothing:
// its charges stand, followed by one credit that cancels them.
func Settle(ended events.LeaseEnded, lease events.LeaseID, reserved events.MicroUSD, fallback events.PerInstanceHour) events.MoneySettled {
	out := events.MoneySettled{Job: lease.Job(), Lease: lease, Pool: ended.Pool}
	b := billedSpan(ended)
	prices := ended.Prices
	if len(prices) == 0 {
		prices = []events.PriceFrom{{From: b.from, Price: fallback}}
	}
	for _, c := range b.cut(prices) {
		out.Segments = append(out.Segments, segment(len(out.Segments)+1, b.from, c))
	}
	out.Amount = sum(out.Segments)
	if out.Amount > 0 && reclaimedFree(ended) {
		out.Segments = append(out.Segments, events.Segment{
			N: len(out.Segments) + 1, Category: "credit", From: b.from, To: b.to, Amount: -out.Amount,
		})
		out.Amount = 0
	}
	out.Overrun = max(out.Amount-reserved, 0)
	return out
}

func reclaimedFree(e events.LeaseEnded) bool {
	free := time.Duration(e.Terms.FreeIfReclaimedS) * time.Second
	return e.EndedBy == "seller" && free > 0 && e.Ended.Sub(e.Started) <= free
}

// span is what is billed, and by which grains.
type span struct {
	from, to time.Time
	grain    time.Duration // 0: prices change at any moment
}

// charge is a time at one price.
type charge struct {
	from, to time.Time
	price    events.PerInstanceHour
}

func billedSpan(e events.LeaseEnded) span {
	grain := time.Duration(max(e.Terms.GrainS, 1)) * time.Second
	minimum := time.Duration(max(e.Terms.MinimumS, 0)) * time.Second
	from, to := e.Started, e.Ended
	if to.Before(from) {
		to = from
	}
	if e.Terms.AlignedGrain {
		from, to = grainOf(from, grain), grainOf(to.Add(grain-1), grain)
	}
	used := to.Sub(from)
	if rest := used % grain; rest > 0 {
		used += grain - rest
	}
	s := span{from: from, to: from.Add(max(used, minimum))}
	if e.Terms.AlignedGrain {
		s.grain = grain
	}
	return s
}

// grainOf returns the start of the grain since the Unix epoch that t lies in.
func grainOf(t time.Time, grain time.Duration) time.Time {
	g := int64(grain / time.Second)
	into := ((t.Unix()%g)+g)%g*int64(time.Second) + int64(t.Nanosecond())
	return t.Add(-time.Duration(into))
}

// cut divides the span among the prices, oldest first. The first price also
// holds before its own time, the last one for the rest.
func (s span) cut(prices []events.PriceFrom) []charge {
	var out []charge
	from := s.from
	for i, p := range prices {
		to := s.to
		if i+1 < len(prices) {
			to = s.begins(prices[i+1].From)
		}
		if to.After(s.to) {
			to = s.to
		}
		if to.After(from) {
			out = append(out, charge{from, to, p.Price})
			from = to
		}
	}
	return out
}

// begins returns when a new price takes effect: at once, or with the next grain.
func (s span) begins(t time.Time) time.Time {
	if s.grain == 0 {
		return t
	}
	return grainOf(t.Add(s.grain-1), s.grain)
}

// segment makes a charge a line. Use is the difference of two roundings from
// the lease's start, so that the uses of a lease sum to the use of the whole.
func segment(n int, start time.Time, c charge) events.Segment {
	return events.Segment{
		N: n, Category: "compute", From: c.from, To: c.to,
		Use:  events.Use(c.to.Sub(start)) - events.Use(c.from.Sub(start)),
		List: c.price, Contract: c.price, Billed: c.price,
		Amount: events.Cost(c.price, c.to.Sub(c.from)),
	}
}

func sum(segments []events.Segment) events.MicroUSD {
	var total events.MicroUSD
	for _, s := range segments {
		total += s.Amount
	}
	return total
}
