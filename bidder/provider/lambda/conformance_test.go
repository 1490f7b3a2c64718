package lambda_test

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/lambda/lambdafake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote/remotetest"
	"github.com/spotferry/spotferry/events"
)

func TestLambdaKeepsTheContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness { return harness(t, lagging(t)) })
}

func TestLambdaKeepsTheContractOverNATS(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		h := harness(t, lagging(t))
		h.Seller = remotetest.Far(t, "lambda", h.Seller)
		return h
	})
}

// lagging is a rig whose seller takes its time, and whose lists lag.
func lagging(t *testing.T) *rig {
	return open(t, providertest.Config{
		Visible: 100 * time.Millisecond, EndVisible: 100 * time.Millisecond, Boot: 50 * time.Millisecond, Stop: 100 * time.Millisecond,
	}, lambdafake.Config{IPAfter: time.Second}, nil)
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
			"the meter never runs backwards and ends final":                      "no charges are told by the machine",
			"a notice is delivered":                                              "nothing is announced: its machines are on demand",
			"a changed bid is refused for what is gone":                          "there are no bids",
			"a repeat after a lost answer returns the machine":                   "a repeat is answered by the list, which has the machine, and never comes to the seller: TestARepeatAfterALostAnswerBuysNothing",
			"a refusal that came after the effect says that something may exist": "a refusal with a code of Lambda's has made nothing, and names nothing",
			"a list with a page missing says so":                                 "one answer holds the whole list",
		},
		Kinds: map[provider.Kind]string{
			provider.PriceTooLow: "prices are not the buyer's; the adapter compares the list's",
			provider.OfferGone:   "a type or region that is not there makes the request invalid; the adapter knows what is listed",
			provider.NotFound:    "no answer to a launch",
			provider.Transient:   "a 5xx of a launch leaves the outcome unknown",
		},
	}
}
