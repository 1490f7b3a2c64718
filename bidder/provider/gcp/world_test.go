package gcp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spotferry/spotferry/bidder/provider/gcp"
	"github.com/spotferry/spotferry/bidder/provider/gcp/gcpfake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a project with a seller behind it.
type world struct {
	early    int
	page     int
	unheeded bool
	stays    bool
	mark     string
	offers   []events.Offer
	change   func(*gcp.Config)
}

// project is the project at work.
type project struct {
	t       *testing.T
	behind  *providertest.Fake
	fake    *gcpfake.Fake
	server  *httptest.Server
	client  *gcp.Client
	tokens  int
	configs gcp.Config
}

func now() events.Moment { t := time.Now(); return events.Moment{Control: t, Market: t} }

// a100 is what is sold: one A100 in a zone.
func a100(zone string, capacity events.CapacityType, price events.PerInstanceHour) events.Offer {
	o := providertest.SampleOffer("gcp", zone[:len(zone)-2], price)
	o.Pool.Zone, o.Pool.InstanceType, o.Pool.Capacity = zone, "a2-highgpu-1g", capacity
	o.GPU = events.GPU{Vendor: "nvidia", Model: "A100", Form: "SXM", Count: 1, MemoryMiB: 40 << 10}
	o.VCPU, o.RAMMiB, o.NoticeS = 12, 85<<10, 30
	o.Terms = events.Terms{GrainS: 1, MinimumS: 60, FreeIfReclaimedS: 60}
	if capacity == events.OnDemand {
		o.Terms.FreeIfReclaimedS = 0
	}
	return o
}

// sold is what is sold if a test does not say.
func sold() []events.Offer {
	return []events.Offer{
		a100("us-central1-a", events.Spot, 1_100_000_000), a100("us-central1-b", events.Spot, 1_100_000_000),
		a100("europe-west4-a", events.OnDemand, 3_700_000_000),
	}
}

func open(t *testing.T, w world) *project {
	t.Helper()
	if w.offers == nil {
		w.offers = sold()
	}
	p := &project{t: t, behind: providertest.New(providertest.Config{
		Seller: "gcp", Now: now, Offers: w.offers,
		Visible: 100 * time.Millisecond, EndVisible: 50 * time.Millisecond, Boot: 30 * time.Millisecond, Stop: 60 * time.Millisecond,
	})}
	p.fake = gcpfake.New(p.behind, gcpfake.Config{
		Token: "ya29.secret", Project: "my-project", EarlyWaits: w.early, PageSize: w.page, SKUPage: 7, Unheeded: w.unheeded, Stays: w.stays,
	})
	t.Cleanup(p.fake.Close)
	p.server = httptest.NewServer(p.fake)
	t.Cleanup(p.server.Close)
	if w.mark == "" {
		w.mark = "test"
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p.configs = gcp.Config{
		Project: "my-project", Mark: w.mark, Image: "projects/p/global/images/family/f", AccessToken: "ya29.secret",
		Compute: p.server.URL + "/compute/v1", Billing: p.server.URL, Client: &http.Client{Transport: transport},
		Pause: 10 * time.Millisecond, Now: now,
	}
	if w.change != nil {
		w.change(&p.configs)
	}
	p.client = p.again()
	return p
}

// again is a client that knows nothing of the one before.
func (p *project) again() *gcp.Client {
	p.t.Helper()
	c, err := gcp.New(p.configs)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *project) token() string {
	p.tokens++
	return fmt.Sprintf("01jconformance-1-%d", p.tokens)
}

func (p *project) harness() providertest.Harness {
	return providertest.Harness{
		Seller: p.client, Token: p.token, Pass: time.Sleep, Settle: 2 * time.Second, Kinds: notTold,
		Spec:    p.spec,
		Script:  p.behind.Script,
		Reclaim: func(id events.InstanceID) { p.behind.Kill(p.fake.Behind(id), "seller") },
		Bought:  func() int { return len(p.behind.Intervals()) },
		NA: map[string]string{
			"the meter never runs backwards and ends final": "Google tells what was used a day later, and not by machine",
			"a changed bid is refused for what is gone":     "there are no bids",
			"a notice is delivered":                         "only the machine itself is told",
		},
	}
}
