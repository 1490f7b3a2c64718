package market

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/events"
)

var _ bus = events.Log(nil)

// board is a bus that keeps the newest event of each subject, as the offer stream does.
type board struct {
	mu   sync.Mutex
	last map[string]events.Event
	said []string
	down bool
}

func (b *board) Publish(_ context.Context, e events.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errors.New("no connection")
	}
	m, err := events.Encode(e)
	if err != nil {
		return err
	}
	if e, err = events.Decode(events.Message{Subject: m.Subject, Header: m.Header, Body: m.Body}); err != nil {
		return err
	}
	b.last[m.Subject] = e
	b.said = append(b.said, say([]events.Fact{e.Fact})...)
	return nil
}

func (b *board) Consume(ctx context.Context, s events.Subscription, handle func(context.Context, events.Event) error) error {
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	for _, e := range last {
		if err := handle(ctx, e); err != nil {
			return err
		}
	}
	s.CaughtUp()
	<-ctx.Done()
	return nil
}

func (b *board) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.said
	b.said = nil
	return out
}

func (b *board) cut(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// shop is a seller whose offers can be changed.
type shop struct {
	mu     sync.Mutex
	offers []events.Offer
	err    error
	hangs  bool
	asked  int
}

func (s *shop) Offers(ctx context.Context) ([]events.Offer, error) {
	s.mu.Lock()
	s.asked++
	offers, err, hangs := s.offers, s.err, s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return offers, err
}

func (s *shop) set(change func(*shop)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func watch(t *testing.T, b *board, feeds ...Feed) (stop func()) {
	t.Helper()
	w, err := NewWatcher(b, WatcherConfig{Feeds: feeds, Now: func() events.Moment {
		return events.Moment{Control: time.Now(), Market: time.Now()}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
}

// now is a quote effective at the bubble's time.
func nowQuote(zone string, price events.PerInstanceHour) events.Offer {
	return quote(zone, price, func(o *events.Offer) { o.Market = time.Now() })
}

func TestTheWatcher(t *testing.T) {
	bubble := func(name string, check func(*testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, check) })
	}
	expect := func(t *testing.T, b *board, want ...string) {
		t.Helper()
		synctest.Wait()
		if got := b.take(); !slices.Equal(got, want) {
			t.Errorf("published %q, want %q", got, want)
		}
	}
	bubble("polls each seller at its own pace", func(t *testing.T) {
		b := &board{last: map[string]events.Event{}}
		quick, slow := &shop{}, &shop{}
		stop := watch(t, b, Feed{Seller: "acme", Source: quick, Every: 10 * time.Second},
			Feed{Seller: "rival", Source: slow, Every: time.Minute, Offset: 5 * time.Second})
		time.Sleep(10*time.Minute + time.Second)
		stop()
		if quick.asked != 61 || slow.asked != 10 {
			t.Errorf("asked %d and %d times, want 61 and 10", quick.asked, slow.asked)
		}
	})
	bubble("publishes changes, and what would run out", func(t *testing.T) {
		b, s := &board{last: map[string]events.Event{}}, &shop{}
		s.offers = []events.Offer{nowQuote("a", 10*dollar)}
		defer watch(t, b, Feed{Seller: "acme", Source: s, Every: 30 * time.Second})()
		expect(t, b, "a at 10.000000000")
		time.Sleep(89 * time.Second)
		expect(t, b)
		time.Sleep(2 * time.Second)
		expect(t, b, "a at 10.000000000")
		s.set(func(s *shop) { s.offers = []events.Offer{nowQuote("a", 11*dollar)} })
		time.Sleep(30 * time.Second)
		expect(t, b, "a at 11.000000000")
		s.set(func(s *shop) { s.offers = nil })
		time.Sleep(30 * time.Second)
		expect(t, b, "a gone")
	})
	bubble("a consumer never loses an offer that stands", func(t *testing.T) {
		b, s := &board{last: map[string]events.Event{}}, &shop{}
		s.offers = []events.Offer{nowQuote("a", 10*dollar)}
		defer watch(t, b, Feed{Seller: "acme", Source: s, Every: 30 * time.Second})()
		synctest.Wait()
		for range 720 {
			book := NewBook(Limits{})
			b.mu.Lock()
			for _, e := range b.last {
				book.Apply(e)
			}
			b.mu.Unlock()
			o, ok := book.Offer(poolIn("a"), time.Now().Add(time.Minute))
			if !ok {
				t.Fatalf("the offer has run out at %s", time.Now())
			}
			if age := time.Since(o.Seen); age > 2*time.Minute {
				t.Fatalf("the offer is %s old", age)
			}
			time.Sleep(5 * time.Second)
		}
	})
	bubble("a feed that fails or hangs lets its offers expire", func(t *testing.T) {
		for _, fail := range []func(*shop){
			func(s *shop) { s.err = errors.New("503") },
			func(s *shop) { s.hangs = true },
			func(s *shop) { s.offers = make([]events.Offer, MaxOffers+1) },
		} {
			b, s := &board{last: map[string]events.Event{}}, &shop{}
			s.offers = []events.Offer{nowQuote("a", 10*dollar)}
			stop := watch(t, b, Feed{Seller: "acme", Source: s, Every: 30 * time.Second})
			expect(t, b, "a at 10.000000000")
			s.set(fail)
			time.Sleep(150 * time.Second)
			expect(t, b)
			time.Sleep(90 * time.Second)
			expect(t, b, "a stale")
			stop()
		}
	})
	bubble("what could not be published is published later, at its newest", func(t *testing.T) {
		b, s := &board{last: map[string]events.Event{}}, &shop{}
		b.down = true
		s.offers = []events.Offer{nowQuote("a", 10*dollar), nowQuote("b", 12*dollar)}
		defer watch(t, b, Feed{Seller: "acme", Source: s, Every: 30 * time.Second})()
		synctest.Wait()
		s.set(func(s *shop) { s.offers = []events.Offer{nowQuote("a", 11*dollar), s.offers[1]} })
		time.Sleep(31 * time.Second)
		b.cut(false)
		time.Sleep(30 * time.Second)
		expect(t, b, "b at 12.000000000", "a at 11.000000000")
	})
	bubble("starts from what stands published", func(t *testing.T) {
		b, s := &board{last: map[string]events.Event{}}, &shop{}
		s.offers = []events.Offer{nowQuote("a", 10*dollar), nowQuote("b", 12*dollar)}
		stop := watch(t, b, Feed{Seller: "acme", Source: s})
		expect(t, b, "a at 10.000000000", "b at 12.000000000")
		stop()
		s.offers = []events.Offer{nowQuote("a", 2000*dollar)}
		stop = watch(t, b, Feed{Seller: "acme", Source: s})
		synctest.Wait()
		expect(t, b, "a quarantined: price "+reasonJump, "b gone")
		stop()
	})
	bubble("remembers what an expired offer cost", func(t *testing.T) {
		b, s := &board{last: map[string]events.Event{}}, &shop{}
		s.offers = []events.Offer{nowQuote("a", 10*dollar)}
		stop := watch(t, b, Feed{Seller: "acme", Source: s})
		expect(t, b, "a at 10.000000000")
		s.set(func(s *shop) { s.offers = nil })
		time.Sleep(time.Minute)
		expect(t, b, "a gone")
		stop()
		s.offers = []events.Offer{nowQuote("a", dollar/20)}
		stop = watch(t, b, Feed{Seller: "acme", Source: s})
		expect(t, b, "a quarantined: price "+reasonJump)
		stop()
	})
}

func TestAWatcherRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	now := func() events.Moment { return events.Moment{} }
	for _, tc := range []struct {
		name string
		cfg  WatcherConfig
	}{
		{"no clock", WatcherConfig{}},
		{"no source", WatcherConfig{Now: now, Feeds: []Feed{{Seller: "acme"}}}},
		{"one seller twice", WatcherConfig{Now: now, Feeds: []Feed{{Seller: "acme", Source: &shop{}}, {Seller: "acme", Source: &shop{}}}}},
		{"a negative pace", WatcherConfig{Now: now, Feeds: []Feed{{Seller: "acme", Source: &shop{}, Every: -1}}}},
	} {
		if _, err := NewWatcher(&board{}, tc.cfg); err == nil {
			t.Errorf("%s was accepted", tc.name)
		}
	}
}
