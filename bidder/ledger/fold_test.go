package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

// chain numbers and links facts as the log would.
func chain(t interface{ Fatal(...any) }, facts []events.Fact) []events.Event {
	var out []events.Event
	for i, f := range facts {
		var prev *events.Event
		if i > 0 {
			prev = &out[i-1]
		}
		e, err := events.Follow(events.MoneyAggregate("acme"), prev, f)
		if err != nil {
			t.Fatal(err)
		}
		e.Position, e.Time = uint64(i+1), noon.Add(time.Duration(i)*time.Second)
		out = append(out, e)
	}
	return out
}

func drawFacts(t *rapid.T) []events.Fact {
	jobs := []events.JobID{"a", "b"}
	var facts []events.Fact
	for i := range rapid.IntRange(1, 40).Draw(t, "events") {
		job := rapid.SampledFrom(jobs).Draw(t, "job")
		id := job.Lease(1, rapid.IntRange(1, 4).Draw(t, "n"))
		amount := events.MicroUSD(rapid.Int64Range(0, 1e7).Draw(t, "amount"))
		pool := events.Pool{Seller: "s"}
		facts = append(facts, []events.Fact{
			events.BudgetSet{Job: job, Limit: amount},
			events.MoneyReserved{Job: job, Lease: id, Amount: amount, PaidTill: noon},
			events.MoneyExtended{Job: job, Lease: id, Amount: amount, PaidTill: noon.Add(time.Duration(i) * time.Minute)},
			events.MoneySettled{Job: job, Lease: id, Pool: pool, Amount: amount, Segments: []events.Segment{{N: 1, Category: "compute", Amount: amount}}},
			events.MoneySettled{Job: job, Lease: id, Pool: pool, Segments: []events.Segment{{N: 1, Category: "compute", Amount: amount}, {N: 2, Category: "credit", Amount: -amount}}},
			events.MoneyReleased{Job: job, Lease: id, Reason: "refused"},
		}[rapid.IntRange(0, 5).Draw(t, "kind")])
	}
	return facts
}

func TestAnyOrderAndRepetitionFoldsToTheSameStatement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := chain(t, drawFacts(t))
		running := &State{}
		for _, e := range evs {
			if err := running.Apply(e); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "again") {
				if err := running.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		mixed := append(append([]events.Event{}, evs...), rapid.SliceOf(rapid.SampledFrom(evs)).Draw(t, "repeated")...)
		rebuilt, err := Fold(rapid.Permutation(mixed).Draw(t, "order"))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(rebuilt, running) {
			t.Fatalf("rebuilt differs:\n%+v\n%+v", rebuilt, running)
		}
		for _, job := range []events.JobID{"a", "b"} {
			if s := running.Statement(job); s.Total != s.Account.Spent || s.Total != s.Compute+s.Credits {
				t.Fatalf("statement of %s: total %s, spent %s, compute %s, credits %s", job, s.Total, s.Account.Spent, s.Compute, s.Credits)
			}
		}
	})
}

func TestEveryEntryBalancesAndTheAccountsFollowFromThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := chain(t, drawFacts(t))
		entries, err := Entries(evs)
		if err != nil {
			t.Fatal(err)
		}
		sums := map[string]events.MicroUSD{}
		for i, x := range entries {
			if x.Balance() != 0 || x.Number != uint64(i+1) {
				t.Fatalf("entry %d has number %d and sums to %s", i+1, x.Number, x.Balance())
			}
			for _, p := range x.Postings {
				sums[p.Account] += p.Amount
			}
		}
		s, _ := Fold(evs)
		for _, a := range s.Jobs() {
			job := "job:" + string(a.Job) + ":"
			if sums[job+"reserved"] != a.Reserved || sums[job+"spent"] != a.Spent || sums[job+"available"] != a.Limit-a.Spent-a.Reserved {
				t.Fatalf("accounts of %s by postings %v, by fold %+v", a.Job, sums, a)
			}
		}
	})
}

func TestTheChainNamesThePlaceWhereItBreaks(t *testing.T) {
	build := func() []events.Event {
		return chain(t, []events.Fact{
			events.BudgetSet{Job: "a", Limit: 100}, events.MoneyReserved{Job: "a", Lease: "a-1-1", Amount: 50}, events.MoneyReleased{Job: "a", Lease: "a-1-1"},
		})
	}
	for _, tc := range []struct {
		name   string
		damage func([]events.Event) []events.Event
		at     uint64
	}{
		{"an event is missing", func(e []events.Event) []events.Event { return append(e[:1:1], e[2]) }, 3},
		{"an amount was altered, so the next hash does not fit", func(e []events.Event) []events.Event {
			e[1].Fact = events.MoneyReserved{Job: "a", Lease: "a-1-1", Amount: 49}
			return e
		}, 3},
		{"a segment was left out", func(e []events.Event) []events.Event {
			e[2].Fact = events.MoneySettled{Job: "a", Lease: "a-1-1", Amount: 5}
			return e
		}, 3},
		{"two events claim one number", func(e []events.Event) []events.Event {
			twin := e[1]
			twin.Fact = events.MoneyReserved{Job: "a", Lease: "a-1-2", Amount: 1}
			return []events.Event{e[0], e[1], twin}
		}, 2},
		{"the beginning is missing", func(e []events.Event) []events.Event { return e[1:] }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Fold(tc.damage(build()))
			var broken *ChainError
			if !errors.As(err, &broken) || broken.Sequence != tc.at {
				t.Errorf("Fold = %v, want a ChainError at number %d", err, tc.at)
			}
		})
	}
}

func TestAMachineDeniedAndFoundLaterIsStillPaidFor(t *testing.T) {
	s, err := Fold(chain(t, []events.Fact{
		events.BudgetSet{Job: "a", Limit: 100},
		events.MoneyReserved{Job: "a", Lease: "a-1-1", Amount: 50},
		events.MoneyReleased{Job: "a", Lease: "a-1-1", Reason: "refused"},
		events.MoneySettled{Job: "a", Lease: "a-1-1", Amount: 7, Overrun: 7, Segments: []events.Segment{{N: 1, Category: "compute", Amount: 7}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Account("a"); a.Spent != 7 || a.Reserved != 0 || a.Overrun != 7 {
		t.Errorf("account = %+v", a)
	}
}

func ExampleState_Statement() {
	charge := Settle(events.LeaseEnded{
		Started: noon, Ended: noon.Add(90 * time.Minute), EndedBy: "us", Terms: events.Terms{GrainS: 60},
		Prices: []events.PriceFrom{{From: noon, Price: 2 * events.DollarPerHour}},
	}, lease, 4*events.Dollar, 0)
	charge.OnDemand = 9 * events.Dollar
	var evs []events.Event
	for _, f := range []events.Fact{
		events.BudgetSet{Job: "job", Limit: 20 * events.Dollar},
		events.MoneyReserved{Job: "job", Lease: lease, Amount: 4 * events.Dollar}, charge,
	} {
		var prev *events.Event
		if len(evs) > 0 {
			prev = &evs[len(evs)-1]
		}
		e, _ := events.Follow(events.MoneyAggregate("acme"), prev, f)
		evs = append(evs, e)
	}
	s, _ := Fold(evs)
	bill := s.Statement("job")
	fmt.Println(bill.Total.Dollars(), "of", bill.Account.Limit.Dollars(), "saved", bill.Saved.Dollars(), bill.Finality)
	// Output: $3.00 of $20.00 saved $6.00 final
}
