package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// stub is a seller whose every call is answered by one function.
type stub struct {
	mu     sync.Mutex
	calls  int
	answer func(ctx context.Context, n int) error
}

func (s *stub) call(ctx context.Context) error {
	s.mu.Lock()
	s.calls++
	n := s.calls
	s.mu.Unlock()
	return s.answer(ctx, n)
}

func (s *stub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *stub) Offers(ctx context.Context) ([]events.Offer, error) {
	return []events.Offer{{}}, s.call(ctx)
}
func (s *stub) Launch(ctx context.Context, _ provider.LaunchSpec, token string) (provider.Instance, error) {
	return provider.Instance{ID: "i-1", Token: token}, s.call(ctx)
}
func (s *stub) Terminate(ctx context.Context, _ events.InstanceID) error { return s.call(ctx) }
func (s *stub) List(ctx context.Context) (provider.Listing, error) {
	return provider.Listing{Complete: true}, s.call(ctx)
}

// metered is a stub with a meter.
type metered struct{ *stub }

func (m metered) Metered(ctx context.Context, _ events.InstanceID) (provider.Reading, error) {
	return provider.Reading{Amount: 7}, m.call(ctx)
}

func always(err error) func(context.Context, int) error {
	return func(context.Context, int) error { return err }
}

func kinds() []provider.Kind {
	var out []provider.Kind
	for k := provider.UnknownOutcome; k <= provider.Transient; k++ {
		out = append(out, k)
	}
	return out
}

func ask(ctx context.Context, p provider.Provider, op string) error {
	var err error
	switch op {
	case provider.OpOffers:
		_, err = p.Offers(ctx)
	case provider.OpLaunch:
		_, err = p.Launch(ctx, provider.LaunchSpec{}, "a-1-1")
	case provider.OpTerminate:
		err = p.Terminate(ctx, "i-1")
	case provider.OpList:
		_, err = p.List(ctx)
	}
	return err
}

func bubble(t *testing.T, name string, check func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, check) })
}

func TestOnlyWhatMayBeRepeatedIs(t *testing.T) {
	launch := map[provider.Kind]bool{provider.Throttled: true, provider.Transient: true}
	read := map[provider.Kind]bool{provider.Throttled: true, provider.Transient: true, provider.UnknownOutcome: true}
	for _, tc := range []struct {
		op      string
		repeats map[provider.Kind]bool
	}{
		{provider.OpLaunch, launch}, {provider.OpOffers, read}, {provider.OpList, read}, {provider.OpTerminate, read},
	} {
		for _, k := range kinds() {
			want := 1
			if tc.repeats[k] {
				want = 4
			}
			bubble(t, fmt.Sprintf("%s answered %s is called %d times", tc.op, k, want), func(t *testing.T) {
				s := &stub{answer: always(&provider.Error{Kind: k, Op: tc.op, Code: "X1"})}
				err := ask(t.Context(), provider.Retry(s, provider.RetryConfig{}), tc.op)
				if s.count() != want {
					t.Errorf("%d calls, want %d", s.count(), want)
				}
				if e, ok := err.(*provider.Error); !ok || e.Kind != k || e.Code != "X1" {
					t.Errorf("error %v, want the seller's", err)
				}
			})
		}
	}
	bubble(t, "a launch that may have created something is never repeated", func(t *testing.T) {
		s := &stub{answer: always(&provider.Error{Kind: provider.Transient, MaybeCreated: true})}
		_ = ask(t.Context(), provider.Retry(s, provider.RetryConfig{}), provider.OpLaunch)
		if s.count() != 1 {
			t.Errorf("%d calls, want 1", s.count())
		}
	})
}

