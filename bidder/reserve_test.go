package bidder

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/budget"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// What a reservation is extended to covers what the seller bills, whatever the prices do below the cap.
func TestContinueCoversWhatTheSellerBills(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := events.Terms{
			GrainS:       rapid.SampledFrom([]int64{0, 1, 60, 3600}).Draw(t, "grain"),
			MinimumS:     rapid.SampledFrom([]int64{0, 90, 7200}).Draw(t, "minimum"),
			AlignedGrain: rapid.Bool().Draw(t, "aligned"), FollowsMarket: true,
		}
		limit := events.PerInstanceHour(rapid.Int64Range(1, 20e9).Draw(t, "cap"))
		between := func(name string, a, b time.Time) time.Time {
			return a.Add(time.Duration(rapid.Int64Range(0, int64(b.Sub(a))).Draw(t, name)))
		}
		start := between("start", noon, noon.Add(2*time.Hour))
		until := between("until", start, start.Add(30*time.Hour))
		seen := between("seen", start, until)
		end := between("end", seen, until.Add(5*time.Minute))
		prices := []events.PriceFrom{{From: start, Price: limit}}
		for at := start; len(prices) < 8; {
			at = at.Add(time.Duration(rapid.Int64Range(int64(time.Minute), int64(4*time.Hour)).Draw(t, "held")))
			prices = append(prices, events.PriceFrom{From: at, Price: events.PerInstanceHour(rapid.Int64Range(1, int64(limit)).Draw(t, "price"))})
		}
		var known, inForce []events.PriceFrom
		for _, p := range prices {
			if !p.From.After(seen) {
				known = append(known, p)
			}
			if !p.From.After(end) {
				inForce = append(inForce, p)
			}
		}
		bound := budget.Continue(known, start, seen, until, limit, terms, 5*time.Minute)
		if bill := providertest.Bill(start, end, "us", inForce, terms); bill > bound {
			t.Fatalf("billed %s, reserved %s", bill, bound)
		}
	})
}
