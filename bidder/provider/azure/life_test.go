package azure

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/azure/azurefake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// left are the machines of the subscription that carry our mark, whoever knows of them.
func (r *rig) left() []provider.Instance {
	r.t.Helper()
	l, err := r.again().List(r.t.Context())
	if err != nil || !l.Complete {
		r.t.Fatalf("%+v, %v; want a complete list", l, err)
	}
	return l.Instances
}

func TestAFailedCreationLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]providertest.Fault{
		"a machine in state Failed":      {Mode: providertest.Fail, Kind: provider.NoCapacity},
		"a machine that is there and up": {Mode: providertest.FailAfter, Kind: provider.NoCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, azurefake.Config{Leaves: true})
			r.behind.Script(provider.OpLaunch, fault)
			_, err := r.client.Launch(t.Context(), providertest.SampleSpec(spot), "t-1")
			if e := kindOf(t, err, provider.NoCapacity); e.MaybeCreated || e.Code != "AllocationFailed" || e.Pool == nil || *e.Pool != spot.Pool {
				t.Errorf("%+v; want AllocationFailed of the pool, and surely no machine", e)
			}
			if left := r.left(); len(left) != 0 || len(r.behind.Live()) != 0 {
				t.Errorf("%+v is left, and behind %+v", left, r.behind.Live())
			}
			if fault.Mode == providertest.FailAfter {
				return // the seller behind keeps tokens, which Azure does not
			}
			if i := r.buy("t-1"); i.Token != "t-1" || i.State == provider.Gone {
				t.Errorf("the next attempt gave %+v", i)
			}
		})
	}
}

func TestADeletionThatWasNotConfirmedIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{Leaves: true})
	r.fake.Stick(true)
	r.behind.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Fail, Kind: provider.NoCapacity})
	_, err := r.client.Launch(t.Context(), providertest.SampleSpec(spot), "t-1")
	if e := kindOf(t, err, provider.NoCapacity); !e.MaybeCreated {
		t.Errorf("%+v hides that a machine may be there", e)
	}
	i := until(t, r.again(), "t-1", provider.Gone)
	if !i.Remains || i.EndedBy != "fault" {
		t.Errorf("%+v; want a fault, and that something remains", i)
	}
	r.fake.Stick(false)
	if err := r.client.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if left := r.left(); len(left) != 0 {
		t.Errorf("%+v is left", left)
	}
}

// A refusal of a repetition says nothing of the machine that is there.
func TestARefusedRepetitionDeletesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{})
	first := r.buy("t-1")
	r.behind.Script(provider.OpLaunch, providertest.Times(9, providertest.Fault{Mode: providertest.Fail, Kind: provider.Quota})...)
	again, err := r.again().Launch(t.Context(), providertest.SampleSpec(spot), "t-1")
	if err != nil || again.ID != first.ID || !again.Started.Equal(first.Started) {
		t.Errorf("%+v, %v; want %s", again, err, first.ID)
	}
	if n := r.fake.Calls("Microsoft.Compute/virtualMachines/delete"); n != 0 {
		t.Errorf("%d deletions", n)
	}
}

func TestAnEvictedMachineIsAbsentAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{})
	i := r.buy("t-1")
	until(t, r.client, "t-1", provider.Running)
	r.behind.Kill(r.fake.Behind(string(i.ID)), "seller")
	if gone := until(t, r.client, "t-1", provider.Gone); gone.EndedBy != "seller" || gone.Remains || gone.Price() != spot.Price {
		t.Errorf("who saw it alive says %+v", gone)
	}
	until(t, r.again(), "t-1", "")
	if err := r.again().Terminate(t.Context(), i.ID); err != nil {
		t.Errorf("terminating what is absent: %v", err)
	}
}

func TestADeallocatedMachineIsReportedAndDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{Deallocates: true})
	i := r.buy("t-1")
	until(t, r.client, "t-1", provider.Running)
	r.behind.Kill(r.fake.Behind(string(i.ID)), "seller")
	for name, c := range map[string]*Client{"who saw it alive": r.client, "who did not": r.again()} {
		if gone := until(t, c, "t-1", provider.Gone); gone.EndedBy != "seller" || !gone.Remains || gone.Ended.Before(gone.Started) {
			t.Errorf("%s says %+v", name, gone)
		}
	}
	if err := r.client.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if left := r.left(); len(left) != 0 {
		t.Errorf("%+v is left", left)
	}
}