func TestRepetitionIsBounded(t *testing.T) {
	transient := always(&provider.Error{Kind: provider.Transient})
	bubble(t, "delays double, and the jitter takes part of each", func(t *testing.T) {
		s := &stub{answer: transient}
		p := provider.Retry(s, provider.RetryConfig{First: time.Second, Tries: 5, Jitter: func() float64 { return 0.5 }})
		start := time.Now()
		_ = ask(t.Context(), p, provider.OpList)
		if took := time.Since(start); took != 7500*time.Millisecond { // half of 1+2+4+8
			t.Errorf("took %s, want 7.5s", took)
		}
	})
	bubble(t, "a seller's wish is waited for", func(t *testing.T) {
		s := &stub{answer: func(_ context.Context, n int) error {
			if n == 1 {
				return &provider.Error{Kind: provider.Throttled, RetryAfter: 20 * time.Second}
			}
			return nil
		}}
		start := time.Now()
		if err := ask(t.Context(), provider.Retry(s, provider.RetryConfig{}), provider.OpLaunch); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("took %s, want the 20 s asked for and a little", took)
		}
	})
	bubble(t, "a wish of a year is handed to the caller at once", func(t *testing.T) {
		s := &stub{answer: always(&provider.Error{Kind: provider.Throttled, RetryAfter: 365 * 24 * time.Hour})}
		start := time.Now()
		err := ask(t.Context(), provider.Stack(s, provider.StackConfig{}), provider.OpList)
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || time.Since(start) != 0 || s.count() != 1 || e.RetryAfter != provider.MaxRetryAfter {
			t.Errorf("%v after %s and %d calls", err, time.Since(start), s.count())
		}
	})
	bubble(t, "a context without time for another try ends the tries", func(t *testing.T) {
		s := &stub{answer: transient}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		err := ask(ctx, provider.Retry(s, provider.RetryConfig{First: 10 * time.Second}), provider.OpList)
		if time.Since(start) != 0 || provider.KindOf(err) != provider.Transient {
			t.Errorf("%v after %s, want the seller's error at once", err, time.Since(start))
		}
	})
	bubble(t, "a context cancelled during the wait gives the seller's error", func(t *testing.T) {
		s := &stub{answer: transient}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		err := ask(ctx, provider.Retry(s, provider.RetryConfig{First: 10 * time.Second}), provider.OpList)
		if _, ok := err.(*provider.Error); !ok || s.count() != 1 {
			t.Errorf("%T %v after %d calls, want the *Error of the only one", err, err, s.count())
		}
	})
	bubble(t, "a storm shares one budget of repeats", func(t *testing.T) {
		s := &stub{answer: transient}
		p := provider.Retry(s, provider.RetryConfig{PerSecond: 0.001, Burst: 10})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _ = ask(t.Context(), p, provider.OpList) })
		}
		all.Wait()
		if n := s.count(); n != 110 {
			t.Errorf("100 requests made %d calls, want 110", n)
		}
	})
}

func TestOnlyTheirTroubleTripsABreaker(t *testing.T) {
	for _, k := range kinds() {
		trips := k == provider.Transient || k == provider.UnknownOutcome
		bubble(t, fmt.Sprintf("%s trips: %v", k, trips), func(t *testing.T) {
			s := &stub{answer: always(&provider.Error{Kind: k})}
			p := provider.Break(s, provider.BreakerConfig{})
			for range 50 {
				_ = ask(t.Context(), p, provider.OpLaunch)
			}
			if opened := s.count() < 50; opened != trips {
				t.Errorf("after %d of 50 calls the breaker is open: %v, want %v", s.count(), opened, trips)
			}
			_ = ask(t.Context(), p, provider.OpTerminate)
			if s.count() != map[bool]int{true: 6, false: 51}[trips] {
				t.Error("the breaker of launches stopped a terminate")
			}
		})
	}
	bubble(t, "what never left counts as nothing", func(t *testing.T) {
		s := &stub{answer: func(ctx context.Context, _ int) error { return provider.HeldBack(ctx, provider.OpList) }}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := provider.Break(s, provider.BreakerConfig{})
		for range 50 {
			_ = ask(ctx, p, provider.OpList)
		}
		if s.count() != 50 {
			t.Errorf("opened after %d calls that were never sent", s.count())
		}
	})
}

