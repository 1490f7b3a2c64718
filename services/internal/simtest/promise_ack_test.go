package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
	"github.com/spotferry/spotferry/failover"
)

// handed is a log that gives what one consumer is called with into the test's
// hands, and that may be away.
type handed struct {
	*eventstest.Log
	name    string // of the consumer
	down    string // "append" or "read": what is not possible now
	handler chan func(context.Context, events.Event) error
}

var errAway = errors.New("the bus is away")

// Consume implements events.Log.
func (l *handed) Consume(ctx context.Context, s events.Subscription, handle func(context.Context, events.Event) error) error {
	if s.Name == "" {
		return l.Log.Consume(ctx, s, handle)
	}
	if s.Name == l.name {
		l.handler <- handle
	}
	<-ctx.Done()
	return nil
}

// Append implements events.Log.
func (l *handed) Append(ctx context.Context, after uint64, e events.Event) (events.Event, error) {
	if l.down == "append" {
		return events.Event{}, errAway
	}
	return l.Log.Append(ctx, after, e)
}

// Read implements events.Log.
func (l *handed) Read(ctx context.Context, a events.Aggregate, after uint64) ([]events.Event, error) {
	if l.down == "read" {
		return nil, errAway
	}
	return l.Log.Read(ctx, a, after)
}

// add appends a fact to its aggregate.
func (l *handed) add(t *testing.T, a events.Aggregate, f events.Fact, owed ...events.Command) events.Event {
	t.Helper()
	have, err := l.Log.Read(t.Context(), a, 0)
	if err != nil {
		t.Fatal(err)
	}
	var prev *events.Event
	var after uint64
	if len(have) > 0 {
		prev = &have[len(have)-1]
		after = prev.Position
	}
	e, err := events.Follow(a, prev, f)
	if err != nil {
		t.Fatal(err)
	}
	e.Time, e.Attribution, e.Correlation, e.Commands = time.Now(), events.Attribution{Org: org}, "j1", owed
	if e, err = l.Log.Append(t.Context(), after, e); err != nil {
		t.Fatal(err)
	}
	return e
}

