package providertest

import (
	"bytes"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

func offersAreWhole(t *testing.T, h Harness) {
	offers, err := h.Seller.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(offers) == 0 {
		t.Fatal("nothing is offered")
	}
	for _, o := range offers {
		p := o.Pool
		if p.Seller == "" || p.Region == "" || p.Zone == "" || p.InstanceType == "" || p.Capacity == "" {
			t.Errorf("pool %+v has an empty field", p)
		}
		if o.Price <= 0 || o.Terms.GrainS < 1 || o.Market.IsZero() || o.Seen.IsZero() || o.GPU.Count < 1 {
			t.Errorf("offer in %s has no price, grain, time or GPU: %+v", p, o)
		}
	}
}

func launchCarries(t *testing.T, h Harness) {
	spec, token := h.Spec(), h.Token()
	i := h.buy(t, spec, token)
	if i.ID == "" || i.Token != token || i.Pool != spec.Pool {
		t.Errorf("instance %q has token %q in %s, want %q in %s", i.ID, i.Token, i.Pool, token, spec.Pool)
	}
	if len(i.Prices) == 0 || i.Price() <= 0 || i.Price() > spec.MaxPrice {
		t.Errorf("bought at %v, want a price up to %s", i.Prices, spec.MaxPrice)
	}
	if i.Terms.GrainS < 1 || i.Started.IsZero() || !i.Ended.IsZero() {
		t.Errorf("terms %+v, started %s, ended %s; want terms, a start and no end", i.Terms, i.Started, i.Ended)
	}
	if i.State != provider.Pending && i.State != provider.Running {
		t.Errorf("state %q, want pending or running", i.State)
	}
	seen := h.await(t, "the machine", func(l provider.Listing) bool { _, ok := l.Find(token); return ok })
	listed, _ := seen.Find(token)
	for _, x := range []provider.Instance{i, listed} {
		if !maps.Equal(x.Labels, spec.Labels) {
			t.Errorf("labels %v, want %v", x.Labels, spec.Labels)
		}
	}
}

func sameToken(t *testing.T, h Harness) {
	spec, token := h.Spec(), h.Token()
	first := h.buy(t, spec, token)
	for range 3 {
		spec.UserData = bytes.Clone(spec.UserData)
		if again := h.buy(t, spec, token); again.ID != first.ID || !again.Started.Equal(first.Started) {
			t.Errorf("repeat gave %s started %s, want %s started %s", again.ID, again.Started, first.ID, first.Started)
		}
	}
	other := h.buy(t, spec, h.Token())
	if other.ID == first.ID {
		t.Errorf("another token gave the same machine %s", other.ID)
	}
	h.bought(t, 2)
}

func concurrentTokens(t *testing.T, h Harness) {
	spec, token := h.Spec(), h.Token()
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[events.InstanceID]int{}
	for range 16 {
		all.Go(func() {
			i, err := h.Seller.Launch(t.Context(), spec, token)
			if err != nil {
				t.Errorf("concurrent launch: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[i.ID]++
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Errorf("16 launches with one token gave machines %v", ids)
	}
	h.bought(t, 1)
}

func tokenConflict(t *testing.T, h Harness) {
	spec, token := h.Spec(), h.Token()
	h.buy(t, spec, token)
	other := spec
	other.UserData = []byte(`{"job":"another"}`)
	_, err := h.Seller.Launch(t.Context(), other, token)
	must(t, err, provider.OpLaunch, provider.Conflict)
	h.bought(t, 1)
}

func priceAboveMax(t *testing.T, h Harness) {
	spec := h.Spec()
	spec.MaxPrice = 1
	_, err := h.Seller.Launch(t.Context(), spec, h.Token())
	if e := must(t, err, provider.OpLaunch, provider.PriceTooLow); e.MaybeCreated {
		t.Error("a refusal for the price says that something may exist")
	}
	h.bought(t, 0)
}

func unknownPool(t *testing.T, h Harness) {
	spec := h.Spec()
	spec.Pool.Zone, spec.Pool.InstanceType = "nowhere-1a", "imaginary.24xlarge"
	_, err := h.Seller.Launch(t.Context(), spec, h.Token())
	must(t, err, provider.OpLaunch, provider.OfferGone, provider.NoCapacity, provider.Invalid)
	h.bought(t, 0)
}

func invalidRequests(t *testing.T, h Harness) {
	spec := h.Spec()
	for _, token := range []string{"", "a.b", "has space", "*", ">", "../../etc"} {
		_, err := h.Seller.Launch(t.Context(), spec, token)
		must(t, err, provider.OpLaunch, provider.Invalid)
	}
	for _, price := range []events.PerInstanceHour{0, -1} {
		spec.MaxPrice = price
		_, err := h.Seller.Launch(t.Context(), spec, h.Token())
		must(t, err, provider.OpLaunch, provider.Invalid, provider.PriceTooLow)
	}
	h.bought(t, 0)
}

func listShows(t *testing.T, h Harness) {
	token := h.Token()
	i := h.buy(t, h.Spec(), token)
	l := h.await(t, token, func(l provider.Listing) bool { _, ok := l.Find(token); return ok })
	got, _ := l.Find(token)
	if got.ID != i.ID || got.Pool != i.Pool || !got.Started.Equal(i.Started) || got.Price() != i.Price() {
		t.Errorf("listed %+v, launched %+v", got, i)
	}
	if l.At.IsZero() {
		t.Error("the list does not say when it was taken")
	}
}

func listIsComplete(t *testing.T, h Harness) {
	const machines = 5
	tokens := map[string]bool{}
	for range machines {
		token := h.Token()
		h.buy(t, h.Spec(), token)
		tokens[token] = true
	}
	h.await(t, "all five machines once", func(l provider.Listing) bool {
		seen := map[string]int{}
		for _, i := range l.Instances {
			if tokens[i.Token] {
				seen[i.Token]++
			}
		}
		for _, n := range seen {
			if n != 1 {
				t.Fatalf("a machine is listed %d times", n)
			}
		}
		return len(seen) == machines
	})
}

func terminateEnds(t *testing.T, h Harness) {
	token := h.Token()
	born := h.buy(t, h.Spec(), token)
	h.awaitState(t, token, provider.Running)
	if err := h.Seller.Terminate(t.Context(), born.ID); err != nil {
		t.Fatal(err)
	}
	gone := h.awaitState(t, token, provider.Gone)
	if gone.EndedBy != "us" || gone.Ended.Before(gone.Started) {
		t.Errorf("ended by %q at %s after a start at %s; want us, in order", gone.EndedBy, gone.Ended, gone.Started)
	}
	h.Pass(time.Second)
	again := h.awaitState(t, token, provider.Gone)
	if !again.Ended.Equal(gone.Ended) || !again.Started.Equal(born.Started) {
		t.Errorf("times moved from %s..%s to %s..%s", gone.Started, gone.Ended, again.Started, again.Ended)
	}
	for n := 1; n < len(again.Prices); n++ {
		if !again.Prices[n].From.After(again.Prices[n-1].From) {
			t.Errorf("prices are not oldest first: %v", again.Prices)
		}
	}
}

func terminateGone(t *testing.T, h Harness) {
	token := h.Token()
	i := h.buy(t, h.Spec(), token)
	for range 3 {
		if err := h.Seller.Terminate(t.Context(), i.ID); err != nil {
			t.Fatalf("terminating %s again: %v", i.ID, err)
		}
	}
	h.awaitState(t, token, provider.Gone)
	for _, id := range []events.InstanceID{i.ID, "i-0123456789abcdef0"} {
		if err := h.Seller.Terminate(t.Context(), id); err != nil {
			t.Errorf("terminating %s, which is gone: %v", id, err)
		}
	}
}

func tokenOfEnded(t *testing.T, h Harness) {
	spec, token := h.Spec(), h.Token()
	i := h.buy(t, spec, token)
	if err := h.Seller.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	h.awaitState(t, token, provider.Gone)
	again := h.buy(t, spec, token)
	if again.ID != i.ID || again.State != provider.Gone || again.Ended.IsZero() {
		t.Errorf("the token gave %s %s, want %s gone", again.ID, again.State, i.ID)
	}
	h.bought(t, 1)
}

func (h Harness) bought(t *testing.T, want int) {
	t.Helper()
	if h.Bought == nil {
		return
	}
	if got := h.Bought(); got != want {
		t.Errorf("the seller sold %d machines, want %d", got, want)
	}
}
