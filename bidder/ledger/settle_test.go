package ledger

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

const lease = events.LeaseID("job-1-1")

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func TestSettle(t *testing.T) {
	const price = 3_600_000_000 // a thousand micro-dollars a second
	flat := []events.PriceFrom{{From: noon, Price: price}}
	moved := []events.PriceFrom{{From: noon, Price: price}, {From: at(90 * time.Second), Price: 2 * price}}
	for _, tc := range []struct {
		name     string
		from, to time.Duration
		by       string
		prices   []events.PriceFrom
		terms    events.Terms
		segments int
		want     events.MicroUSD
	}{
		{"seconds are billed as they ran", 0, 10 * time.Second, "us", flat, events.Terms{GrainS: 1}, 1, 10_000},
		{"a begun second is whole", 0, 10*time.Second + 1, "us", flat, events.Terms{GrainS: 1}, 1, 11_000},
		{"the grain rounds up from the start", 30 * time.Second, 91 * time.Second, "us", flat, events.Terms{GrainS: 60}, 1, 120_000},
		{"the minimum is billed for less", 0, time.Second, "us", flat, events.Terms{GrainS: 1, MinimumS: 60}, 1, 60_000},
		{"a minimum above the used grains is billed as it is", 0, time.Second, "us", flat, events.Terms{GrainS: 60, MinimumS: 90}, 1, 90_000},
		{"an aligned grain is widened at both ends", 59 * time.Second, 61 * time.Second, "us", flat, events.Terms{GrainS: 60, AlignedGrain: true}, 1, 120_000},
		{"an exact aligned grain stays", 0, 60 * time.Second, "us", flat, events.Terms{GrainS: 60, AlignedGrain: true}, 1, 60_000},
		{"a price holds until the next", 0, 100 * time.Second, "us", moved, events.Terms{GrainS: 1}, 2, 110_000},
		{"the rounding-up is billed at the last price", 0, 100 * time.Second, "us", moved, events.Terms{GrainS: 60}, 2, 150_000},
		{"an aligned grain costs the price at its start", 0, 100 * time.Second, "us", moved, events.Terms{GrainS: 60, AlignedGrain: true}, 1, 120_000},
		{"and the new price holds from the next grain", 0, 121 * time.Second, "us", moved, events.Terms{GrainS: 60, AlignedGrain: true}, 2, 240_000},
		{"a reclaim within the free time costs nothing", 0, 10 * time.Second, "seller", flat, events.Terms{GrainS: 1, FreeIfReclaimedS: 10}, 2, 0},
		{"a reclaim after the free time costs all", 0, 11 * time.Second, "seller", flat, events.Terms{GrainS: 1, FreeIfReclaimedS: 10}, 1, 11_000},
		{"giving back within the free time is not free", 0, 5 * time.Second, "us", flat, events.Terms{GrainS: 1, FreeIfReclaimedS: 10}, 1, 5_000},
		{"no time costs nothing", 0, 0, "us", flat, events.Terms{GrainS: 1}, 0, 0},
		{"an end before the start is no time", time.Minute, 0, "fault", flat, events.Terms{GrainS: 1}, 0, 0},
		{"a seller without a price is billed at the highest agreed", 0, 10 * time.Second, "us", nil, events.Terms{GrainS: 1}, 1, 20_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Settle(events.LeaseEnded{Started: at(tc.from), Ended: at(tc.to), EndedBy: tc.by, Prices: tc.prices, Terms: tc.terms}, lease, 15_000, 2*price)
			if got.Amount != tc.want || len(got.Segments) != tc.segments {
				t.Errorf("Settle = %s in %d segments, want %s in %d: %+v", got.Amount, len(got.Segments), tc.want, tc.segments, got.Segments)
			}
			if want := max(tc.want-15_000, 0); got.Overrun != want {
				t.Errorf("overrun = %s, want %s", got.Overrun, want)
			}
			if wrong := wrong(got); wrong != "" || got.Job != "job" {
				t.Errorf("job %q, %s", got.Job, wrong)
			}
		})
	}
}