// I-5: an event is acknowledged when its handler has returned nil. Until its effect
// stands in the log the handler must not.
func TestPromiseNothingIsAcknowledgedBeforeItsEffect(t *testing.T) {
	pool := events.Pool{Seller: "s", Region: "north", Zone: "a", InstanceType: "a1", Gang: 1, Capacity: events.Spot}
	offer := events.Offer{Pool: pool, Price: events.DollarPerHour, Seen: time.Now(), Terms: events.Terms{GrainS: 1}}
	lease, jobs, money := events.LeaseAggregate(org, "j1-1-1"), events.JobAggregate(org, "j1"), events.MoneyAggregate(org)
	spec := events.JobSpec{Name: "j", Run: "train", Policy: events.Policy{Budget: events.Dollar}}
	intended := events.LeaseIntended{Job: "j1", Epoch: 1, N: 1, Purpose: events.ForStart, Offer: offer, MaxPrice: offer.Price}
	launched := events.LeaseLaunched{Instance: "i-1", Price: offer.Price, Started: time.Now(), BootBy: time.Now().Add(time.Hour)}
	ended := events.LeaseEnded{Instance: "i-1", Started: time.Now(), Ended: time.Now().Add(time.Minute), EndedBy: "seller", Pool: pool, Terms: offer.Terms,
		Prices: []events.PriceFrom{{From: time.Now(), Price: offer.Price}}}
	reserved := events.MoneyReserved{Job: "j1", Lease: "j1-1-1", Amount: 1000, Price: offer.Price, PaidTill: time.Now()}
	submitted := events.JobSubmitted{Spec: spec, By: "test", Market: time.Now()}

	for _, tc := range []struct {
		name, consumer string
		run            func(*handed) func(context.Context) error
		before         func(*testing.T, *handed)
		on             events.Fact
		a              events.Aggregate
		down           []string
		effect         func(events.Fact) bool // nil: the effect comes by itself later
		in             string
	}{
		{"the ledger charges what has ended", "ledger", books, func(t *testing.T, l *handed) {
			l.add(t, money, reserved)
			l.add(t, lease, intended)
			l.add(t, lease, launched)
		}, ended, lease, []string{"append", "read"}, is[events.MoneySettled], events.FilterMoney},
		{"the ledger gives back what was refused", "ledger", books, func(t *testing.T, l *handed) {
			l.add(t, money, reserved)
			l.add(t, lease, intended)
		}, events.LeaseRefused{Kind: "no_capacity"}, lease, []string{"append", "read"}, is[events.MoneyReleased], events.FilterMoney},
		{"the ledger gives back what was declined", "ledger", books, func(t *testing.T, l *handed) { l.add(t, money, reserved) },
			events.LeaseDeclined{Job: "j1", Epoch: 1, N: 1, Reason: "superseded"}, lease, []string{"append", "read"}, is[events.MoneyReleased], events.FilterMoney},
		{"failover takes what was bought", "failover", carrying, func(t *testing.T, l *handed) {
			l.add(t, jobs, submitted)
			l.add(t, lease, intended)
		}, launched, lease, []string{"append", "read"}, is[events.JobLeased], events.FilterJobs},
		{"failover waits for what was declined", "failover", carrying, func(t *testing.T, l *handed) { l.add(t, jobs, submitted) },
			events.LeaseDeclined{Job: "j1", Epoch: 1, N: 1, Reason: "waiting-price"}, lease, []string{"append", "read"}, is[events.JobWaiting], events.FilterJobs},
		{"failover mourns what has ended", "failover", carrying, func(t *testing.T, l *handed) {
			l.add(t, jobs, submitted)
			l.add(t, lease, intended)
			l.add(t, lease, launched)
			l.add(t, jobs, events.JobLeased{Epoch: 1, Lease: "j1-1-1", Pool: pool, Instance: "i-1", Purpose: events.ForStart})
		}, ended, lease, []string{"append", "read"}, is[events.JobReleased], events.FilterJobs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natsbustest.Bubble(t, func(t *testing.T) {
				l := &handed{name: tc.consumer, Log: eventstest.New(0), handler: make(chan func(context.Context, events.Event) error, 1)}
				tc.before(t, l)
				e := l.add(t, tc.a, tc.on)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				run := tc.run(l)
				go func() { done <- run(ctx) }()
				handle := <-l.handler
				there := func() bool {
					return slices.ContainsFunc(l.Events(tc.in), func(x events.Event) bool { return tc.effect(x.Fact) })
				}
				for _, l.down = range tc.down {
					if err := handle(ctx, e); err == nil && !there() {
						t.Errorf("acknowledged without its effect: %s is not possible", l.down)
					}
				}
				l.down = ""
				if err := handle(ctx, e); err != nil || !there() {
					t.Errorf("the handler returned %v; the effect is there: %v", err, there())
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The bidder only begins work when it is told something; the sweep would find it
// too, but only when it is overdue.
func TestPromiseTheBidderActsWhenItIsTold(t *testing.T) {
	natsbustest.Bubble(t, func(t *testing.T) {
		l := &handed{name: "bidder", Log: eventstest.New(0), handler: make(chan func(context.Context, events.Event) error, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		run := bidding(l)
		go func() { done <- run(ctx) }()
		handle := <-l.handler
		time.Sleep(10 * time.Second) // past what it does at its start
		e := l.add(t, events.JobAggregate(org, "j1"), events.JobSubmitted{By: "test", Market: time.Now()},
			events.Command{ID: "acquire-j1-1-1", Kind: events.Acquire, Epoch: 1, N: 1, Purpose: events.ForStart})
		if err := handle(ctx, e); err != nil {
			t.Error(err)
		}
		time.Sleep(events.DefaultTimers().Heartbeat)
		if !slices.ContainsFunc(l.Events(events.FilterLeases), func(x events.Event) bool { return is[events.LeaseDeclined](x.Fact) }) {
			t.Errorf("a heartbeat later nothing has become of it: %v", l.Events(events.FilterLeases))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func is[F events.Fact](f events.Fact) bool { _, ok := f.(F); return ok }

func books(l *handed) func(context.Context) error {
	return ledger.New(ledger.Config{Log: l, Book: ledger.NewBook(l, "/test", time.Now), Logger: zap.NewNop()}).Run
}

func moment() events.Moment { return events.Moment{Control: time.Now(), Market: time.Now()} }

type noSignals struct{}

func (noSignals) WatchSignals(ctx context.Context, _ func(events.JobID, int, events.Heartbeat)) error {
	<-ctx.Done()
	return nil
}

func (noSignals) Signal(context.Context, events.OrgID, events.JobID, int) (events.Heartbeat, bool, error) {
	return events.Heartbeat{}, false, nil
}

func carrying(l *handed) func(context.Context) error {
	return failover.New(failover.Config{
		Log: l, Signals: noSignals{}, Book: failover.NewBook(l, moment), Timers: events.DefaultTimers(), Now: moment,
		Logger: zap.NewNop(), Healthy: time.Now,
	}).Run
}

// closedMarket sells nothing.
type closedMarket struct{}

func (closedMarket) Offers() []events.Offer                                  { return nil }
func (closedMarket) Rate(events.Pool, time.Duration) (perHour, life float64) { return 0, 0 }
func (closedMarket) Changed() <-chan struct{}                                { return nil }

// nobody is a seller that has nothing.
type nobody struct{ provider.Provider }

func (nobody) List(context.Context) (provider.Listing, error) {
	return provider.Listing{Complete: true}, nil
}

func bidding(l *handed) func(context.Context) error {
	s, err := bidder.New(bidder.Config{
		Log: l, Book: ledger.NewBook(l, "/test", time.Now), Market: closedMarket{}, Sellers: map[string]provider.Provider{"s": nobody{}},
		Bootstrap: func(context.Context, events.JobID, int, events.LeaseID) ([]byte, error) { return nil, errAway },
		Now:       moment, Timers: events.DefaultTimers(), Mark: "test", Logger: zap.NewNop(),
	})
	if err != nil {
		return func(context.Context) error { return fmt.Errorf("making a bidder: %w", err) }
	}
	return s.Run
}
