package runpod_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/runpod"
	"github.com/spotferry/spotferry/bidder/provider/runpod/runpodfake"
	"github.com/spotferry/spotferry/events"
)

const (
	key   = "canary-key-of-runpod"
	price = events.DollarPerHour
	place = "us-west-2a" // of the sample offer
)

func moment() events.Moment {
	now := time.Now()
	return events.Moment{Control: now, Market: now}
}

// podOffer is one GPU.
func podOffer(terms events.CapacityType) events.Offer {
	o := providertest.SampleOffer("backend", "us-west-2", price)
	o.Pool.Capacity = terms
	return o
}

// rig is the adapter, the fake in front of a seller, and that seller.
type rig struct {
	backend *providertest.Fake
	fake    *runpodfake.Fake
	url     string
	client  *runpod.Client
}

func open(t *testing.T, b providertest.Config, f runpodfake.Config, between func(http.Handler) http.Handler) *rig {
	t.Helper()
	b.Seller, b.Now = "backend", moment
	if b.Offers == nil {
		b.Offers = []events.Offer{podOffer(events.OnDemand)}
	}
	r := &rig{backend: providertest.New(b)}
	f.Backend, f.Key, f.Now = r.backend, key, moment
	r.fake = runpodfake.New(f)
	var h http.Handler = r.fake
	if between != nil {
		h = between(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	r.url = srv.URL
	r.client = r.another(t, "env-1")
	return r
}

func (r *rig) config(mark string) runpod.Config {
	return runpod.Config{
		Endpoint: r.url, Key: key, Mark: mark, Now: moment, Image: "registry.example/agent:1", DataCentres: []string{"EU-RO-1", place}, Settle: time.Second,
	}
}

// another is a new process of the seller, which knows nothing.
func (r *rig) another(t *testing.T, mark string) *runpod.Client {
	t.Helper()
	return with(t, r.config(mark))
}

func with(t *testing.T, cfg runpod.Config) *runpod.Client {
	t.Helper()
	c, err := runpod.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) spec(t *testing.T) provider.LaunchSpec {
	t.Helper()
	offers, err := r.client.Offers(t.Context())
	if err != nil || len(offers) == 0 {
		t.Fatalf("%d offers, %v", len(offers), err)
	}
	return providertest.SampleSpec(offers[0])
}

func (r *rig) buy(t *testing.T, token string) provider.Instance {
	t.Helper()
	i, err := r.client.Launch(t.Context(), r.spec(t), token)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func list(t *testing.T, p provider.Provider) provider.Listing {
	t.Helper()
	l, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}