// A second author of the same rules, in exact fractions and grain by grain.
func bill(e events.LeaseEnded) *big.Int {
	if free := time.Duration(e.Terms.FreeIfReclaimedS) * time.Second; e.EndedBy == "seller" && free > 0 && e.Ended.Sub(e.Started) <= free {
		return new(big.Int)
	}
	grain := max(e.Terms.GrainS, 1) * int64(time.Second)
	from, to := e.Started.UnixNano(), e.Ended.UnixNano()
	if e.Terms.AlignedGrain {
		from -= from % grain
	}
	stop := from
	for stop < to {
		stop += grain
	}
	stop = max(stop, from+e.Terms.MinimumS*int64(time.Second))
	priceAt := func(t int64) (at int) {
		for i, p := range e.Prices {
			if p.From.UnixNano() <= t {
				at = i
			}
		}
		return at
	}
	time2 := make([]int64, len(e.Prices)) // nanoseconds at each price
	for t := from; t < stop; {
		next := min(t+grain, stop)
		if !e.Terms.AlignedGrain {
			for _, p := range e.Prices[1:] {
				if ns := p.From.UnixNano(); ns > t && ns < next {
					next = ns
				}
			}
		}
		time2[priceAt(t)] += next - t
		t = next
	}
	total := new(big.Int)
	for i, ns := range time2 {
		exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(ns), big.NewInt(int64(e.Prices[i].Price))), big.NewInt(3_600_000_000_000_000))
		total.Add(total, halfEven(exact))
	}
	return total
}

func halfEven(r *big.Rat) *big.Int {
	twice := new(big.Rat).Mul(r, big.NewRat(2, 1))
	q, m := new(big.Int).DivMod(twice.Num(), twice.Denom(), new(big.Int))
	whole, odd := new(big.Int).DivMod(q, big.NewInt(2), new(big.Int))
	if odd.Sign() > 0 && (m.Sign() > 0 || whole.Bit(0) == 1) {
		whole.Add(whole, big.NewInt(1))
	}
	return whole
}

func TestSettleEqualsASecondAuthorToTheMicroDollar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := events.LeaseEnded{
			Started: at(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "start"))),
			EndedBy: rapid.SampledFrom([]string{"us", "seller", "machine"}).Draw(t, "by"),
			Terms: events.Terms{
				GrainS:           rapid.SampledFrom([]int64{0, 1, 60, 600}).Draw(t, "grain"),
				MinimumS:         rapid.SampledFrom([]int64{0, 60, 90}).Draw(t, "minimum"),
				FreeIfReclaimedS: rapid.SampledFrom([]int64{0, 600}).Draw(t, "free"),
				AlignedGrain:     rapid.Bool().Draw(t, "aligned"),
			},
		}
		e.Ended = e.Started.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "ran")))
		from := e.Started
		for range rapid.IntRange(1, 6).Draw(t, "prices") {
			e.Prices = append(e.Prices, events.PriceFrom{From: from, Price: events.PerInstanceHour(rapid.Int64Range(1, 50e9).Draw(t, "price"))})
			from = from.Add(time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "held")))
		}
		got := Settle(e, lease, 0, 1)
		if want := bill(e); want.Int64() != int64(got.Amount) {
			t.Fatalf("Settle = %d, the second author has %s", got.Amount, want)
		}
		var use events.MicroHours
		for i, seg := range got.Segments {
			use += seg.Use
			if i > 0 && seg.Category == "compute" && !seg.From.Equal(got.Segments[i-1].To) {
				t.Fatalf("segment %d begins at %s, the one before ends at %s", seg.N, seg.From, got.Segments[i-1].To)
			}
		}
		if n := len(got.Segments); n > 0 && use != events.Use(got.Segments[n-1].To.Sub(got.Segments[0].From)) {
			t.Fatalf("uses sum to %d", use)
		}
	})
}
