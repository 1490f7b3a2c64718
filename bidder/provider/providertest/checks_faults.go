package providertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// always is more faults than any wrapper repeats.
const always = 40

func (h Harness) script(t *testing.T, op string, faults ...Fault) {
	t.Helper()
	if h.Script == nil {
		t.Skip("this seller cannot be told to misbehave")
	}
	h.Script(op, faults...)
}

func endedContext(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Seller.Launch(ctx, h.Spec(), h.Token())
	if e := must(t, err, provider.OpLaunch, provider.Transient); e.MaybeCreated || !errors.Is(err, context.Canceled) {
		t.Errorf("a launch that was never sent: maybe created %v, %v; want false and the context's error", e.MaybeCreated, err)
	}
	_, err = h.Seller.List(ctx)
	must(t, err, provider.OpList, provider.Transient)
	_, err = h.Seller.Offers(ctx)
	must(t, err, provider.OpOffers, provider.Transient)
	h.bought(t, 0)
}

func cutOffLaunch(t *testing.T, h Harness) {
	h.script(t, provider.OpLaunch, Fault{Mode: Slow, For: time.Minute})
	token := h.Token()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := h.Seller.Launch(ctx, h.Spec(), token)
	h.unknown(t, err, token)
}

func lostLaunch(t *testing.T, h Harness) {
	h.script(t, provider.OpLaunch, Fault{Mode: Lost})
	token := h.Token()
	_, err := h.Seller.Launch(t.Context(), h.Spec(), token)
	h.unknown(t, err, token)
}

// unknown checks that the outcome was called unknown, and that a list settles it with one machine.
func (h Harness) unknown(t *testing.T, err error, token string) {
	t.Helper()
	if e := must(t, err, provider.OpLaunch, provider.UnknownOutcome); !e.MaybeCreated {
		t.Error("an unknown outcome of a launch must say that something may exist")
	}
	h.await(t, token, func(l provider.Listing) bool { _, ok := l.Find(token); return ok })
	h.bought(t, 1)
}

func repeatAfterLoss(t *testing.T, h Harness) {
	h.script(t, provider.OpLaunch, Fault{Mode: Lost}, Fault{Mode: Lost})
	spec, token := h.Spec(), h.Token()
	for range 2 {
		_, err := h.Seller.Launch(t.Context(), spec, token)
		must(t, err, provider.OpLaunch, provider.UnknownOutcome)
	}
	h.buy(t, spec, token)
	h.bought(t, 1)
}

func kindsArrive(t *testing.T, h Harness) {
	for k := provider.UnknownOutcome; k <= provider.Transient; k++ {
		if why := h.Kinds[k]; why != "" {
			t.Logf("%s: n/a: %s", k, why)
			continue
		}
		h.script(t, provider.OpLaunch, Times(always, Fault{Mode: Fail, Kind: k})...)
		_, err := h.Seller.Launch(t.Context(), h.Spec(), h.Token())
		e := must(t, err, provider.OpLaunch, k)
		if e.Error() == "" || e.Code == "" {
			t.Errorf("%s arrived without a message or the seller's code: %+v", k, e)
		}
		h.Script(provider.OpLaunch)
	}
	h.script(t, provider.OpList, Times(always, Fault{Mode: Throttle, For: 2 * time.Second})...)
	_, err := h.Seller.List(t.Context())
	if e := must(t, err, provider.OpList, provider.Throttled); e.RetryAfter != 2*time.Second && !h.Mute {
		t.Errorf("retry after %s, want the 2 s that the seller asked for", e.RetryAfter)
	}
	h.bought(t, 0)
}

func refusalAfterEffect(t *testing.T, h Harness) {
	h.script(t, provider.OpLaunch, Fault{Mode: FailAfter, Kind: provider.NoCapacity})
	token := h.Token()
	_, err := h.Seller.Launch(t.Context(), h.Spec(), token)
	if e := must(t, err, provider.OpLaunch, provider.NoCapacity); !e.MaybeCreated {
		t.Error("the refusal hides that a machine may exist")
	}
	h.await(t, token, func(l provider.Listing) bool { _, ok := l.Find(token); return ok })
}

