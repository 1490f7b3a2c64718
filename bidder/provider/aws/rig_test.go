package aws

import (
	"bytes"
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/aws/awsfake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

const price = 1_224 * events.DollarPerHour / 1000

func moment() events.Moment { now := time.Now(); return events.Moment{Control: now, Market: now} }

// sold is what the account of the tests sells in a region.
func sold(region, zone string, capacity events.CapacityType, price events.PerInstanceHour) events.Offer {
	o := providertest.SampleOffer("aws", region, price)
	o.Pool.Zone, o.Pool.Capacity = zone, capacity
	o.Terms = terms(capacity)
	return o
}

var (
	spot     = sold("us-west-2", "usw2-az1", events.Spot, price)
	other    = sold("us-west-2", "usw2-az2", events.Spot, 2*price)
	onDemand = sold("us-west-2", "usw2-az1", events.OnDemand, 3*price)
)

// rig is an account of EC2 with everything behind it.
type rig struct {
	behind *providertest.Fake
	ec2    *awsfake.Server
	url    string
}

func newRig(t *testing.T, behind providertest.Config, front awsfake.Config) *rig {
	t.Helper()
	behind.Seller = "aws"
	if behind.Now == nil {
		behind.Now = moment
	}
	if behind.Offers == nil {
		behind.Offers = []events.Offer{spot, other, onDemand}
	}
	f := providertest.New(behind)
	front.Backend, front.Now = f, behind.Now
	s := awsfake.New(front)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return &rig{f, s, srv.URL}
}

// config is what a client of the rig is made of; change what a test is about.
func (r *rig) config(t *testing.T) Config {
	t.Helper()
	file, err := r.ec2.PriceFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed, err := ReadCatalogue(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Mark: "test", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		Regions:  []Region{{Name: "us-west-2", Image: "ami-1", Queue: r.url + awsfake.QueuePath}},
		Endpoint: r.url, QueueEndpoint: r.url, Now: moment, OnDemand: listed,
	}
}

func (r *rig) client(t *testing.T, change ...func(*Config)) *Client {
	t.Helper()
	cfg := r.config(t)
	for _, f := range change {
		f(&cfg)
	}
	return open(t, cfg)
}

func open(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cfg.Client.CloseIdleConnections)
	return c
}

func buy(t *testing.T, c *Client, spec provider.LaunchSpec, token string) provider.Instance {
	t.Helper()
	i, err := c.Launch(t.Context(), spec, token)
	if err != nil {
		t.Fatalf("launching %s: %v", token, err)
	}
	return i
}

func list(t *testing.T, c *Client) provider.Listing {
	t.Helper()
	l, err := c.List(t.Context())
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	return l
}

// await looks until ok; the rigs' lists lag by nothing or by milliseconds.
func await(t *testing.T, c *Client, what string, ok func(provider.Listing) bool) provider.Listing {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l := list(t, c)
		if ok(l) {
			return l
		}
		if time.Now().After(end) {
			t.Fatalf("no list shows %s; the last is %+v", what, l)
		}
	}
}

func kindOf(t *testing.T, err error, want provider.Kind) *provider.Error {
	t.Helper()
	e, ok := err.(*provider.Error)
	if !ok || e.Kind != want {
		t.Fatalf("%T %v, want a *provider.Error of kind %s", err, err, want)
	}
	return e
}
