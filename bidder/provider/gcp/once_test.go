package gcp_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
)

// What repeats calls is above the adapter: below it there is one attempt.
func TestEveryCallIsMadeOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, part string
		call       func(*project, *gcp.Client) error
	}{
		{"insert", "POST /compute/v1/projects/my-project/zones/us-central1-a/instances", func(p *project, c *gcp.Client) error {
			_, err := c.Launch(p.t.Context(), p.spec(), "01jonce-1-1")
			return err
		}},
		{"wait", "/wait", func(p *project, c *gcp.Client) error {
			_, err := c.Launch(p.t.Context(), p.spec(), "01jonce-1-1")
			return err
		}},
		{"list", "aggregated/instances", func(p *project, c *gcp.Client) error { _, err := c.List(p.t.Context()); return err }},
		{"prices", "/skus", func(p *project, c *gcp.Client) error { _, err := c.Offers(p.t.Context()); return err }},
		{"delete", "DELETE ", func(p *project, c *gcp.Client) error {
			i := p.buy("01jonce-1-2")
			return c.Terminate(p.t.Context(), i.ID)
		}},
	} {
		for _, status := range []int{429, 500, 502, 503, 504} {
			t.Run(fmt.Sprint(tc.name, " answered with ", status), func(t *testing.T) {
				t.Parallel()
				p := open(t, world{})
				var n atomic.Int32
				err := tc.call(p, twisted(t, p, path(tc.part), func(w http.ResponseWriter, _ *http.Request) {
					n.Add(1)
					w.WriteHeader(status)
				}))
				if err == nil || n.Load() != 1 {
					t.Errorf("%v after %d attempts, want an error after one", err, n.Load())
				}
			})
		}
	}
}

// A hundred times the program dies between the purchase and its record. Whoever
// comes after finds each machine by its token, buys no second one, and gives it back.
func TestADeathAfterThePurchaseLeaksNothing(t *testing.T) {
	t.Parallel()
	p := open(t, world{change: func(c *gcp.Config) { c.Reread = time.Hour }})
	const times = 100
	p.behind.Script(provider.OpLaunch, providertest.Times(times, providertest.Fault{Mode: providertest.Lost})...)
	tokens := map[string]bool{}
	for range times {
		token := p.token()
		if _, err := p.client.Launch(t.Context(), p.spec(), token); provider.KindOf(err) != provider.UnknownOutcome {
			t.Fatalf("Launch = %v", err)
		}
		tokens[token] = true
	}
	heir := p.again()
	for token := range tokens {
		if _, err := heir.Launch(t.Context(), p.spec(), token); err != nil {
			t.Fatalf("repeating %s: %v", token, err)
		}
	}
	var l provider.Listing
	var err error
	for end := time.Now().Add(10 * time.Second); len(l.Instances) < times && time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // lists lag here
		if l, err = p.again().List(t.Context()); err != nil {
			break
		}
	}
	if err != nil || !l.Complete || len(l.Instances) != times {
		t.Fatalf("%d machines listed, %v; want %d", len(l.Instances), err, times)
	}
	for _, i := range l.Instances {
		if !tokens[i.Token] {
			t.Errorf("nobody asked for %+v", i)
		}
		if err := heir.Terminate(t.Context(), i.ID); err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(10 * time.Second); len(p.behind.Live()) > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if live, bought := len(p.behind.Live()), len(p.behind.Intervals()); live != 0 || bought != times {
		t.Errorf("%d machines live of %d bought; want 0 of %d", live, bought, times)
	}
}
