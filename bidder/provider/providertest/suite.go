package providertest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Harness is a seller to be checked, freshly made, with what the checks need to
// know of it. Optional fields that are nil skip the checks that need them, with a message.
type Harness struct {
	Seller provider.Provider

	// Spec returns a request that can be bought at the moment, with labels and user data.
	Spec func() provider.LaunchSpec
	// Token returns an idempotency key not used before; nil: lease ids of one made-up job.
	Token func() string
	// Pass lets control time pass: time.Sleep, in a synctest bubble or outside.
	Pass func(time.Duration)
	// Settle is how long a list may lag behind a launch or an end; 5 s if zero.
	Settle time.Duration

	// Script makes the next calls of an operation fail; optional.
	Script func(op string, faults ...Fault)
	// Reclaim makes the seller take an instance back now; optional.
	Reclaim func(events.InstanceID)
	// Warn makes the seller announce that it will; optional.
	Warn func(id events.InstanceID, deadline time.Time)
	// Bought counts the machines there ever were by the seller's own books; optional.
	Bought func() int
	// NA says by the name of a check why the seller cannot be held to it. Kinds are
	// those of refusals that its protocol has no words for, each with the reason.
	NA    map[string]string
	Kinds map[provider.Kind]string
	// Mute says that its refusals do not tell how long to wait.
	Mute bool
}

// Check is one promise of the contract.
type Check struct {
	Name  string
	Check func(*testing.T, Harness)
}

// Run holds a seller against the whole contract, each check on a fresh one.
func Run(t *testing.T, open func(*testing.T) Harness) {
	for _, c := range Suite() {
		t.Run(c.Name, func(t *testing.T) { c.hold(t, open(t).withDefaults()) })
	}
}

func (c Check) hold(t *testing.T, h Harness) {
	t.Helper()
	if why := h.NA[c.Name]; why != "" {
		t.Skip("n/a: " + why)
	}
	c.Check(t, h)
}

// RunInBubble is Run with each check in a synctest bubble of its own: the seller
// must be made, and everything it starts must have ended, inside.
func RunInBubble(t *testing.T, open func(*testing.T) Harness) {
	for _, c := range Suite() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.hold(t, open(t).withDefaults()) })
		})
	}
}

// Suite returns every check.
func Suite() []Check {
	return []Check{
		{"everything offered has a place, a price and terms", offersAreWhole},
		{"a machine carries what was asked for it", launchCarries},
		{"the same token names the same machine", sameToken},
		{"concurrent repeats of a token buy one machine", concurrentTokens},
		{"a token used for another request is a conflict", tokenConflict},
		{"a machine above the highest price is not bought", priceAboveMax},
		{"a pool that is not sold is refused", unknownPool},
		{"a request without a usable token or price is invalid", invalidRequests},
		{"a new machine appears in a complete list", listShows},
		{"a list shows every machine of ours", listIsComplete},
		{"a terminated machine ends once, with times in order", terminateEnds},
		{"terminating what is gone, or never was, is not an error", terminateGone},
		{"the token of an ended machine still names it", tokenOfEnded},
		{"a call on an ended context does nothing and says so", endedContext},
		{"a launch cut off after it was sent is found by its token", cutOffLaunch},
		{"a launch whose answer was lost is found by its token", lostLaunch},
		{"a repeat after a lost answer returns the machine", repeatAfterLoss},
		{"every kind of refusal arrives as itself", kindsArrive},
		{"a refusal that came after the effect says that something may exist", refusalAfterEffect},
		{"garbage is not mistaken for an answer", garbage},
		{"a list with a page missing says so", partialList},
		{"a reclaimed machine was ended by its seller", reclaimed},
		{"the meter never runs backwards and ends final", meterRuns},
		{"a changed bid is refused for what is gone", rebidGone},
		{"a notice is delivered", noticeArrives},
	}
}

func (h Harness) withDefaults() Harness {
	if h.Token == nil {
		n := 0
		h.Token = func() string {
			n++
			return string(events.JobID("01jconformance").Lease(1, n))
		}
	}
	if h.Settle == 0 {
		h.Settle = 5 * time.Second
	}
	return h
}

// patience bounds calls that are expected to succeed.
const patience = 2 * time.Minute

func (h Harness) buy(t *testing.T, spec provider.LaunchSpec, token string) provider.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	i, err := h.Seller.Launch(ctx, spec, token)
	if err != nil {
		t.Fatalf("launching %s: %v", token, err)
	}
	return i
}

// list looks once, and fails the test if that does not work.
func (h Harness) list(t *testing.T) provider.Listing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := h.Seller.List(ctx)
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	return l
}

// await looks until ok, for as long as the seller's lists may lag.
func (h Harness) await(t *testing.T, what string, ok func(provider.Listing) bool) provider.Listing {
	t.Helper()
	for waited := time.Duration(0); ; waited += h.Settle / 10 {
		l := h.list(t)
		if l.Complete && ok(l) {
			return l
		}
		if waited > h.Settle {
			t.Fatalf("no complete list within %s shows %s; the last is %+v", h.Settle, what, l)
		}
		h.Pass(h.Settle / 10)
	}
}

func (h Harness) awaitState(t *testing.T, token string, want provider.State) provider.Instance {
	t.Helper()
	l := h.await(t, fmt.Sprintf("%s %s", token, want), func(l provider.Listing) bool {
		i, ok := l.Find(token)
		return ok && i.State == want
	})
	i, _ := l.Find(token)
	return i
}

// must fails unless err is an *Error of this kind and operation.
func must(t *testing.T, err error, op string, want ...provider.Kind) *provider.Error {
	t.Helper()
	e, ok := err.(*provider.Error)
	if !ok {
		t.Fatalf("%s returned %T %v; every error must be a *provider.Error", op, err, err)
	}
	if e.Op != op {
		t.Errorf("Op = %q, want %q", e.Op, op)
	}
	for _, k := range want {
		if e.Kind == k {
			return e
		}
	}
	t.Fatalf("%s: kind %s, want one of %v", op, e.Kind, want)
	return nil
}
