package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

// reserve is what a bidder does: idempotent by lease, never above the limit.
func reserve(id events.LeaseID, amount events.MicroUSD) func(*State) (*Draft, error) {
	return func(s *State) (*Draft, error) {
		if _, known := s.Lease(id); known {
			return nil, nil
		}
		if a := s.Account(id.Job()); a.Limit-a.Spent-a.Reserved < amount {
			return nil, errFull
		}
		return &Draft{Fact: events.MoneyReserved{Job: id.Job(), Lease: id, Amount: amount}}, nil
	}
}

var errFull = errors.New("full")

func TestManyBooksNeverReserveAboveOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.New(0)
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		log.SetFaults(eventstest.Faults{Append: func(events.Event) eventstest.Fate {
			mu.Lock()
			defer mu.Unlock()
			return []eventstest.Fate{0, 0, 0, eventstest.LostAck, eventstest.LostAsk}[random.IntN(5)]
		}})
		setup := NewBook(log, "/test", time.Now)
		if _, err := setup.Append(t.Context(), "acme", func(s *State) (*Draft, error) {
			if s.Account("j").Set {
				return nil, nil
			}
			return &Draft{Fact: events.BudgetSet{Job: "j", Limit: 1000}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for who := range 32 {
			wg.Go(func() {
				book := NewBook(log, fmt.Sprint("/test/", who), time.Now)
				for n := range 4 {
					id := events.JobID("j").Lease(who+1, n+1)
					if _, err := book.Append(t.Context(), "acme", reserve(id, 17)); err != nil && !errors.Is(err, errFull) {
						t.Error(err)
					}
					if n%2 == 1 { // a restarted one does it again
						book = NewBook(log, "/test/again", time.Now)
						if _, err := book.Append(t.Context(), "acme", reserve(id, 17)); err != nil && !errors.Is(err, errFull) {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		s, err := Fold(log.Events(events.FilterMoney))
		if err != nil {
			t.Fatal(err)
		}
		if a := s.Account("j"); a.Reserved != 58*17 || len(s.OpenLeases()) != 58 {
			t.Errorf("reserved %d in %d leases, want %d in 58", a.Reserved, len(s.OpenLeases()), 58*17)
		}
		setup.View(t.Context(), "acme", func(running *State) {
			if !reflect.DeepEqual(running.Account("j"), s.Account("j")) {
				t.Errorf("running %+v, rebuilt %+v", running.Account("j"), s.Account("j"))
			}
		})
	})
}

// asked counts how often a log is read, and has reading take a moment.
type asked struct {
	events.Log
	reads atomic.Int64
}

func (a *asked) Read(ctx context.Context, g events.Aggregate, after uint64) ([]events.Event, error) {
	a.reads.Add(1)
	time.Sleep(time.Millisecond)
	return a.Log.Read(ctx, g, after)
}

func TestAThousandWhoLookAtOnceAskTheLogFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &asked{Log: eventstest.New(0)}
		book, other := NewBook(log, "/test", time.Now), NewBook(log, "/other", time.Now)
		add := func(b *Book, job events.JobID) {
			if _, err := b.Append(t.Context(), "acme", func(*State) (*Draft, error) {
				return &Draft{Fact: events.BudgetSet{Job: job, Limit: events.Dollar}}, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		add(book, "before")
		log.reads.Store(0)
		add(book, "more") // nobody came between, and the log says so by taking it
		if n := log.reads.Load(); n != 0 {
			t.Errorf("an addition behind what is known asked the log %d times", n)
		}
		add(other, "elsewhere")
		log.reads.Store(0)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if err := book.View(t.Context(), "acme", func(s *State) {
					if !s.Account("elsewhere").Set {
						t.Error("a look does not show what was there before it")
					}
				}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := log.reads.Load(); n > 2 {
			t.Errorf("a thousand looks at once asked the log %d times", n)
		}
	})
}

func TestARefusalIsNeverThatOfAnOldFold(t *testing.T) {
	log := eventstest.New(0)
	book, other := NewBook(log, "/test", time.Now), NewBook(log, "/other", time.Now)
	limit := func(b *Book, m events.MicroUSD) {
		if _, err := b.Append(t.Context(), "acme", func(*State) (*Draft, error) {
			return &Draft{Fact: events.BudgetSet{Job: "j", Limit: m}}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	limit(book, 10)
	limit(other, 100) // raised where book has not looked since
	if _, err := book.Append(t.Context(), "acme", reserve(events.JobID("j").Lease(1, 1), 50)); err != nil {
		t.Errorf("refused by a limit that was raised: %v", err)
	}
	limit(other, 60) // and lowered again
	if _, err := book.Append(t.Context(), "acme", reserve(events.JobID("j").Lease(1, 2), 40)); !errors.Is(err, errFull) {
		t.Errorf("granted by a limit that was lowered: %v", err)
	}
}

func appendLease(t *testing.T, log events.Log, id events.LeaseID, facts ...events.Fact) {
	t.Helper()
	var prev *events.Event
	for _, f := range facts {
		e, err := events.Follow(events.LeaseAggregate("acme", id), prev, f)
		if err != nil {
			t.Fatal(err)
		}
		e.Attribution = events.Attribution{Org: "acme", Team: "vision"}
		var after uint64
		if prev != nil {
			after = prev.Position
		}
		if e, err = log.Append(t.Context(), after, e); err != nil {
			t.Fatal(err)
		}
		prev = &e
	}
}

type crash struct{}

func TestEveryLeaseIsSettledOnceWhateverCrashesAndRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.New(time.Second)
		log.SetFaults(eventstest.Faults{Copies: func(_ string, e events.Event) int { return int(e.Position) % 3 }})
		book := NewBook(log, "/test", time.Now)
		add := func(f events.Fact) {
			if _, err := book.Append(t.Context(), "acme", func(*State) (*Draft, error) { return &Draft{Fact: f}, nil }); err != nil {
				t.Fatal(err)
			}
		}
		add(events.BudgetSet{Job: "j", Limit: 10 * events.Dollar})
		gpu := events.GPU{Model: "V100", Count: 1}
		intended := events.LeaseIntended{Offer: events.Offer{GPU: gpu}, Decision: events.Decision{Candidates: []events.Candidate{
			{Offer: events.Offer{GPU: gpu, Price: 4 * events.DollarPerHour, Pool: events.Pool{Capacity: events.OnDemand}}},
			{Offer: events.Offer{GPU: gpu, Price: 1 * events.DollarPerHour, Pool: events.Pool{Capacity: events.Spot}}},
		}}}
		for n := range 6 {
			id := events.JobID("j").Lease(1, n+1)
			add(events.MoneyReserved{Job: "j", Lease: id, Amount: events.Dollar})
			switch n % 3 {
			case 0:
				appendLease(t, log, id, intended, events.LeaseEnded{Started: noon, Ended: at(30 * time.Minute), Prices: []events.PriceFrom{{From: noon, Price: events.DollarPerHour}}})
			case 1:
				appendLease(t, log, id, intended, events.LeaseRefused{Kind: "no_capacity"})
			case 2:
				appendLease(t, log, id, events.LeaseDeclined{Reason: "superseded"})
			}
		}
		left := map[string]int{CrashReadFacts: 2, CrashEntryNoAck: 3}
		for done := false; !done; {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			svc := New(Config{Log: log, Book: NewBook(log, "/test", time.Now), Logger: zap.NewNop(), Crash: func(p string) {
				if left[p] > 0 {
					left[p]--
					panic(crash{})
				}
			}})
			done = func() (ok bool) {
				defer func() { ok = recover() == nil }()
				return svc.Run(ctx) == nil
			}()
			cancel()
		}
		log.Redeliver("ledger")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := New(Config{Log: log, Book: book, Logger: zap.NewNop()}).Run(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := Fold(log.Events(events.FilterMoney))
		if err != nil {
			t.Fatal(err)
		}
		bill := s.Statement("j")
		if bill.Total != events.Dollar || bill.OnDemand != 4*events.Dollar || len(bill.Lines) != 2 || bill.Account.Reserved != 0 || bill.Finality != events.Final {
			t.Errorf("statement = %+v", bill)
		}
		if s.Sequence() != 1+6+6 {
			t.Errorf("%d money events, want 13: one for each act", s.Sequence())
		}
		if left[CrashReadFacts]+left[CrashEntryNoAck] > 0 {
			t.Errorf("crash points not reached: %v", left)
		}
	})
}
