package lambda_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/lambda"
	"github.com/spotferry/spotferry/bidder/provider/lambda/lambdafake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

const (
	key   = "canary-key-of-lambda"
	price = events.DollarPerHour
)

func moment() events.Moment {
	now := time.Now()
	return events.Moment{Control: now, Market: now}
}

// dollar is one GPU on demand.
func dollar(region string) events.Offer {
	o := providertest.SampleOffer("backend", region, price)
	o.Pool.Capacity = events.OnDemand
	return o
}

// rig is the adapter, the fake in front of a seller, and that seller.
type rig struct {
	backend *providertest.Fake
	fake    *lambdafake.Fake
	url     string
	client  *lambda.Client
}

func open(t *testing.T, b providertest.Config, f lambdafake.Config, between func(http.Handler) http.Handler) *rig {
	t.Helper()
	b.Seller, b.Now = "backend", moment
	if b.Offers == nil {
		b.Offers = []events.Offer{dollar("us-west-2")}
	}
	r := &rig{backend: providertest.New(b)}
	f.Backend, f.Key, f.Now = r.backend, key, moment
	r.fake = lambdafake.New(f)
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

// another is a new process of the seller, which knows nothing.
func (r *rig) another(t *testing.T, mark string) *lambda.Client {
	t.Helper()
	const none = -1
	c, err := lambda.New(lambda.Config{
		Endpoint: r.url, Key: key, Mark: mark, Now: moment, SSHKey: "key", Settle: time.Second, Request: none, Launches: none,
	})
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
