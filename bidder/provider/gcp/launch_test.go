package gcp_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func (p *project) spec() provider.LaunchSpec {
	return providertest.SampleSpec(a100("us-central1-a", events.Spot, 1_100_000_000))
}

func (p *project) buy(token string) provider.Instance {
	p.t.Helper()
	i, err := p.client.Launch(p.t.Context(), p.spec(), token)
	if err != nil {
		p.t.Fatal(err)
	}
	return i
}

// until looks until a machine is as it should be.
func until(t *testing.T, c *gcp.Client, token string, want provider.State) provider.Instance {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		l, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i, ok := l.Find(token); ok && i.State == want && l.Complete {
			return i
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not %s: %+v", token, want, l)
		}
	}
}

// An insertion is answered before there is a machine; that there is none for lack of
// capacity comes out later, with a 200.
func TestAnOperationThatFailsLateIsARefusal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault providertest.Fault
		kind  provider.Kind
		scope string
		code  string
		maybe bool
	}{
		{"there is no capacity", providertest.Fault{Mode: providertest.Fail, Kind: provider.NoCapacity}, provider.NoCapacity, "pool", "ZONE_RESOURCE_POOL_EXHAUSTED", false},
		{"there is no quota", providertest.Fault{Mode: providertest.Fail, Kind: provider.Quota}, provider.Quota, "region", "QUOTA_EXCEEDED", false},
		{"there is no capacity, and a machine", providertest.Fault{Mode: providertest.FailAfter, Kind: provider.NoCapacity}, provider.NoCapacity, "pool", "ZONE_RESOURCE_POOL_EXHAUSTED", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := open(t, world{early: 3})
			p.behind.Script(provider.OpLaunch, tc.fault)
			_, err := p.client.Launch(t.Context(), p.spec(), p.token())
			e, ok := errors.AsType[*provider.Error](err)
			if !ok || e.Kind != tc.kind || e.Scope != tc.scope || e.Code != tc.code || e.MaybeCreated != tc.maybe {
				t.Errorf("Launch = %+v", err)
			}
			if (e.Pool != nil) != (tc.scope == "pool") {
				t.Errorf("pool %v with scope %s", e.Pool, e.Scope)
			}
		})
	}
}

func TestARequestThatIsRefusedTodayFindsTheMachineOfYesterday(t *testing.T) {
	t.Parallel()
	p := open(t, world{change: func(c *gcp.Config) { c.Reread = time.Nanosecond }})
	token := p.token()
	first := p.buy(token)
	pool := p.spec().Pool
	p.behind.SetPrice(pool, 9*events.DollarPerHour)
	if _, err := p.client.Launch(t.Context(), p.spec(), p.token()); provider.KindOf(err) != provider.PriceTooLow {
		t.Errorf("another token at the new price: %v", err)
	}
	again, err := p.client.Launch(t.Context(), p.spec(), token)
	if err != nil || again.ID != first.ID || again.Price() != first.Price() {
		t.Errorf("the token gave %+v, %v; want %+v", again, err, first)
	}
	p.behind.Remove(pool)
	if again, err = p.client.Launch(t.Context(), p.spec(), token); err != nil || again.ID != first.ID {
		t.Errorf("when the pool was gone the token gave %+v, %v", again, err)
	}
}

func TestARepetitionLongAfterTheEndBuysNothing(t *testing.T) {
	t.Parallel()
	p := open(t, world{})
	token := p.token()
	i := p.buy(token)
	until(t, p.client, token, provider.Running)
	if err := p.client.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	until(t, p.client, token, provider.Gone)
	inserted := p.fake.Calls("compute.instances.create")
	again, err := p.again().Launch(t.Context(), p.spec(), token)
	if err != nil || again.ID != i.ID || again.State != provider.Gone || again.EndedBy != "us" {
		t.Errorf("the token gave %+v, %v", again, err)
	}
	if p.fake.Calls("compute.instances.create") != inserted {
		t.Error("an insertion was sent for a token whose machine has ended")
	}
}

// Whatever is not known of a launch that was not sent leaves no doubt behind.
func TestALaunchWhosePriceCannotBeReadWasNotSent(t *testing.T) {
	t.Parallel()
	p := open(t, world{})
	p.behind.Script(provider.OpOffers, providertest.Fault{Mode: providertest.Fail, Kind: provider.Transient})
	_, err := p.client.Launch(t.Context(), p.spec(), p.token())
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Kind != provider.Transient || e.MaybeCreated || !errors.Is(err, provider.ErrHeldBack) || e.Op != provider.OpLaunch {
		t.Errorf("Launch = %+v", err)
	}
	if p.fake.Calls("compute.instances.create") != 0 {
		t.Error("an insertion was sent")
	}
	if _, err = p.client.Launch(t.Context(), p.spec(), p.token()); err != nil {
		t.Errorf("the next launch: %v", err)
	}
}

func TestWrongKeysAreAMatterForAPerson(t *testing.T) {
	t.Parallel()
	p := open(t, world{change: func(c *gcp.Config) { c.AccessToken = "expired" }})
	ctx := t.Context()
	_, launch := p.client.Launch(ctx, p.spec(), p.token())
	_, list := p.client.List(ctx)
	_, offers := p.client.Offers(ctx)
	gone := p.client.Terminate(ctx, "us-central1-a/"+events.InstanceID(nameOf(p)))
	for op, err := range map[string]error{provider.OpLaunch: launch, provider.OpList: list, provider.OpOffers: offers, provider.OpTerminate: gone} {
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Kind != provider.Auth || e.Op != op || e.MaybeCreated {
			t.Errorf("%s = %+v", op, err)
		}
		if strings.Contains(err.Error(), "expired") {
			t.Errorf("%s tells the token: %v", op, err)
		}
	}
}

// nameOf is a name that would be a machine of the project's environment.
func nameOf(p *project) string {
	q := open(p.t, world{mark: p.configs.Mark})
	_, name, _ := strings.Cut(string(q.buy("01jname-1-1").ID), "/")
	return name
}

func TestManyZonesAndPagesAreReadToTheEnd(t *testing.T) {
	t.Parallel()
	var offers []events.Offer
	for _, zone := range []string{"asia-east1-a", "us-central1-a", "us-central1-b", "us-central1-c", "europe-west4-b"} {
		offers = append(offers, a100(zone, events.Spot, 1_100_000_000), a100(zone, events.OnDemand, 3_700_000_000))
	}
	p := open(t, world{page: 1, offers: offers})
	got, err := p.client.Offers(t.Context())
	if err != nil || len(got) != len(offers) {
		t.Fatalf("%d offers, %v; want %d", len(got), err, len(offers))
	}
	for _, o := range got {
		n := slices.IndexFunc(offers, func(x events.Offer) bool { return x.Pool == o.Pool })
		if n < 0 || offers[n].Price != o.Price || offers[n].GPU.Model != o.GPU.Model || offers[n].VCPU != o.VCPU || offers[n].Terms != o.Terms {
			t.Errorf("offered as %+v", o)
		}
		if o.Country == "" || o.NoticeKind != events.NoticeGCP || o.Egress != 120_000 || o.Storage != 100_000 {
			t.Errorf("without what is known of the region: %+v", o)
		}
	}
}

func TestALaunchStopsWaitingWithItsContext(t *testing.T) {
	t.Parallel()
	p := open(t, world{early: 1 << 30})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := p.client.Launch(ctx, p.spec(), p.token())
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Kind != provider.UnknownOutcome || !e.MaybeCreated {
		t.Errorf("Launch = %+v", err)
	}
}
