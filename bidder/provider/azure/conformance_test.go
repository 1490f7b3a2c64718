package azure

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/azure/azurefake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote/remotetest"
	"github.com/spotferry/spotferry/events"
)

func harness(r *rig, o events.Offer) providertest.Harness {
	h := providertest.Harness{
		Seller: r.client, Token: r.token, Pass: time.Sleep, Settle: 2 * time.Second,
		Spec:    func() provider.LaunchSpec { return providertest.SampleSpec(o) },
		Script:  r.behind.Script,
		Reclaim: func(id events.InstanceID) { r.behind.Kill(r.fake.Behind(string(id)), "seller") },
		Bought:  func() int { return len(r.behind.Intervals()) },
		NA: map[string]string{
			"a refusal that came after the effect says that something may exist": "what a failed creation left is deleted, and the deletion confirmed, before the refusal is told",
			"the meter never runs backwards and ends final":                      "Azure tells what was used a day later",
			"a changed bid is refused for what is gone":                          "the highest price of a machine that runs cannot be changed",
			"a notice is delivered":                                              "only the machine itself is told",
		},
		Kinds: map[provider.Kind]string{
			provider.OfferGone: "Azure sells by region and size and knows no offers",
			provider.NotFound:  "a creation finds nothing missing but what our configuration names, which is Invalid",
		},
	}
	if o.Pool.Capacity == events.OnDemand {
		h.NA["a reclaimed machine was ended by its seller"] = "on-demand machines are not reclaimed"
		h.Kinds[provider.PriceTooLow] = "on demand there is no highest price on the wire"
	}
	return h
}

// The whole contract, through Azure's own client and the wire.
func TestKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		offer events.Offer
		front azurefake.Config
	}{
		{"spot, evictions delete", spot, azurefake.Config{PageSize: 3, PricePage: 7}},
		{"spot, evictions deallocate and failures leave machines", spot, azurefake.Config{Deallocates: true, Leaves: true}},
		{"on demand", onDemand, azurefake.Config{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Harness { return harness(newRig(t, tc.front), tc.offer) })
		})
	}
}

// The contract once more, with the adapter in another process, as it is but in tests.
func TestKeepsTheContractOverNATS(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		r := newRig(t, azurefake.Config{})
		h := harness(r, spot)
		h.Seller = remotetest.Far(t, "azure", r.client)
		return h
	})
}