func TestAnOpenBreakerSaysWhenToAskAgain(t *testing.T) {
	bubble(t, "and one success closes it", func(t *testing.T) {
		broken := true
		s := &stub{answer: func(context.Context, int) error {
			if broken {
				return &provider.Error{Kind: provider.Transient}
			}
			return nil
		}}
		var states []string
		p := provider.Break(s, provider.BreakerConfig{OnChange: func(op, state string) { states = append(states, op+" "+state) }})
		for range 5 {
			_ = ask(t.Context(), p, provider.OpList)
		}
		time.Sleep(10 * time.Second)
		err := ask(t.Context(), p, provider.OpList)
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Kind != provider.Transient || e.RetryAfter != 20*time.Second || !errors.Is(err, provider.ErrHeldBack) {
			t.Fatalf("open breaker answered %+v, want Transient, held back, retry after 20 s", err)
		}
		if s.count() != 5 {
			t.Errorf("%d calls reached the seller, want 5", s.count())
		}
		time.Sleep(21 * time.Second)
		broken = false
		for range 2 {
			if err := ask(t.Context(), p, provider.OpList); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(states, ", "); got != "list open, list half-open, list closed" {
			t.Errorf("states %s", got)
		}
	})
	bubble(t, "a refusal also proves that the seller is back", func(t *testing.T) {
		kind := provider.Transient
		s := &stub{answer: func(context.Context, int) error { return &provider.Error{Kind: kind} }}
		p := provider.Break(s, provider.BreakerConfig{})
		for range 5 {
			_ = ask(t.Context(), p, provider.OpLaunch)
		}
		time.Sleep(31 * time.Second)
		kind = provider.NoCapacity
		for range 3 {
			if err := ask(t.Context(), p, provider.OpLaunch); provider.KindOf(err) != provider.NoCapacity {
				t.Errorf("got %v, want the refusal", err)
			}
		}
	})
}

func TestTheLimiterKeepsThePace(t *testing.T) {
	ok := always(nil)
	bubble(t, "a burst, then so many a second", func(t *testing.T) {
		s := &stub{answer: ok}
		p := provider.Limit(s, provider.NewLimiter(provider.LimitConfig{PerSecond: 2, Burst: 4}))
		start := time.Now()
		for range 10 {
			if err := ask(t.Context(), p, provider.OpList); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("10 calls took %s, want 3s", took)
		}
	})
	bubble(t, "a throttled call stops everyone for as long as the seller asked, and halves the rate", func(t *testing.T) {
		s := &stub{answer: func(_ context.Context, n int) error {
			if n == 1 {
				return &provider.Error{Kind: provider.Throttled, RetryAfter: 10 * time.Second}
			}
			return nil
		}}
		l := provider.NewLimiter(provider.LimitConfig{PerSecond: 8, Burst: 4})
		one, other := provider.Limit(s, l), provider.Limit(s, l)
		start := time.Now()
		_ = ask(t.Context(), one, provider.OpLaunch)
		if l.Rate() != 4 {
			t.Errorf("rate %v, want 4", l.Rate())
		}
		if err := ask(t.Context(), other, provider.OpList); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %s, want success after the pause", err, time.Since(start))
		}
		for range 20 {
			_ = ask(t.Context(), other, provider.OpList)
		}
		if l.Rate() != 8 {
			t.Errorf("rate %v after 20 successes, want 8 again", l.Rate())
		}
	})
	bubble(t, "calls already under way do not halve it again", func(t *testing.T) {
		s := &stub{answer: func(context.Context, int) error {
			time.Sleep(time.Second)
			return &provider.Error{Kind: provider.Throttled, RetryAfter: time.Minute}
		}}
		l := provider.NewLimiter(provider.LimitConfig{PerSecond: 8, Burst: 8})
		p := provider.Limit(s, l)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _ = ask(t.Context(), p, provider.OpList) })
		}
		all.Wait()
		if l.Rate() != 4 {
			t.Errorf("rate %v, want 4", l.Rate())
		}
	})
	bubble(t, "a pause longer than the call may take is not waited for", func(t *testing.T) {
		s := &stub{answer: always(&provider.Error{Kind: provider.Throttled, RetryAfter: time.Minute})}
		p := provider.Limit(s, provider.NewLimiter(provider.LimitConfig{}))
		_ = ask(t.Context(), p, provider.OpList)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err := ask(ctx, p, provider.OpLaunch)
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Kind != provider.Transient || e.RetryAfter != time.Minute || !errors.Is(err, provider.ErrHeldBack) || time.Since(start) != 0 {
			t.Errorf("%+v after %s, want Transient and held back at once", err, time.Since(start))
		}
	})
}

func TestEveryErrorIsTyped(t *testing.T) {
	t.Parallel()
	plain := errors.New("EOF")
	for _, tc := range []struct {
		name string
		op   string
		err  error
		want provider.Error
	}{
		{"an unclassified error of a launch is unknown", provider.OpLaunch, plain,
			provider.Error{Kind: provider.UnknownOutcome, MaybeCreated: true}},
		{"an unclassified error of a read is transient", provider.OpList, plain, provider.Error{Kind: provider.Transient}},
		{"a context that ended after a launch was sent is unknown", provider.OpLaunch, context.DeadlineExceeded,
			provider.Error{Kind: provider.UnknownOutcome, MaybeCreated: true}},
		{"a context that ended during a terminate is transient", provider.OpTerminate, context.Canceled, provider.Error{Kind: provider.Transient}},
		{"a wrapped error keeps its kind", provider.OpLaunch, fmt.Errorf("zone a: %w", &provider.Error{Kind: provider.Quota, Scope: "region"}),
			provider.Error{Kind: provider.Quota, Scope: "region"}},
		{"an unknown launch may always have created something", provider.OpLaunch, &provider.Error{},
			provider.Error{Kind: provider.UnknownOutcome, MaybeCreated: true}},
		{"a wait before now is none", provider.OpList, &provider.Error{Kind: provider.Throttled, RetryAfter: -1}, provider.Error{Kind: provider.Throttled}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := ask(context.Background(), provider.Typed(&stub{answer: always(tc.err)}), tc.op)
			got, ok := err.(*provider.Error)
			if !ok {
				t.Fatalf("got %T %v", err, err)
			}
			if got.Kind != tc.want.Kind || got.MaybeCreated != tc.want.MaybeCreated || got.Scope != tc.want.Scope || got.RetryAfter != tc.want.RetryAfter || got.Op != tc.op {
				t.Errorf("got %+v, want %+v of %s", got, tc.want, tc.op)
			}
		})
	}
}

