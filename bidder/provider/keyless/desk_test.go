package keyless_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/events"
)

// counter is a shop in memory.
type counter struct {
	mu         sync.Mutex
	machines   []keyless.Sight
	hidden     bool // nothing is listed
	incomplete bool
	buys       int
	fail       error             // of the next purchase, after the effect
	left       events.InstanceID // that comes with it
	destroyed  []events.InstanceID
}

func (c *counter) Look(context.Context) (keyless.Look, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hidden {
		return keyless.Look{Complete: !c.incomplete}, nil
	}
	return keyless.Look{Sights: append([]keyless.Sight(nil), c.machines...), Complete: !c.incomplete}, nil
}

func (c *counter) Buy(_ context.Context, _ provider.LaunchSpec, r keyless.Record) (events.InstanceID, keyless.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buys++
	id := events.InstanceID(rune('a' + c.buys - 1))
	r.Price, r.Terms = events.DollarPerHour, events.Terms{GrainS: 1}
	c.machines = append(c.machines, keyless.Sight{ID: id, State: provider.Running, Record: r})
	if c.fail != nil {
		err := c.fail
		c.fail = nil
		return c.left, r, err
	}
	return id, r, nil
}

func (c *counter) Destroy(_ context.Context, id events.InstanceID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.destroyed = append(c.destroyed, id)
	for n, m := range c.machines {
		if m.ID == id {
			c.machines = append(c.machines[:n:n], c.machines[n+1:]...)
			return nil
		}
	}
	return &provider.Error{Kind: provider.NotFound, Op: provider.OpTerminate}
}

func moment() events.Moment { return events.Moment{Control: time.Now(), Market: time.Now()} }

func desk(c *counter) *keyless.Desk {
	return keyless.Open(c, keyless.Config{Mark: "m", Now: moment})
}

func spec() provider.LaunchSpec {
	return provider.LaunchSpec{Pool: events.Pool{Seller: "s", Zone: "z"}, MaxPrice: 1, Labels: map[string]string{"env": "m"}}
}

func TestNothingIsBoughtWhileAnEarlierPurchaseMayTurnUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{hidden: true, fail: provider.Unanswered(provider.OpLaunch, errors.New("cut"))}
		d := desk(c)
		launch := func() error { _, err := d.Launch(t.Context(), spec(), "t"); return err }
		for n := range 10 { // over 180 s
			err := launch()
			if provider.KindOf(err) != provider.UnknownOutcome || errors.Is(err, provider.ErrHeldBack) != (n > 0) { // only the first was sent
				t.Fatalf("after %d looks: %v, want unknown", n, err)
			}
			time.Sleep(18 * time.Second)
		}
		if c.buys != 1 {
			t.Errorf("%d purchases while it was not settled, want 1", c.buys)
		}
		if err := launch(); err != nil || c.buys != 2 {
			t.Errorf("after three lists and the settling time: %v with %d purchases, want a second", err, c.buys)
		}
	})
}

func TestAnIncompleteListBuysNothing(t *testing.T) {
	t.Parallel()
	c := &counter{incomplete: true}
	_, err := desk(c).Launch(t.Context(), spec(), "t")
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Kind != provider.Transient || e.MaybeCreated || !errors.Is(err, provider.ErrHeldBack) || c.buys != 0 {
		t.Errorf("%+v with %d purchases, want it held back", e, c.buys)
	}
	if err := desk(c).Terminate(t.Context(), "x"); provider.KindOf(err) != provider.Transient || len(c.destroyed) != 0 {
		t.Errorf("ending what an incomplete list does not show: %v, destroyed %v", err, c.destroyed)
	}
}

