package eventstest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/events"
)

var money = events.MoneyAggregate("acme")

func budget(t *testing.T, prev *events.Event, limit events.MicroUSD) events.Event {
	t.Helper()
	e, err := events.Follow(money, prev, events.BudgetSet{Job: "j", Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAnAppendStandsOnceAndOnlyWhereItFollows(t *testing.T) {
	l, ctx := New(0), t.Context()
	first := budget(t, nil, 1)
	got, err := l.Append(ctx, 0, first)
	if err != nil || got.Position != 1 {
		t.Fatalf("first append = %d, %v; want position 1", got.Position, err)
	}
	if again, err := l.Append(ctx, 0, first); err != nil || again.Position != 1 {
		t.Errorf("the same event again = %d, %v; want position 1", again.Position, err)
	}
	if _, err := l.Append(ctx, 0, budget(t, nil, 2)); !errors.Is(err, events.ErrConflict) {
		t.Errorf("another first event = %v, want ErrConflict", err)
	}
	second := budget(t, &got, 3)
	second.Prev = "forged"
	if _, err := l.Append(ctx, got.Position, second); err == nil || errors.Is(err, events.ErrConflict) {
		t.Errorf("a forged previous hash = %v, want an error that is no conflict", err)
	}
}

func TestALostAcknowledgementIsUnknownAndReadingTellsWhich(t *testing.T) {
	l, ctx := New(0), t.Context()
	fates := []Fate{LostAck, LostAsk}
	l.SetFaults(Faults{Append: func(events.Event) Fate { f := fates[0]; fates = fates[1:]; return f }})
	first := budget(t, nil, 1)
	if _, err := l.Append(ctx, 0, first); !errors.Is(err, events.ErrUnknown) {
		t.Fatalf("append = %v, want ErrUnknown", err)
	}
	got, err := l.Read(ctx, money, 0)
	if err != nil || len(got) != 1 || got[0].ID != first.ID {
		t.Fatalf("read = %v, %v; want the event", got, err)
	}
	if _, err := l.Append(ctx, 1, budget(t, &got[0], 2)); !errors.Is(err, events.ErrUnknown) {
		t.Fatalf("append = %v, want ErrUnknown", err)
	}
	if got, _ := l.Read(ctx, money, 1); len(got) != 0 {
		t.Errorf("an ask that was lost has been written: %v", got)
	}
}

func TestADurableConsumerGetsEverythingDespiteErrorsCopiesAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Second)
		var prev *events.Event
		for i := range 5 {
			e, err := l.Append(t.Context(), position(prev), budget(t, prev, events.MicroUSD(i)))
			if err != nil {
				t.Fatal(err)
			}
			prev = &e
		}
		l.SetFaults(Faults{Copies: func(_ string, e events.Event) int { return int(e.Sequence) % 2 }})
		seen, failed := map[uint64]int{}, false
		sub := events.Subscription{Name: "c", Filters: []string{events.FilterMoney}}
		run := func(stopAfter int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error)
			go func() {
				n := 0
				done <- l.Consume(ctx, sub, func(_ context.Context, e events.Event) error {
					if e.Sequence == 2 && !failed {
						failed = true
						return errors.New("not now")
					}
					seen[e.Sequence]++
					if n++; n == stopAfter {
						cancel()
					}
					return nil
				})
			}()
			time.Sleep(3 * time.Second)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		run(1)
		run(0)
		if want := map[uint64]int{1: 3, 2: 1, 3: 2, 4: 1, 5: 2}; !equal(seen, want) {
			t.Errorf("deliveries = %v, want %v", seen, want)
		}
		l.Redeliver("c")
		run(0)
		if seen[4] != 2 {
			t.Errorf("after Redeliver event 4 was seen %d times, want 2", seen[4])
		}
	})
}

func TestAPrivateConsumerReadsThePastOnceThenTheNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(0)
		pool := events.Pool{Seller: "s", Region: "r", Zone: "z", InstanceType: "t", Capacity: events.Spot}
		other := pool
		other.Zone = "y"
		publish := func(p events.Pool, price events.PerInstanceHour) {
			if err := l.Publish(t.Context(), events.Event{ID: "o", Fact: events.OfferChanged{Offer: events.Offer{Pool: p, Price: price}}}); err != nil {
				t.Fatal(err)
			}
		}
		publish(pool, 1)
		publish(other, 2)
		publish(pool, 3)
		l.Inject(events.Message{Subject: "sf.v1.offer.s.r.junk", Body: []byte("{")})
		var got []events.PerInstanceHour
		ctx, cancel := context.WithCancel(t.Context())
		caught := false
		go l.Consume(ctx, events.Subscription{Filters: []string{events.FilterOffers}, Last: true, CaughtUp: func() { caught = true }},
			func(_ context.Context, e events.Event) error {
				got = append(got, e.Fact.(events.OfferChanged).Offer.Price)
				return nil
			})
		synctest.Wait()
		publish(other, 4)
		synctest.Wait()
		cancel()
		if want := []events.PerInstanceHour{2, 3, 4}; !slices.Equal(got, want) || !caught || len(l.Dead()) != 1 {
			t.Errorf("got %v caught=%v dead=%d; want %v, true, 1", got, caught, len(l.Dead()), want)
		}
	})
}

func position(e *events.Event) uint64 {
	if e == nil {
		return 0
	}
	return e.Position
}

func equal(a, b map[uint64]int) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