func TestMetricsCountWhatTheSellerSees(t *testing.T) {
	bubble(t, "by seller, operation and kind", func(t *testing.T) {
		s := &stub{answer: func(_ context.Context, n int) error {
			if n < 3 {
				return &provider.Error{Kind: provider.Transient}
			}
			return nil
		}}
		reg := prometheus.NewPedanticRegistry()
		p := provider.Stack(s, provider.StackConfig{Seller: "acme", Metrics: provider.NewMetrics(reg)})
		if err := ask(t.Context(), p, provider.OpList); err != nil {
			t.Fatal(err)
		}
		want := `
# HELP spotferry_provider_calls_total Calls that reached the seller, by error kind or ok.
# TYPE spotferry_provider_calls_total counter
spotferry_provider_calls_total{kind="ok",op="list",seller="acme"} 1
spotferry_provider_calls_total{kind="transient",op="list",seller="acme"} 2
# HELP spotferry_provider_repeats_total Calls that were made again after a failure that allows it.
# TYPE spotferry_provider_repeats_total counter
spotferry_provider_repeats_total{op="list",seller="acme"} 2
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "spotferry_provider_calls_total", "spotferry_provider_repeats_total"); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "an open breaker shows", func(t *testing.T) {
		s := &stub{answer: always(&provider.Error{Kind: provider.Transient})}
		reg := prometheus.NewPedanticRegistry()
		p := provider.Stack(s, provider.StackConfig{Seller: "acme", Metrics: provider.NewMetrics(reg)})
		for range 5 {
			_ = ask(t.Context(), p, provider.OpOffers)
		}
		want := `
# HELP spotferry_provider_breaker_state 0 closed, 1 half-open, 2 open.
# TYPE spotferry_provider_breaker_state gauge
spotferry_provider_breaker_state{op="offers",seller="acme"} 2
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "spotferry_provider_breaker_state"); err != nil {
			t.Error(err)
		}
		if s.count() != 5 {
			t.Errorf("%d calls reached the seller, want 5", s.count())
		}
	})
}

func TestOptionalInterfacesAreReachedThroughTheStack(t *testing.T) {
	t.Parallel()
	ok := always(nil)
	with := provider.Stack(metered{&stub{answer: ok}}, provider.StackConfig{})
	meter, found := provider.As[provider.Meter](with)
	if !found {
		t.Fatal("the meter is hidden")
	}
	if r, err := meter.Metered(t.Context(), "i-1"); err != nil || r.Amount != 7 {
		t.Errorf("meter read %v, %v", r, err)
	}
	if _, found := provider.As[provider.Rebidder](with); found {
		t.Error("a rebidder is claimed")
	}
	without := provider.Stack(&stub{answer: ok}, provider.StackConfig{})
	if got := provider.CapabilitiesOf(without); got != (provider.Capabilities{}) {
		t.Errorf("capabilities %+v of a seller that has none", got)
	}
	if inner, found := provider.As[*stub](without); !found || inner == nil {
		t.Error("the adapter itself is not reached")
	}
	if got := provider.CapabilitiesOf(with); got != (provider.Capabilities{Meter: true}) {
		t.Errorf("capabilities %+v, want the meter only", got)
	}
}

func TestKindsHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range kinds() {
		if provider.ParseKind(k.String()) != k || seen[k.String()] {
			t.Errorf("%d is called %q, which reads as %d", k, k, provider.ParseKind(k.String()))
		}
		seen[k.String()] = true
	}
	if len(seen) != 11 || provider.ParseKind("surprise") != provider.UnknownOutcome || provider.Kind(99).String() != "unknown_outcome" {
		t.Error("what is not one of the eleven must be an unknown outcome")
	}
}