func TestWhatComesWithARefusalIsDestroyedAndListedAsEnded(t *testing.T) {
	t.Parallel()
	c := &counter{fail: &provider.Error{Kind: provider.NoCapacity, Op: provider.OpLaunch, MaybeCreated: true}, left: "a"}
	d := desk(c)
	if _, err := d.Launch(t.Context(), spec(), "t"); provider.KindOf(err) != provider.NoCapacity {
		t.Fatal(err)
	}
	l, err := d.List(t.Context())
	i, ok := l.Find("t")
	if err != nil || !ok || i.State != provider.Gone || i.EndedBy != "us" || len(c.destroyed) != 1 {
		t.Errorf("listed %+v, destroyed %v", l, c.destroyed)
	}
}

func TestAMachineThatVanishesIsGoneAfterThreeLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		d := desk(c)
		if _, err := d.Launch(t.Context(), spec(), "t"); err != nil {
			t.Fatal(err)
		}
		look := func() provider.Instance {
			t.Helper()
			l, err := d.List(t.Context())
			i, ok := l.Find("t")
			if err != nil || !ok {
				t.Fatalf("listed %+v, %v", l, err)
			}
			return i
		}
		look()
		c.hidden = true
		time.Sleep(time.Minute)
		first := time.Now()
		for n := range 2 {
			if i := look(); i.State != provider.Running {
				t.Errorf("after %d lists without it: %s", n+1, i.State)
			}
			time.Sleep(time.Second)
		}
		if i := look(); i.State != provider.Gone || i.EndedBy != "seller" || !i.Ended.Equal(first) {
			t.Errorf("after three: %s by %q at %s, want gone by its seller at %s", i.State, i.EndedBy, i.Ended, first)
		}
		c.hidden = false
		time.Sleep(10 * time.Minute)
		if i := look(); i.State != provider.Running {
			t.Errorf("it is back and costs money, and is listed as %s", i.State)
		}
	})
}

func TestAnIdThatIsUsedAgainIsAnotherMachine(t *testing.T) {
	t.Parallel()
	c := &counter{}
	d := desk(c)
	if _, err := d.Launch(t.Context(), spec(), "t"); err != nil {
		t.Fatal(err)
	}
	c.machines[0].Record.Token = "u"
	l, err := d.List(t.Context())
	if err != nil || len(l.Instances) != 1 || l.Instances[0].Token != "u" {
		t.Errorf("listed %+v, %v; want the new one alone", l, err)
	}
}

func TestARecordSurvivesItsPacking(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := keyless.Record{
			Token: rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "token"), Mark: "m", Request: "d",
			Pool:  events.Pool{Seller: "s", Region: rapid.String().Draw(t, "region"), Zone: "z", Gang: 1},
			Price: events.PerInstanceHour(rapid.Int64().Draw(t, "price")), Terms: events.Terms{GrainS: 1},
			Started: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
			Labels:  map[string]string{"env": "m", rapid.StringMatching(`[ -~]*`).Draw(t, "k"): rapid.StringMatching(`[ -~]*`).Draw(t, "v")},
		}
		r.Pool.Region = strings.ToValidUTF8(r.Pool.Region, "?")
		packed, err := r.Pack()
		if err != nil {
			t.Fatal(err)
		}
		got, err := keyless.Unpack(packed)
		if err != nil || !got.Started.Equal(r.Started) || got.Pool != r.Pool || got.Price != r.Price || !maps.Equal(got.Labels, r.Labels) || got.Token != r.Token {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	good, err := keyless.Record{Token: "t", Mark: "m"}.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("////")
	f.Add(strings.Repeat("A", 1000))
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := keyless.Unpack(s); err == nil && (r.Token == "" || r.Mark == "") {
			t.Errorf("%q is %+v", s, r)
		}
	})
}

func TestABombIsNotUnpacked(t *testing.T) {
	t.Parallel()
	packed, err := keyless.Record{Token: "t", Mark: "m", Labels: map[string]string{"x": string(bytes.Repeat([]byte("a"), 1<<20))}}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyless.Unpack(packed); err == nil {
		t.Errorf("%d characters unpacked to more than 64 KiB", len(packed))
	}
}