func garbage(t *testing.T, h Harness) {
	h.script(t, provider.OpLaunch, Times(always, Fault{Mode: Garbage})...)
	_, err := h.Seller.Launch(t.Context(), h.Spec(), h.Token())
	must(t, err, provider.OpLaunch, provider.UnknownOutcome)
	h.script(t, provider.OpList, Times(always, Fault{Mode: Garbage})...)
	_, err = h.Seller.List(t.Context())
	must(t, err, provider.OpList, provider.Transient)
}

func partialList(t *testing.T, h Harness) {
	for range 4 {
		h.buy(t, h.Spec(), h.Token())
	}
	h.Pass(h.Settle)
	h.script(t, provider.OpList, Fault{Mode: Partial})
	if l := h.list(t); l.Complete || len(l.Instances) >= 4 {
		t.Errorf("a list of %d of 4 machines calls itself complete (%v)", len(l.Instances), l.Complete)
	}
}

func reclaimed(t *testing.T, h Harness) {
	if h.Reclaim == nil {
		t.Skip("this seller cannot be told to reclaim")
	}
	token := h.Token()
	i := h.buy(t, h.Spec(), token)
	h.awaitState(t, token, provider.Running)
	h.Reclaim(i.ID)
	gone := h.awaitState(t, token, provider.Gone)
	if gone.EndedBy != "seller" || gone.Ended.Before(gone.Started) {
		t.Errorf("ended by %q at %s, started %s; want seller, in order", gone.EndedBy, gone.Ended, gone.Started)
	}
	if err := h.Seller.Terminate(t.Context(), i.ID); err != nil {
		t.Errorf("terminating what the seller took: %v", err)
	}
}

func meterRuns(t *testing.T, h Harness) {
	meter, ok := provider.As[provider.Meter](h.Seller)
	if !ok {
		t.Skip("this seller has no meter")
	}
	token := h.Token()
	i := h.buy(t, h.Spec(), token)
	var last events.MicroUSD
	for range 3 {
		r, err := meter.Metered(t.Context(), i.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Amount < last || r.Final {
			t.Errorf("meter %s (final %v) after %s", r.Amount, r.Final, last)
		}
		last = r.Amount
		h.Pass(time.Second)
	}
	if err := h.Seller.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	h.awaitState(t, token, provider.Gone)
	end, err := meter.Metered(t.Context(), i.ID)
	h.Pass(time.Second)
	later, err2 := meter.Metered(t.Context(), i.ID)
	if err != nil || err2 != nil || !end.Final || end != later || end.Amount < last {
		t.Errorf("after the end the meter reads %v and %v (%v, %v), want the same final amount", end, later, err, err2)
	}
	_, err = meter.Metered(t.Context(), "i-never-was")
	must(t, err, provider.OpMetered, provider.NotFound)
}

func rebidGone(t *testing.T, h Harness) {
	bidder, ok := provider.As[provider.Rebidder](h.Seller)
	if !ok {
		t.Skip("this seller's bids are fixed")
	}
	spec, token := h.Spec(), h.Token()
	i := h.buy(t, spec, token)
	if err := bidder.Rebid(t.Context(), i.ID, spec.MaxPrice+1); err != nil {
		t.Errorf("raising the bid: %v", err)
	}
	must(t, bidder.Rebid(t.Context(), i.ID, 1), provider.OpRebid, provider.PriceTooLow)
	if err := h.Seller.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	h.awaitState(t, token, provider.Gone)
	must(t, bidder.Rebid(t.Context(), i.ID, spec.MaxPrice), provider.OpRebid, provider.NotFound)
}

func noticeArrives(t *testing.T, h Harness) {
	notifier, ok := provider.As[provider.Notifier](h.Seller)
	if !ok || h.Warn == nil {
		t.Skip("this seller sends no notices, or cannot be told to")
	}
	i := h.buy(t, h.Spec(), h.Token())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var once sync.Once
	var got provider.Notice
	heard := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- notifier.Notices(ctx, func(n provider.Notice) { once.Do(func() { got = n; close(heard) }) })
	}()
	deadline := time.Now().Add(2 * time.Minute).Truncate(time.Second)
	for waiting := true; waiting; {
		h.Warn(i.ID, deadline)
		select {
		case <-heard:
			waiting = false
		case <-ctx.Done():
			t.Fatal("no notice was delivered")
		default:
			h.Pass(100 * time.Millisecond)
		}
	}
	if got.Instance != i.ID || !got.Deadline.Equal(deadline) {
		t.Errorf("notice %+v, want %s at %s", got, i.ID, deadline)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("listening ended with %v, want nil", err)
	}
}
