package azure

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/goleak"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/azure/azurefake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const subscription = "00000000-1111-2222-3333-444444444444"

func moment() events.Moment { t := time.Now(); return events.Moment{Control: t, Market: t} }

// token is a credential that never ends.
type token string

// GetToken implements azcore.TokenCredential.
func (t token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(t), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// a100 is what is sold: one A100 in a region.
func a100(region string, capacity events.CapacityType, price events.PerInstanceHour) events.Offer {
	o := providertest.SampleOffer("azure", region, price)
	o.Pool.Zone, o.Pool.InstanceType, o.Pool.Capacity = region, "Standard_NC24ads_A100_v4", capacity
	o.GPU = events.GPU{Vendor: "nvidia", Model: "A100-80GB", Form: "PCIE", Count: 1, MemoryMiB: 80 << 10}
	o.VCPU, o.RAMMiB, o.NoticeS, o.Terms = 24, 220<<10, 30, terms(capacity)
	return o
}

var (
	spot     = a100("eastus", events.Spot, 1_100_000_000)
	onDemand = a100("eastus", events.OnDemand, 3_673_000_000)
)

// rig is a subscription with a seller behind it.
type rig struct {
	t      *testing.T
	behind *providertest.Fake
	fake   *azurefake.Fake
	server *httptest.Server
	config Config
	client *Client
	tokens int
}

func newRig(t *testing.T, front azurefake.Config, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, behind: providertest.New(providertest.Config{
		Seller: "azure", Now: moment, Offers: []events.Offer{spot, onDemand},
		Visible: 100 * time.Millisecond, EndVisible: 50 * time.Millisecond, Boot: 30 * time.Millisecond, Stop: 60 * time.Millisecond,
	})}
	front.Subscription, front.Token = subscription, "secret"
	r.fake = azurefake.New(r.behind, front)
	t.Cleanup(r.fake.Close)
	r.server = httptest.NewServer(r.fake)
	t.Cleanup(r.server.Close)
	r.config = config(t, r.server.URL)
	for _, f := range change {
		f(&r.config)
	}
	r.client = r.again()
	return r
}

func config(t *testing.T, url string) Config {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return Config{
		Subscription: subscription, ResourceGroup: "ferry", Mark: "test", Regions: []string{"eastus"},
		Image: "microsoft-dsvm:ubuntu-hpc:2204:latest", Subnet: "/subscriptions/s/subnets/%s", SSHKey: "ssh-ed25519 AAAA",
		Endpoint: url, Prices: url, Credential: token("secret"), Client: &http.Client{Transport: transport},
		Pause: 10 * time.Millisecond, Now: moment,
	}
}

// again is a client that knows nothing of the one before.
func (r *rig) again() *Client {
	r.t.Helper()
	c, err := New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) token() string {
	r.tokens++
	return fmt.Sprintf("01jconformance-1-%d", r.tokens)
}

func (r *rig) buy(token string) provider.Instance {
	r.t.Helper()
	i, err := r.client.Launch(r.t.Context(), providertest.SampleSpec(spot), token)
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

// until lists until a token's machine is as wanted; "" is absent.
func until(t *testing.T, c *Client, token string, want provider.State) provider.Instance {
	t.Helper()
	var last provider.Listing
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		l, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i, ok := l.Find(token)
		if ok && i.State == want || !ok && want == "" {
			return i
		}
		last = l
	}
	t.Fatalf("%s is not %q; the last list is %+v", token, want, last)
	return provider.Instance{}
}

func kindOf(t *testing.T, err error, want provider.Kind) *provider.Error {
	t.Helper()
	e, ok := err.(*provider.Error)
	if !ok || e.Kind != want {
		t.Fatalf("%T %v, want a *provider.Error of kind %s", err, err, want)
	}
	return e
}