// All that a list tells stands in the tags.
func TestARestartForgetsNothingOfWhatLives(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{PageSize: 2})
	spec := providertest.SampleSpec(spot)
	spec.Labels = map[string]string{"job": "зима", "note": strings.Repeat("x<>%&\\?/\"", 100), "": "empty"}
	for _, token := range []string{"t-1", "under_score-1", "t-3", strings.Repeat("y", 64)} {
		if _, err := r.client.Launch(t.Context(), spec, token); err != nil {
			t.Fatal(err)
		}
		i := until(t, r.again(), token, provider.Running)
		if i.Pool != spec.Pool || i.Price() != spot.Price || i.Terms != terms(events.Spot) || i.Labels["job"] != "зима" || i.Labels["note"] != spec.Labels["note"] {
			t.Errorf("after a restart %s is %+v", token, i)
		}
	}
	spec.Labels["note"] = strings.Repeat("x", 20_000)
	_, err := r.client.Launch(t.Context(), spec, "t-9")
	kindOf(t, err, provider.Invalid)
}

// Whoever follows an operation heeds how long Azure asks to be left in peace.
func TestRetryAfterIsHeeded(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{RetryAfter: 1})
	r.behind.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Slow, For: 300 * time.Millisecond})
	began := time.Now()
	r.buy("t-1")
	if took, looks := time.Since(began), r.fake.Calls("Microsoft.Compute/locations/operations/read"); took < 500*time.Millisecond || looks > 3 {
		t.Errorf("%d looks within %s, want one a second", looks, took)
	}
}

func TestTheRequest(t *testing.T) {
	t.Parallel()
	c, err := New(config(t, "http://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	spec := providertest.SampleSpec(spot)
	vm, err := c.machine(spec, "t-1", quote{spot, onDemand.Price})
	if err != nil {
		t.Fatal(err)
	}
	p := vm.Properties
	nic := p.NetworkProfile.NetworkInterfaceConfigurations[0].Properties
	if *p.Priority != "Spot" || *p.EvictionPolicy != "Delete" || *p.BillingProfile.MaxPrice != 2.2 || *p.StorageProfile.OSDisk.DeleteOption != "Delete" ||
		*nic.DeleteOption != "Delete" || nic.IPConfigurations[0].Properties.PublicIPAddressConfiguration != nil ||
		*nic.IPConfigurations[0].Properties.Subnet.ID != "/subscriptions/s/subnets/eastus" ||
		*p.UserData != base64.StdEncoding.EncodeToString(spec.UserData) || *p.OSProfile.ComputerName != c.names.Of("t-1") {
		t.Errorf("the request is %+v", p)
	}
	c.cfg.Public = true
	if vm, err = c.machine(providertest.SampleSpec(onDemand), "t-1", quote{onDemand, onDemand.Price}); err != nil {
		t.Fatal(err)
	}
	p = vm.Properties
	address := p.NetworkProfile.NetworkInterfaceConfigurations[0].Properties.IPConfigurations[0].Properties.PublicIPAddressConfiguration
	if *p.Priority != armcompute.VirtualMachinePriorityTypesRegular || p.EvictionPolicy != nil || p.BillingProfile != nil || address == nil || *address.Properties.DeleteOption != "Delete" {
		t.Errorf("the request on demand is %+v", p)
	}
}

func TestTheHighestPriceHasFiveDecimals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		price, onDemand events.PerInstanceHour
		want            float64
	}{
		{1_234_567_891, 0, 1.23456}, {1_234_567_891, 2_000_000_000, 1.23456}, {10_000, 0, 0.00001}, {9_999, 0, -1},
		{2_000_000_000, 2_000_000_000, -1}, {3_000_000_000, 2_000_000_000, -1},
	} {
		if got := highest(tc.price, tc.onDemand); got != tc.want {
			t.Errorf("highest(%s, %s) = %v, want %v", tc.price, tc.onDemand, got, tc.want)
		}
	}
}

func TestAContextThatEndsIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{})
	if _, err := r.client.Offers(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.behind.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Hang})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := r.client.Launch(ctx, providertest.SampleSpec(spot), "t-1")
	if e := kindOf(t, err, provider.UnknownOutcome); !e.MaybeCreated {
		t.Errorf("%+v hides that a machine may be there", e)
	}
	until(t, r.client, "t-1", provider.Running)
}
