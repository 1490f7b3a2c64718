package gcpfake_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp/gcpfake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// rig is the fake as Google's own client sees it.
type rig struct {
	behind  *providertest.Fake
	fake    *gcpfake.Fake
	compute *compute.Service
	billing *cloudbilling.APIService
	url     string
}

type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer t")
	return b.next.RoundTrip(r)
}

func open(t *testing.T, cfg gcpfake.Config) *rig {
	t.Helper()
	o := providertest.SampleOffer("gcp", "us-central1", 1_100_000_000)
	o.Pool.Zone, o.Pool.InstanceType, o.VCPU, o.RAMMiB = "us-central1-a", "a2-highgpu-1g", 12, 85<<10
	now := func() events.Moment { n := time.Now(); return events.Moment{Control: n, Market: n} }
	r := &rig{behind: providertest.New(providertest.Config{Seller: "gcp", Now: now, Offers: []events.Offer{o}})}
	cfg.Project, cfg.Token = "p1", "t"
	r.fake = gcpfake.New(r.behind, cfg)
	t.Cleanup(r.fake.Close)
	s := httptest.NewServer(r.fake)
	t.Cleanup(s.Close)
	r.url = s.URL
	client := &http.Client{Transport: bearer{&http.Transport{DisableKeepAlives: true}}}
	var err error
	if r.compute, err = compute.NewService(t.Context(), option.WithHTTPClient(client), option.WithEndpoint(s.URL+"/compute/v1/")); err != nil {
		t.Fatal(err)
	}
	if r.billing, err = cloudbilling.NewService(t.Context(), option.WithHTTPClient(client), option.WithEndpoint(s.URL+"/")); err != nil {
		t.Fatal(err)
	}
	return r
}

// machine is an insertion that Google would take.
func machine(name, action string) *compute.Instance {
	no := false
	return &compute.Instance{
		Name: name, MachineType: "zones/us-central1-a/machineTypes/a2-highgpu-1g",
		Disks: []*compute.AttachedDisk{{Boot: true}}, NetworkInterfaces: []*compute.NetworkInterface{{}},
		Scheduling: &compute.Scheduling{ProvisioningModel: "SPOT", OnHostMaintenance: "TERMINATE", AutomaticRestart: &no, InstanceTerminationAction: action},
	}
}

const (
	zone = "us-central1-a"
	idA  = "11111111-1111-5111-8111-111111111111"
	idB  = "22222222-2222-5222-8222-222222222222"
)

func (r *rig) insert(m *compute.Instance, id string) (*compute.Operation, error) {
	return r.compute.Instances.Insert("p1", zone, m).RequestId(id).Do()
}

func status(err error) int {
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return e.Code
	}
	return 0
}

func TestAnInsertionIsAnOperationThatEndsLater(t *testing.T) {
	t.Parallel()
	r := open(t, gcpfake.Config{EarlyWaits: 2})
	op, err := r.insert(machine("a", "DELETE"), idA)
	if err != nil || op.Status != "RUNNING" || op.ClientOperationId != idA || op.OperationType != "insert" {
		t.Fatalf("Insert = %+v, %v", op, err)
	}
	for n, want := range []string{"RUNNING", "RUNNING", "DONE"} {
		if op, err = r.compute.ZoneOperations.Wait("p1", zone, op.Name).Do(); err != nil || op.Status != want {
			t.Errorf("wait %d = %+v, %v; want %s", n, op, err, want)
		}
	}
	if again, err := r.insert(machine("a", "STOP"), idA); err != nil || again.Name != op.Name {
		t.Errorf("the same id with another body = %+v, %v; want the same operation", again, err)
	}
	if _, err := r.insert(machine("a", "DELETE"), idB); status(err) != 409 {
		t.Errorf("the same name with another id = %v; want 409", err)
	}
	if len(r.behind.Intervals()) != 1 {
		t.Errorf("%d machines", len(r.behind.Intervals()))
	}
}

func TestLackOfCapacityIsA200(t *testing.T) {
	t.Parallel()
	r := open(t, gcpfake.Config{})
	r.behind.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Fail, Kind: provider.NoCapacity})
	op, err := r.insert(machine("a", "DELETE"), idA)
	if err != nil || op.Error != nil {
		t.Fatalf("Insert = %+v, %v", op, err)
	}
	op, err = r.compute.ZoneOperations.Wait("p1", zone, op.Name).Do()
	if err != nil || op.Status != "DONE" || op.Error == nil || op.Error.Errors[0].Code != "ZONE_RESOURCE_POOL_EXHAUSTED" {
		t.Errorf("Wait = %+v, %v", op, err)
	}
	if _, err := r.compute.Instances.Get("p1", zone, "a").Do(); status(err) != 404 {
		t.Errorf("Get = %v, want 404", err)
	}
}

