package gcp_test

import (
	"net/http"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider/gcp"
	"github.com/spotferry/spotferry/events"
)

func TestAdviceIsAHint(t *testing.T) {
	t.Parallel()
	none, some := a100("us-central1-a", events.Spot, 1_100_000_000), a100("us-central1-b", events.Spot, 1_100_000_000)
	none.InStock = new(bool)
	plain := a100("europe-west4-b", events.OnDemand, 3_700_000_000)
	p := open(t, world{offers: []events.Offer{none, some, plain}, change: func(c *gcp.Config) { c.Advice = true }})
	scores := func(c *gcp.Client) map[events.Pool]int {
		t.Helper()
		offers, err := c.Offers(t.Context())
		if err != nil || len(offers) != 3 {
			t.Fatalf("%d offers, %v", len(offers), err)
		}
		out := map[events.Pool]int{}
		for _, o := range offers {
			out[o.Pool] = o.Score
		}
		return out
	}
	if got := scores(p.client); got[none.Pool] != 10 || got[some.Pool] != 90 || got[plain.Pool] != 0 {
		t.Errorf("scores %v", got)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"not for us": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"a page":     text("<html>"), "null": text("null"), "nothing": text(`{}`),
		"nonsense": text(`{"recommendations":[null,{},{"scores":{"obtainability":-3}},{"scores":{"obtainability":1e9}}]}`),
	} {
		for pool, score := range scores(twisted(t, p, path("/advice/"), answer)) {
			if score != 0 {
				t.Errorf("%s: %s has the score %d", name, pool, score)
			}
		}
	}
}
