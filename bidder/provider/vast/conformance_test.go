package vast_test

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote/remotetest"
	"github.com/spotferry/spotferry/bidder/provider/vast/vastfake"
	"github.com/spotferry/spotferry/events"
)

func TestVastKeepsTheContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness { return harness(t, lagging(t)) })
}

func TestVastKeepsTheContractOverNATS(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		h := harness(t, lagging(t))
		h.Seller = remotetest.Far(t, "vast", h.Seller)
		return h
	})
}

// lagging is a rig whose seller takes its time, and whose lists lag.
func lagging(t *testing.T) *rig {
	return open(t, providertest.Config{
		Visible: 100 * time.Millisecond, EndVisible: 100 * time.Millisecond, Boot: 50 * time.Millisecond, Stop: 100 * time.Millisecond,
	}, vastfake.Config{Page: 2}, nil)
}

func harness(t *testing.T, r *rig) providertest.Harness {
	return providertest.Harness{
		Seller: provider.Typed(r.client), Spec: func() provider.LaunchSpec { return r.spec(t) },
		Pass: time.Sleep, Settle: 3 * time.Second, Script: r.backend.Script, Bought: func() int { return len(r.backend.Intervals()) },
		Reclaim: func(id events.InstanceID) {
			if b, ok := r.fake.Backend(id); ok {
				r.backend.Kill(b, "seller")
			}
		},
		Mute: true,
		NA: map[string]string{
			"the meter never runs backwards and ends final":    "no charges are told by the machine",
			"a notice is delivered":                            "a machine that is outbid is stopped without a word; the webhook names no instance",
			"a repeat after a lost answer returns the machine": "a repeat is answered by the list, which has the machine, and never comes to the seller: TestARepeatAfterALostAnswerBuysNothing",
			"a reclaimed machine was ended by its seller":      "a reclaimed machine is paused, and stays until it is destroyed: TestAMachineThatIsOutbidIsItsSellersDoing",
		},
		Kinds: map[provider.Kind]string{
			provider.NoCapacity: "an offer that is taken is gone: no_such_ask",
			provider.Quota:      "no limit of the account has a code; 403 is Auth",
			provider.Conflict:   "labels may repeat; the adapter itself finds a token that is taken",
			provider.NotFound:   "no answer to a create",
			provider.Transient:  "a 5xx of a create leaves the outcome unknown",
		},
	}
}
