package budget

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

var start = time.Date(2027, 3, 1, 12, 0, 30, 0, time.UTC)

func TestExposure(t *testing.T) {
	const price = 3_600_000_000 // 3.6 dollars an hour: a tenth of a cent a second
	for _, tc := range []struct {
		name     string
		run      time.Duration
		terms    events.Terms
		teardown time.Duration
		want     events.MicroUSD
	}{
		{"a second is a second", time.Second, events.Terms{}, 0, 1000},
		{"what is begun counts as a whole second", 1500 * time.Millisecond, events.Terms{}, 0, 2000},
		{"the teardown is paid too", time.Second, events.Terms{}, 9 * time.Second, 10_000},
		{"a minute's grain", 61 * time.Second, events.Terms{GrainS: 60}, 0, 120_000},
		{"the minimum of a launch", time.Second, events.Terms{MinimumS: 600}, 0, 600_000},
		{"aligned hours are touched at both ends", time.Hour, events.Terms{GrainS: 3600, AlignedGrain: true}, 0, 7_200_000},
		{"a price that moves is rounded more often", time.Hour, events.Terms{FollowsMarket: true}, 0, 3_600_060},
		{"an end before the start is no time", -time.Hour, events.Terms{}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Exposure(price, start, start.Add(tc.run), tc.terms, tc.teardown); got != tc.want {
				t.Errorf("Exposure = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestACommitmentThatDoesNotFitSaysByHowMuch(t *testing.T) {
	a := Account{Limit: 10 * events.Dollar, Spent: 6 * events.Dollar, Reserved: 3 * events.Dollar}
	var over *Exceeded
	if _, err := a.Reserve(events.Dollar + 1); !errors.As(err, &over) || over.Account.Free() != events.Dollar {
		t.Fatalf("Reserve above what is free = %v, want *Exceeded with 1 dollar free", err)
	}
	if got, err := a.Reserve(events.Dollar); err != nil || got.Free() != 0 {
		t.Errorf("Reserve of exactly what is free = %+v, %v", got, err)
	}
}

func drawTerms(t *rapid.T) events.Terms {
	return events.Terms{
		GrainS:        rapid.SampledFrom([]int64{0, 1, 60, 600, 3600}).Draw(t, "grain"),
		MinimumS:      rapid.SampledFrom([]int64{0, 60, 90, 3600}).Draw(t, "minimum"),
		AlignedGrain:  rapid.Bool().Draw(t, "aligned"),
		FollowsMarket: rapid.Bool().Draw(t, "follows"),
	}
}

func drawDuration(t *rapid.T, name string, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
}

func TestExposureNeverFallsWithTimeAndCoversALaterStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms, price := drawTerms(t), events.PerInstanceHour(rapid.Int64Range(0, 100e9).Draw(t, "price"))
		run, more := drawDuration(t, "run", 100*time.Hour), drawDuration(t, "more", 100*time.Hour)
		late := drawDuration(t, "late", run)
		teardown := drawDuration(t, "teardown", time.Hour)
		whole := Exposure(price, start, start.Add(run), terms, teardown)
		if longer := Exposure(price, start, start.Add(run+more), terms, teardown); longer < whole {
			t.Fatalf("%s for longer, %s before", longer, whole)
		}
		if later := Exposure(price, start.Add(late), start.Add(run), terms, teardown); later > whole {
			t.Fatalf("starting later costs %s, reserved %s", later, whole)
		}
	})
}

func TestHorizonIsTheLongestTimeThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms, price := drawTerms(t), events.PerInstanceHour(rapid.Int64Range(1, 100e9).Draw(t, "price"))
		free := events.MicroUSD(rapid.Int64Range(-1000, 500e6).Draw(t, "free"))
		least, want := drawDuration(t, "least", time.Hour), drawDuration(t, "want", 48*time.Hour)
		teardown := drawDuration(t, "teardown", time.Hour)
		until, ok := Horizon(free, price, start, least, want, terms, teardown)
		if !ok {
			if want >= least && Exposure(price, start, start.Add(least), terms, teardown) <= free {
				t.Fatal("refused although the least fits")
			}
			return
		}
		if got := Exposure(price, start, until, terms, teardown); got > free {
			t.Fatalf("exposure %s exceeds what is free, %s", got, free)
		}
		if next := until.Add(time.Second); next.Sub(start) <= want && Exposure(price, start, next, terms, teardown) <= free {
			t.Fatalf("a second more than %s would fit", until.Sub(start))
		}
	})
}

// The promise as a whole: whatever is reserved, extended by a settlement at
// or under the reservation, and reserved again, spent + reserved stays within the limit.
func TestSpentAndReservedNeverExceedTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Account{Limit: events.MicroUSD(rapid.Int64Range(0, 1e9).Draw(t, "limit"))}
		var open []events.MicroUSD
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				price := events.PerInstanceHour(rapid.Int64Range(0, 50e9).Draw(t, "price"))
				amount := Exposure(price, start, start.Add(drawDuration(t, "run", 10*time.Hour)), drawTerms(t), time.Minute)
				if next, err := a.Reserve(amount); err == nil {
					a, open = next, append(open, amount)
				}
			},
			"settle": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing open")
				}
				last := open[len(open)-1]
				open = open[:len(open)-1]
				a = a.Settle(last, events.MicroUSD(rapid.Int64Range(0, int64(last)).Draw(t, "cost")))
			},
			"": func(t *rapid.T) {
				if a.Spent+a.Reserved > a.Limit || a.Free() < 0 {
					t.Fatalf("over the limit: %+v", a)
				}
			},
		})
	})
}
