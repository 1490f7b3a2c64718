package vast_test

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/vast/vastfake"
	"github.com/spotferry/spotferry/events"
)

func TestAMachineThatIsOutbidIsItsSellersDoing(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, vastfake.Config{One: true}, nil)
	i := r.buy(t, "lease-1")
	outbid := func() {
		b, _ := r.fake.Backend(i.ID)
		r.backend.Kill(b, "seller")
	}
	want := func(state provider.State, by string) provider.Instance {
		t.Helper()
		got, ok := list(t, r.client).Find("lease-1")
		if !ok || got.State != state || got.EndedBy != by {
			t.Fatalf("found %v: %s by %q, want %s by %q", ok, got.State, got.EndedBy, state, by)
		}
		return got
	}
	want(provider.Running, "")
	outbid()
	want(provider.Stopping, "seller")
	if err := r.fake.Resume(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	want(provider.Running, "") // by itself, without being asked
	outbid()
	before := want(provider.Stopping, "seller")
	paused := time.Now()
	if !before.Ended.IsZero() {
		t.Error("a paused machine has ended, though it may run again")
	}
	if err := r.client.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	gone := want(provider.Gone, "seller")
	if gone.Ended.After(paused) || gone.Ended.Before(gone.Started) {
		t.Errorf("ended %s, want when it was seen paused, before %s", gone.Ended, paused)
	}
}

func TestARepeatAfterALostAnswerBuysNothing(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{Visible: 300 * time.Millisecond}, vastfake.Config{}, nil)
	spec := r.spec(t)
	r.backend.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Lost})
	for n := range 2 { // the second is not sent: the machine may only be late in lists
		_, err := r.client.Launch(t.Context(), spec, "lease-1")
		if provider.KindOf(err) != provider.UnknownOutcome {
			t.Fatalf("launch %d: %v, want an unknown outcome", n+1, err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		i, err := r.client.Launch(t.Context(), spec, "lease-1")
		if err == nil {
			if i.Token != "lease-1" {
				t.Errorf("found %+v", i)
			}
			break
		}
		if provider.KindOf(err) != provider.UnknownOutcome || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if r.fake.Creates() != 1 {
		t.Errorf("%d creates, want 1", r.fake.Creates())
	}
}

func TestANewProcessKnowsWhatLives(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, vastfake.Config{}, nil)
	spec := r.spec(t)
	spec.Labels["note"] = "any text: \"ü\n\""
	born, err := r.client.Launch(t.Context(), spec, "lease-1")
	if err != nil {
		t.Fatal(err)
	}
	old, _ := list(t, r.client).Find("lease-1")
	again := r.another(t, "env-1")
	i, ok := list(t, again).Find("lease-1")
	if !ok || !reflect.DeepEqual(i, old) || i.ID != born.ID || !i.Started.Equal(born.Started) || i.Price() != born.Price() {
		t.Errorf("a new process sees %+v, the old one %+v", i, old)
	}
	if same, err := again.Launch(t.Context(), spec, "lease-1"); err != nil || same.ID != born.ID {
		t.Errorf("a repeat gave %s, %v; want %s", same.ID, err, born.ID)
	}
	spec.UserData = []byte("other")
	if _, err := again.Launch(t.Context(), spec, "lease-1"); provider.KindOf(err) != provider.Conflict {
		t.Errorf("another request under the token: %v, want a conflict", err)
	}
	if err := again.Terminate(t.Context(), born.ID); err != nil {
		t.Fatal(err)
	}
	if gone, _ := list(t, again).Find("lease-1"); gone.State != provider.Gone || gone.EndedBy != "us" {
		t.Errorf("it is %s by %q, want gone by us", gone.State, gone.EndedBy)
	}
	if r.fake.Creates() != 1 || len(r.backend.Live()) != 0 {
		t.Errorf("%d creates, %d alive; want 1 and none", r.fake.Creates(), len(r.backend.Live()))
	}
}

func TestOtherMarksAndStrangersAreNeitherListedNorTouched(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, vastfake.Config{}, nil)
	theirs, err := r.another(t, "env-10").Launch(t.Context(), r.spec(t), "lease-1") // env-1 begins its mark
	if err != nil {
		t.Fatal(err)
	}
	r.backend.Foreign(bidOffer("us-west-2").Pool, "sf1-env-1-somebody", nil, true)
	if l := list(t, r.client); len(l.Instances) != 0 || !l.Complete {
		t.Fatalf("listed %+v", l)
	}
	for id := 5_000_000; id < 5_000_060; id++ { // every id there is
		if err := r.client.Terminate(t.Context(), events.InstanceID(strconv.Itoa(id))); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.client.Rebid(t.Context(), theirs.ID, 2*price); provider.KindOf(err) != provider.NotFound {
		t.Errorf("their bid: %v, want not found", err)
	}
	if r.backend.ForeignKills() != 0 || len(r.backend.Live()) != 1 {
		t.Errorf("%d strangers ended, %d of the other mark alive; want 0 and 1", r.backend.ForeignKills(), len(r.backend.Live()))
	}
	mine := r.buy(t, "lease-1") // the same token under another mark is another machine
	if mine.ID == theirs.ID {
		t.Error("the other mark's machine was taken for ours")
	}
}

func TestAnOfferIdThatHasExpiredIsSearchedAgain(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, vastfake.Config{}, nil)
	spec := r.spec(t)
	r.fake.Expire()
	if _, err := r.client.Launch(t.Context(), spec, "lease-1"); err != nil {
		t.Errorf("an id that has expired: %v", err)
	}
	if _, err := r.another(t, "env-1").Launch(t.Context(), spec, "lease-2"); err != nil {
		t.Errorf("a process that never searched: %v", err)
	}
	r.backend.Remove(bidOffer("us-west-2").Pool)
	r.fake.Expire()
	if _, err := r.client.Launch(t.Context(), spec, "lease-3"); provider.KindOf(err) != provider.OfferGone {
		t.Errorf("what is not sold any more: %v, want offer gone", err)
	}
}

