package runpod_test

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote/remotetest"
	"github.com/spotferry/spotferry/bidder/provider/runpod/runpodfake"
	"github.com/spotferry/spotferry/events"
)

func TestRunPodKeepsTheContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness { return harness(t, lagging(t)) })
}

func TestRunPodKeepsTheContractOverNATS(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		h := harness(t, lagging(t))
		h.Seller = remotetest.Far(t, "runpod", h.Seller)
		return h
	})
}

// lagging is a rig whose seller takes its time, and whose lists lag.
func lagging(t *testing.T) *rig {
	return open(t, providertest.Config{
		Visible: 100 * time.Millisecond, EndVisible: 100 * time.Millisecond, Boot: 50 * time.Millisecond, Stop: 100 * time.Millisecond,
	}, runpodfake.Config{}, nil)
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
		NA: map[string]string{
			"the meter never runs backwards and ends final":                      "no charges are told by the pod",
			"a notice is delivered":                                              "nothing is announced but to the pod itself, by a signal",
			"a changed bid is refused for what is gone":                          "the bid of a pod that runs cannot be changed",
			"a repeat after a lost answer returns the machine":                   "a repeat is answered by the list, which has the machine, and never comes to the seller: TestARepeatAfterALostAnswerBuysNothing",
			"a refusal that came after the effect says that something may exist": "a refusal for want of capacity has made nothing, and names nothing",
			"a list with a page missing says so":                                 "one answer holds the whole list",
		},
		Kinds: map[provider.Kind]string{
			provider.PriceTooLow: "prices on demand are not the buyer's; the adapter compares the list's",
			provider.OfferGone:   "what is gone is told as want of capacity; the adapter knows what is listed",
			provider.Quota:       "the account's spend limit is told as its balance is, by 402: Auth",
			provider.NotFound:    "no answer to a create",
			provider.Transient:   "a 5xx of a create leaves the outcome unknown",
		},
	}
}
