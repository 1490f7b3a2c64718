package aws

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/aws/awsfake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote/remotetest"
	"github.com/spotferry/spotferry/events"
)

const lag = 100 * time.Millisecond

// harness is a seller of one capacity for the suite, seen through look.
func harness(t *testing.T, offer events.Offer, look func(provider.Provider) provider.Provider) (providertest.Harness, *rig) {
	r := newRig(t, providertest.Config{Visible: lag, EndVisible: lag, Boot: lag, Stop: lag}, awsfake.Config{Page: 5})
	h := providertest.FakeHarness(r.behind, nil)
	h.Seller = look(r.client(t))
	h.Spec = func() provider.LaunchSpec { return providertest.SampleSpec(offer) }
	h.Settle = 2 * time.Second
	h.Mute = true
	h.NA = map[string]string{
		"a refusal that came after the effect says that something may exist": "EC2 refuses before it creates, and no code says otherwise; a server's error is an unknown outcome",
	}
	h.Kinds = map[provider.Kind]string{
		provider.OfferGone: "EC2 sells by type and zone and knows no offers",
		provider.Transient: "a server's error on a launch may have bought: it arrives as an unknown outcome",
	}
	if offer.Pool.Capacity == events.OnDemand {
		h.NA["a reclaimed machine was ended by its seller"] = "on-demand machines are not reclaimed"
		h.NA["a notice is delivered"] = "on-demand machines are not reclaimed"
		h.Kinds[provider.PriceTooLow] = "on demand there is no highest price on the wire; the catalogue is asked before"
	}
	return h, r
}

func itself(p provider.Provider) provider.Provider { return p }

// TestKeepsTheContract holds the adapter against the suite, through EC2's wire,
// and the policy file against the calls that this took.
func TestKeepsTheContract(t *testing.T) {
	var called []string
	note := func(t *testing.T, r *rig) {
		t.Cleanup(func() { called = append(called, r.ec2.Actions()...) })
	}
	t.Run("spot", func(t *testing.T) {
		providertest.Run(t, func(t *testing.T) providertest.Harness {
			h, r := harness(t, spot, itself)
			note(t, r)
			return h
		})
	})
	t.Run("on demand", func(t *testing.T) {
		providertest.Run(t, func(t *testing.T) providertest.Harness {
			h, r := harness(t, onDemand, itself)
			note(t, r)
			return h
		})
	})
	t.Run("scores and a dry run", func(t *testing.T) {
		r := newRig(t, providertest.Config{Offers: threeTypes()}, awsfake.Config{})
		note(t, r)
		c := r.client(t, func(c *Config) { c.Scores = true })
		if _, err := c.Offers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Rehearse(t.Context(), providertest.SampleSpec(threeTypes()[0])); err != nil || len(r.behind.Intervals()) != 0 {
			t.Errorf("a rehearsal: %v, and %d machines bought; want neither", err, len(r.behind.Intervals()))
		}
	})
	t.Run("the policy allows the calls made, and no others", func(t *testing.T) {
		slices.Sort(called)
		called = slices.Compact(called)
		allowed := policy(t)
		if !slices.Equal(called, allowed) {
			t.Errorf("called  %v\nallowed %v\nwant the same", called, allowed)
		}
	})
}

// policy returns the actions that the published policy allows. It is for people
// to put their own names into, so it must be a policy and have no wildcards.
func policy(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/policies/aws.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Version   string
		Statement []struct {
			Sid, Effect string
			Action      []string
			Resource    any
			Condition   map[string]map[string]any
		}
	}
	if err := json.Unmarshal(text, &p); err != nil || p.Version != "2012-10-17" {
		t.Fatalf("version %q, %v", p.Version, err)
	}
	var allowed []string
	for _, s := range p.Statement {
		for _, a := range s.Action {
			changes := slices.Contains([]string{"ec2:TerminateInstances", "ec2:CreateTags"}, a)
			if changes && len(s.Condition) == 0 {
				t.Errorf("%s: %s without a condition reaches machines of others", s.Sid, a)
			}
			if s.Effect != "Allow" || slices.Contains([]string{"*", "ec2:*", "sqs:*"}, a) {
				t.Errorf("%s: %s %s", s.Sid, s.Effect, a)
			}
			allowed = append(allowed, a)
		}
	}
	slices.Sort(allowed)
	return slices.Compact(allowed)
}

// TestKeepsTheContractOverNATS is the suite with the adapter in another process,
// as it always is but in tests.
func TestKeepsTheContractOverNATS(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		h, _ := harness(t, spot, func(p provider.Provider) provider.Provider { return remotetest.Far(t, "aws", p) })
		return h
	})
}

// threeTypes is enough for a placement score.
func threeTypes() []events.Offer {
	out := []events.Offer{spot, spot, spot}
	for n, t := range []string{"p3.2xlarge", "p3.8xlarge", "p3.16xlarge"} {
		out[n].Pool.InstanceType = t
		out[n].GPU.Count = 1 << n
	}
	return out
}