func TestAStoppedInstanceOfARefusedBidIsDestroyed(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, vastfake.Config{LeaveStopped: true}, nil)
	spec := r.spec(t)
	r.backend.SetPrice(bidOffer("us-west-2").Pool, price*3/2) // between the search and the bid
	_, err := r.client.Launch(t.Context(), spec, "lease-1")
	if provider.KindOf(err) != provider.PriceTooLow {
		t.Fatalf("a low bid: %v", err)
	}
	spec.MaxPrice = 2 * price
	if i, err := r.client.Launch(t.Context(), spec, "lease-2"); err != nil || i.Price() != price*3/2 {
		t.Errorf("the next bid is %s, %v; want the price of now", i.Price(), err)
	}
	if err := r.client.Terminate(t.Context(), mustFind(t, r, "lease-2").ID); err != nil {
		t.Fatal(err)
	}
	l := list(t, r.another(t, "env-1"))
	if r.fake.Creates() != 2 || len(l.Instances) != 0 {
		t.Errorf("%d were left by the refusal, a new process still lists %+v", r.fake.Creates(), l.Instances)
	}
}

func mustFind(t *testing.T, r *rig, token string) provider.Instance {
	t.Helper()
	i, ok := list(t, r.client).Find(token)
	if !ok {
		t.Fatalf("%s is not listed", token)
	}
	return i
}

func TestABidIsPricedAndCancelledByTheBook(t *testing.T) {
	t.Parallel()
	var bodies []string
	r := open(t, providertest.Config{}, vastfake.Config{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.URL.Path, "/asks/") {
				bodies = append(bodies, read(q))
			}
			next.ServeHTTP(w, q)
		})
	})
	cfg := r.config("env-1")
	cfg.BidOverPct = 10
	r.client = openWith(t, cfg)
	if i := r.buy(t, "lease-1"); i.Price() != price*11/10 {
		t.Errorf("bid %s, want a tenth more than the least, %s", i.Price(), price*11/10)
	}
	if len(bodies) != 1 || !strings.Contains(bodies[0], `"price":1.100000000`) || !strings.Contains(bodies[0], `"cancel_unavail":true`) || !strings.Contains(bodies[0], `"label":"sf1:env-1:lease-1"`) {
		t.Errorf("asked %q", bodies)
	}
}

func TestACrashBetweenPurchaseAndRecordBuysNothingTwice(t *testing.T) {
	t.Parallel()
	const crashes = 100
	r := open(t, providertest.Config{}, vastfake.Config{}, nil)
	spec := r.spec(t)
	for n := range crashes {
		token := "lease-" + strconv.Itoa(n)
		r.backend.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Lost})
		if _, err := r.client.Launch(t.Context(), spec, token); provider.KindOf(err) != provider.UnknownOutcome {
			t.Fatalf("an answer that was lost: %v", err)
		}
		r.client = r.another(t, "env-1") // the process died, and another does the same again
		i, err := r.client.Launch(t.Context(), spec, token)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.client.Terminate(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
	}
	if r.fake.Creates() != crashes || len(r.backend.Live()) != 0 {
		t.Errorf("%d purchases, %d left; want %d and none", r.fake.Creates(), len(r.backend.Live()), crashes)
	}
}
