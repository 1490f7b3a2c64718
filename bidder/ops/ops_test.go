package ops

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

const org events.OrgID = "acme"

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func pool(seller, zone string) events.Pool {
	return events.Pool{Seller: seller, Region: "eu", Zone: zone, InstanceType: "p3", Capacity: events.Spot, Gang: 1}
}

func ref(p events.Pool) *events.Pool { return &p }

func book(log events.Log) *Book {
	return NewBook(log, "/spotferry/test", func() time.Time { return noon })
}

func add(t *testing.T, b *Book, f events.Fact) State {
	t.Helper()
	s, err := b.Append(t.Context(), org, func(State) (events.Fact, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatDecisionsBar(t *testing.T) {
	hold := events.OpsHeld{Seller: "a", Reason: "reclaims", By: "ann"}
	one := events.OpsHeld{Seller: "a", Pool: ref(pool("a", "z1")), Reason: "slow disks", By: "bob"}
	for _, tc := range []struct {
		name  string
		facts []events.Fact
		pool  events.Pool
		want  string
	}{
		{"nothing at first", nil, pool("a", "z1"), ""},
		{"a held seller bars all its pools", []events.Fact{hold}, pool("a", "z2"), "held: reclaims (by ann)"},
		{"and no other seller's", []events.Fact{hold}, pool("b", "z2"), ""},
		{"a held pool bars itself", []events.Fact{one}, pool("a", "z1"), "held: slow disks (by bob)"},
		{"and not its neighbour", []events.Fact{one}, pool("a", "z2"), ""},
		{"the first hold of the same thing stands", []events.Fact{hold, events.OpsHeld{Seller: "a", Reason: "other", By: "eve"}}, pool("a", "z1"), "held: reclaims (by ann)"},
		{"a release takes exactly its hold back", []events.Fact{hold, one, events.OpsReleased{Seller: "a"}}, pool("a", "z1"), "held: slow disks (by bob)"},
		{"and the pool's own the rest", []events.Fact{one, events.OpsReleased{Seller: "a", Pool: ref(pool("a", "z1"))}}, pool("a", "z1"), ""},
		{"a release of the seller leaves holds of pools", []events.Fact{one, events.OpsReleased{Seller: "a"}}, pool("a", "z1"), "held: slow disks (by bob)"},
		{"a freeze bars everything", []events.Fact{events.OpsFrozen{Reason: "incident", By: "ann"}}, pool("b", "z9"), "frozen: incident (by ann)"},
		{"the first freeze stands", []events.Fact{events.OpsFrozen{Reason: "incident", By: "ann"}, events.OpsFrozen{Reason: "me too", By: "bob"}}, pool("b", "z9"), "frozen: incident (by ann)"},
		{"an end of it ends it, and holds remain", []events.Fact{one, events.OpsFrozen{}, events.OpsUnfrozen{}}, pool("a", "z1"), "held: slow disks (by bob)"},
		{"a wish to reap bars nothing", []events.Fact{events.OpsReapRequested{}}, pool("a", "z1"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := book(eventstest.New(0))
			for _, f := range tc.facts {
				add(t, b, f)
			}
			s, err := b.State(t.Context(), org)
			if err != nil || s.Bars(tc.pool) != tc.want {
				t.Errorf("Bars = %q, %v; want %q", s.Bars(tc.pool), err, tc.want)
			}
		})
	}
}

// TestWhatHeldAtAPosition: the law that makes an intent void is decided by where it stands.
func TestWhatHeldAtAPosition(t *testing.T) {
	b := book(eventstest.New(0))
	frozen := add(t, b, events.OpsFrozen{Reason: "incident", By: "ann"})
	thawed := add(t, b, events.OpsUnfrozen{By: "ann"})
	held := add(t, b, events.OpsHeld{Seller: "a", By: "ann"})
	for _, tc := range []struct {
		at     uint64
		frozen bool
		holds  int
	}{
		{1, false, 0}, {frozen.Position(), false, 0}, {frozen.Position() + 1, true, 0}, {thawed.Position(), true, 0},
		{thawed.Position() + 1, false, 0}, {held.Position() + 1, false, 1}, {1000, false, 1},
	} {
		then, now, err := b.At(t.Context(), org, tc.at)
		if err != nil || (then.Freeze != nil) != tc.frozen || len(then.Holds) != tc.holds {
			t.Errorf("at %d: %+v, %v", tc.at, then, err)
		}
		if !reflect.DeepEqual(now, held) {
			t.Errorf("now: %+v", now)
		}
	}
}

// TestBooksThatDecideAtOnceAgree: whoever loses a race decides on what the winner
// left, and a lost answer adds nothing twice.
func TestBooksThatDecideAtOnceAgree(t *testing.T) {
	log := eventstest.New(0)
	var mu sync.Mutex
	n := 0
	log.SetFaults(eventstest.Faults{Append: func(events.Event) eventstest.Fate {
		mu.Lock()
		defer mu.Unlock()
		n++
		return []eventstest.Fate{eventstest.Done, eventstest.LostAck, eventstest.LostAsk}[n%3]
	}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			b := book(log)
			for k := range 5 {
				h := events.OpsHeld{Seller: fmt.Sprint("s", (i+k)%6), By: fmt.Sprint(i)}
				if _, err := b.Append(t.Context(), org, func(s State) (events.Fact, error) {
					if _, there := s.Has(h.Seller, nil); there {
						return nil, nil
					}
					return h, nil
				}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if got := len(log.Events(events.FilterOps)); got != 6 {
		t.Errorf("%d events, want one a seller", got)
	}
	s, err := book(log).State(t.Context(), org)
	if err != nil || len(s.Holds) != 6 {
		t.Errorf("%d holds, %v", len(s.Holds), err)
	}
}

func TestARefusalAddsNothing(t *testing.T) {
	log := eventstest.New(0)
	no := errors.New("no")
	if _, err := book(log).Append(t.Context(), org, func(State) (events.Fact, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("Append = %v", err)
	}
	if got := len(log.Events(events.FilterOps)); got != 0 {
		t.Errorf("%d events", got)
	}
}

// TestAnyOrderOfDecisionsFoldsToWhatALedgerOfThemSays compares the fold with the
// plainest one there is, and checks that folding never changes an earlier state.
func TestAnyOrderOfDecisionsFoldsToWhatALedgerOfThemSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		held := map[string]bool{}
		frozen := false
		var prev *events.Event
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			seller := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "seller")
			zone := rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, "zone")
			var p *events.Pool
			if zone != "" {
				p = ref(pool(seller, zone))
			}
			kind := rapid.IntRange(0, 3).Draw(t, "kind")
			f := []events.Fact{events.OpsHeld{Seller: seller, Pool: p}, events.OpsReleased{Seller: seller, Pool: p}, events.OpsFrozen{}, events.OpsUnfrozen{}}[kind]
			switch kind {
			case 0, 1:
				held[seller+zone] = kind == 0
			default:
				frozen = kind == 2
			}
			e, err := events.Follow(events.OpsAggregate(org), prev, f)
			if err != nil {
				t.Fatal(err)
			}
			prev = &e
			before := append([]Hold(nil), s.Holds...)
			after := Fold(s, e)
			if !reflect.DeepEqual(before, append([]Hold(nil), s.Holds...)) {
				t.Fatal("folding changed the state before")
			}
			s = Fold(after, e) // twice is once
		}
		if (s.Freeze != nil) != frozen {
			t.Fatalf("frozen %v, want %v", s.Freeze != nil, frozen)
		}
		for _, seller := range []string{"a", "b"} {
			for _, zone := range []string{"z1", "z2"} {
				if _, got := s.Held(pool(seller, zone)); got != (held[seller] || held[seller+zone]) {
					t.Fatalf("%s %s held %v: %+v", seller, zone, got, s.Holds)
				}
			}
		}
	})
}
