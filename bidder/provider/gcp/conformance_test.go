package gcp_test

import (
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
)

// The whole contract, through Google's own client and the wire.
func TestKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		offer int
	}{{"spot", 0}, {"on demand", 2}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Harness {
				p := open(t, world{early: 2})
				h := p.harness()
				h.Spec = func() provider.LaunchSpec { return providertest.SampleSpec(sold()[tc.offer]) }
				return h
			})
		})
	}
}

// notTold are the kinds that Google has no words for.
var notTold = map[provider.Kind]string{
	provider.PriceTooLow: "there is no bid; the list price is compared before anything is sent",
	provider.NotFound:    "an insertion finds nothing missing but a type, which is OfferGone, or what our configuration names, which is Invalid",
}