// A machine that stopped itself and one that was preempted with STOP look the same.
func TestStoppedAndPreemptedLookAlike(t *testing.T) {
	t.Parallel()
	for by, kind := range map[string]string{"machine": "compute.instances.guestTerminate", "seller": "compute.instances.preempted"} {
		r := open(t, gcpfake.Config{})
		op, err := r.insert(machine("a", "STOP"), idA)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = r.compute.ZoneOperations.Wait("p1", zone, op.Name).Do(); err != nil {
			t.Fatal(err)
		}
		r.behind.Kill(r.fake.Behind("us-central1-a/a"), by)
		i, err := r.compute.Instances.Get("p1", zone, "a").Do()
		if err != nil || i.Status != "TERMINATED" || i.LastStopTimestamp == "" {
			t.Errorf("ended by %s: %+v, %v", by, i, err)
		}
		ops, err := r.compute.ZoneOperations.List("p1", zone).Filter(`targetLink eq ".*/instances/a"`).Do()
		if err != nil || len(ops.Items) != 2 || ops.Items[1].OperationType != kind {
			t.Errorf("ended by %s: operations %+v, %v; want one of %s", by, ops, err, kind)
		}
		if _, err = r.compute.Instances.Delete("p1", zone, "a").Do(); err != nil {
			t.Error(err)
		}
		if _, err = r.compute.Instances.Get("p1", zone, "a").Do(); status(err) != 404 {
			t.Errorf("after its deletion Get = %v", err)
		}
	}
}

func TestPricesAreOfParts(t *testing.T) {
	t.Parallel()
	r := open(t, gcpfake.Config{SKUPage: 5})
	var all []*cloudbilling.Sku
	pages, token := 0, ""
	for ; pages < 100; pages++ {
		p, err := r.billing.Services.Skus.List("services/6F81-5844-456A").PageSize(5000).PageToken(token).Do()
		if err != nil || len(p.Skus) > 5 {
			t.Fatalf("%d prices on a page, %v", len(p.Skus), err)
		}
		all = append(all, p.Skus...)
		if token = p.NextPageToken; token == "" {
			break
		}
	}
	if len(all) != 21 || pages < 3 {
		t.Errorf("%d prices on %d pages", len(all), pages+1)
	}
}

func TestWhoHasNoTokenIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t, gcpfake.Config{})
	for _, tc := range []struct {
		name, path, auth string
		want             int
	}{
		{"no token", "/compute/v1/projects/p1/aggregated/instances", "", 401},
		{"another token", "/compute/v1/projects/p1/aggregated/instances", "Bearer x", 401},
		{"not a bearer", "/v1/services/6F81-5844-456A/skus", "Basic dA==", 401},
		{"another project", "/compute/v1/projects/p2/aggregated/instances", "Bearer t", 403},
		{"a filter that Google does not know", "/compute/v1/projects/p1/aggregated/instances?filter=nonsense", "Bearer t", 400},
		{"a page that is not there", "/compute/v1/projects/p1/aggregated/instances?pageToken=from-99", "Bearer t", 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tc.auth != "" {
				req.Header.Set("Authorization", tc.auth)
			}
			got, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			if got.StatusCode != tc.want {
				t.Errorf("status %d, want %d", got.StatusCode, tc.want)
			}
		})
	}
}

func TestWhatGoogleWouldNotTakeIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t, gcpfake.Config{})
	yes := true
	for name, change := range map[string]func(*compute.Instance){
		"a name with a dot":         func(i *compute.Instance) { i.Name = "a.b" },
		"a name that is too long":   func(i *compute.Instance) { i.Name = strings.Repeat("a", 64) },
		"no disk":                   func(i *compute.Instance) { i.Disks = nil },
		"a GPU that migrates":       func(i *compute.Instance) { i.Scheduling.OnHostMaintenance = "MIGRATE" },
		"spot that restarts itself": func(i *compute.Instance) { i.Scheduling.AutomaticRestart = &yes },
		"a label in capitals":       func(i *compute.Instance) { i.Labels = map[string]string{"a": "B"} },
	} {
		m := machine("a", "DELETE")
		change(m)
		if _, err := r.insert(m, idA); status(err) != 400 {
			t.Errorf("%s: %v, want 400", name, err)
		}
	}
	if _, err := r.insert(machine("a", "DELETE"), "not-a-uuid"); status(err) != 400 {
		t.Errorf("a request id that is none: %v, want 400", err)
	}
	if len(r.behind.Intervals()) != 0 {
		t.Error("something was bought")
	}
}
