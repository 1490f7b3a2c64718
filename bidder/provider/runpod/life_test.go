package runpod_test

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/runpod/runpodfake"
	"github.com/spotferry/spotferry/events"
)

func TestARepeatAfterALostAnswerBuysNothing(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{Visible: 300 * time.Millisecond}, runpodfake.Config{}, nil)
	spec := r.spec(t)
	r.backend.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Lost})
	for n := range 2 { // the second is not sent: the pod may only be late in lists
		_, err := r.client.Launch(t.Context(), spec, "lease-1")
		if provider.KindOf(err) != provider.UnknownOutcome {
			t.Fatalf("launch %d: %v, want an unknown outcome", n+1, err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		i, err := r.client.Launch(t.Context(), spec, "lease-1")
		if err == nil && i.Token == "lease-1" {
			break
		}
		if provider.KindOf(err) != provider.UnknownOutcome || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", i, err)
		}
	}
	if r.fake.Creates() != 1 {
		t.Errorf("%d creates, want 1", r.fake.Creates())
	}
}

func TestANewProcessKnowsWhatLives(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, runpodfake.Config{}, nil)
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
	r := open(t, providertest.Config{}, runpodfake.Config{}, nil)
	theirs, err := r.another(t, "env-10").Launch(t.Context(), r.spec(t), "lease-1") // env-1 begins its mark
	if err != nil {
		t.Fatal(err)
	}
	r.backend.Foreign(podOffer(events.OnDemand).Pool, "lease-1", map[string]string{"env": "env-1"}, true) // a token is no proof
	if l := list(t, r.client); len(l.Instances) != 0 || !l.Complete {
		t.Fatalf("listed %+v", l)
	}
	for n := range 6 {
		if err := r.client.Terminate(t.Context(), events.InstanceID(fmt.Sprintf("pod%08d", n))); err != nil {
			t.Fatal(err)
		}
	}
	if r.backend.ForeignKills() != 0 || len(r.backend.Live()) != 1 {
		t.Errorf("%d strangers ended, %d of the other mark alive; want 0 and 1", r.backend.ForeignKills(), len(r.backend.Live()))
	}
	if mine := r.buy(t, "lease-1"); mine.ID == theirs.ID {
		t.Error("the other mark's pod was taken for ours")
	}
}

func TestA400IsNoCapacityUntilEveryPoolSaysSo(t *testing.T) {
	t.Parallel()
	two := podOffer(events.OnDemand)
	two.Pool.InstanceType, two.GPU.Count = "p3.4xlarge", 2
	r := open(t, providertest.Config{Offers: []events.Offer{podOffer(events.OnDemand), two}}, runpodfake.Config{}, nil)
	offers, err := r.client.Offers(t.Context())
	if err != nil || len(offers) != 2 {
		t.Fatalf("%d offers, %v", len(offers), err)
	}
	launch := func(n int, token string) error {
		_, err := r.client.Launch(t.Context(), providertest.SampleSpec(offers[n]), token)
		return err
	}
	r.fake.Vague(2)
	for n, want := range []provider.Kind{provider.NoCapacity, provider.NoCapacity} { // one pool twice is one pool
		if err := launch(0, fmt.Sprint("lease-", n)); provider.KindOf(err) != want {
			t.Errorf("answer %d: %v, want %s", n, err, want)
		}
	}
	if err := launch(0, "lease-3"); err != nil {
		t.Fatal(err) // which shows that it was not the request
	}
	r.fake.Vague(2)
	if err := launch(1, "lease-4"); provider.KindOf(err) != provider.NoCapacity {
		t.Errorf("one of two pools: %v, want no capacity", err)
	}
	if err := launch(0, "lease-5"); provider.KindOf(err) != provider.Invalid {
		t.Errorf("both pools: %v, want invalid", err)
	}
}

func TestAnInterruptiblePodIsStoppedByItsSeller(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{Offers: []events.Offer{podOffer(events.Bid)}}, runpodfake.Config{}, nil)
	if offers, err := r.client.Offers(t.Context()); err != nil || len(offers) != 0 {
		t.Fatalf("offered without being asked for: %+v, %v", offers, err)
	}
	cfg := r.config("env-1")
	cfg.Spot = true
	r.client = with(t, cfg)
	i := r.buy(t, "lease-1")
	b, _ := r.fake.Backend(i.ID)
	list(t, r.client)
	r.backend.Kill(b, "seller")
	if got, _ := list(t, r.client).Find("lease-1"); got.State != provider.Stopping || got.EndedBy != "seller" {
		t.Errorf("it is %s by %q, want stopping by its seller: its disk costs money", got.State, got.EndedBy)
	}
	if err := r.client.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if got, _ := list(t, r.client).Find("lease-1"); got.State != provider.Gone || got.EndedBy != "seller" {
		t.Errorf("it is %s by %q, want gone by its seller", got.State, got.EndedBy)
	}
}

func TestAPodThatNeverComesUpIsPending(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, runpodfake.Config{Stuck: true}, nil)
	i := r.buy(t, "lease-1")
	if got, _ := list(t, r.client).Find("lease-1"); got.State != provider.Pending || got.ID != i.ID {
		t.Errorf("it is %s, want pending", got.State)
	}
}

func TestACrashBetweenPurchaseAndRecordBuysNothingTwice(t *testing.T) {
	t.Parallel()
	const crashes = 100
	r := open(t, providertest.Config{}, runpodfake.Config{}, nil)
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
