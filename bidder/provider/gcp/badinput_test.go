package gcp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp"
	"github.com/spotferry/spotferry/events"
)

// twisted answers calls that match in its own way, and leaves the rest to the project.
func twisted(t *testing.T, p *project, match func(*http.Request) bool, answer http.HandlerFunc) *gcp.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if match(r) {
			answer(w, r)
			return
		}
		p.fake.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	cfg := p.configs
	cfg.Compute, cfg.Billing = s.URL+"/compute/v1", s.URL
	c, err := gcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func path(part string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.Contains(r.Method+" "+r.URL.Path, part) }
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// long is a body of 50 MB, and then some.
func long(start string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, start)
		chunk := strings.Repeat(" ", 1<<20)
		for range 80 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
}

// hostile are bodies that no call may take for an answer.
var hostile = []struct {
	name string
	body http.HandlerFunc
}{
	{"a page with 200", text("<html><body>Sign in to the hotel's network</body></html>")},
	{"half an answer", text(`{"items": {"zones/us-central1-a": {"instances": [{"na`)},
	{"nothing", text("")},
	{"null", text("null")},
	{"a list for an object", text("[1,2,3]")},
	{"text for a number", text(`{"items":{"zones/z":{"instances":[{"id":{}}],"machineTypes":[{"guestCpus":"many"}]}},"skus":[{"pricingInfo":[{"pricingExpression":{"tieredRates":[{"unitPrice":{"nanos":"cheap"}}]}}]}],"id":{}}`)},
	{"80 MB", long(`{"name":"x"`)},
	{"a redirection to another host", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/steal", http.StatusFound)
	}},
}

func TestAHostileAnswerIsNotTakenForOne(t *testing.T) {
	t.Parallel()
	for _, tc := range hostile {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := open(t, world{})
			kind := func(what string, err error, want provider.Kind) {
				t.Helper()
				e, ok := errors.AsType[*provider.Error](err)
				if !ok || e.Kind != want || len(err.Error()) > 2000 || want == provider.UnknownOutcome != e.MaybeCreated {
					t.Errorf("%s: %.300v; want %s", what, err, want)
				}
			}
			_, err := twisted(t, p, path("POST /compute/v1/projects/my-project/zones/us-central1-a/instances"), tc.body).Launch(t.Context(), p.spec(), "01jbad-1-1")
			kind("inserting", err, provider.UnknownOutcome)
			_, err = twisted(t, p, path("/wait"), tc.body).Launch(t.Context(), p.spec(), "01jbad-1-2")
			kind("waiting", err, provider.UnknownOutcome)
			_, err = twisted(t, p, path("GET /compute/v1/projects/my-project/zones/us-central1-a/instances/"), tc.body).Launch(t.Context(), p.spec(), "01jbad-1-3")
			kind("reading the machine", err, provider.UnknownOutcome)
			for _, part := range []string{"aggregated/instances", "aggregated/operations"} {
				_, err = twisted(t, p, path(part), tc.body).List(t.Context())
				kind(part, err, provider.Transient)
			}
			for _, part := range []string{"aggregated/machineTypes", "aggregated/acceleratorTypes", "/skus"} {
				c := twisted(t, p, path(part), tc.body)
				_, err = c.Offers(t.Context())
				kind(part, err, provider.Transient)
				_, err = c.Launch(t.Context(), p.spec(), "01jbad-1-4")
				kind("a launch before "+part, err, provider.Transient)
			}
		})
	}
}

func TestPagesThatGoRoundAreLeft(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"aggregated/instances", "aggregated/operations", "aggregated/machineTypes", "aggregated/acceleratorTypes", "/skus"} {
		for name, next := range map[string]func(int) string{
			"the same page for ever": func(int) string { return "again" },
			"two pages in turn":      func(n int) string { return fmt.Sprint("page", n%2) },
		} {
			t.Run(part+", "+name, func(t *testing.T) {
				t.Parallel()
				p, n := open(t, world{}), 0
				c := twisted(t, p, path(part), func(w http.ResponseWriter, _ *http.Request) {
					n++
					fmt.Fprintf(w, `{"nextPageToken":%q}`, next(n))
				})
				_, list := c.List(t.Context())
				_, offers := c.Offers(t.Context())
				if provider.KindOf(list) != provider.Transient && provider.KindOf(offers) != provider.Transient || list == nil && offers == nil || n > 5 {
					t.Errorf("List = %v, Offers = %v, after %d pages", list, offers, n)
				}
			})
		}
	}
}

// Rows that make no sense spoil themselves and not the rest.
func TestRowsThatMakeNoSenseAreLeftOut(t *testing.T) {
	t.Parallel()
	p := open(t, world{})
	for _, tc := range []struct{ name, part, body string }{
		{"machine types", "aggregated/machineTypes", `{"items":{"zones/us-central1-a":{"machineTypes":[null,{},{"name":"a2-../x","guestCpus":1},
			{"name":"a2-highgpu-1g","guestCpus":-1,"memoryMb":-5,"accelerators":[{"guestAcceleratorType":"nvidia-tesla-a100","guestAcceleratorCount":1}]},
			{"name":"a2-highgpu-2g","guestCpus":24,"memoryMb":9223372036854775807,"accelerators":[{"guestAcceleratorType":"nvidia-tesla-a100","guestAcceleratorCount":2}]},
			{"name":"a2-highgpu-4g","guestCpus":48,"memoryMb":348160,"accelerators":[null]},
			{"name":"a2-highgpu-8g","guestCpus":96,"memoryMb":696320,"accelerators":[{"guestAcceleratorType":"nvidia-tesla-a100","guestAcceleratorCount":8}]},
			{"name":"a2-highgpu-8g","guestCpus":96,"memoryMb":696320,"accelerators":[{"guestAcceleratorType":"nvidia-tesla-a100","guestAcceleratorCount":8}]},
			{"name":"a2-megagpu-16g","guestCpus":96,"memoryMb":1392640,"deprecated":{"state":"DELETED"},"accelerators":[{"guestAcceleratorType":"nvidia-tesla-a100","guestAcceleratorCount":16}]}]},
			"zones/..":{"machineTypes":[{"name":"a2-highgpu-1g","guestCpus":12,"memoryMb":1}]},"":{}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := twisted(t, p, path(tc.part), text(tc.body)).Offers(t.Context())
			if err != nil || len(got) != 1 || got[0].Pool.InstanceType != "a2-highgpu-8g" || got[0].Pool.Capacity != events.Spot {
				t.Errorf("Offers = %+v, %v; want the one that makes sense", got, err)
			}
		})
	}
	got, err := twisted(t, p, path("/skus"), text(`{"skus":[null,{},{"description":"Nvidia Tesla A100 GPU","category":{"usageType":"OnDemand"},"pricingInfo":[null]}]}`)).Offers(t.Context())
	if err != nil || len(got) != 0 {
		t.Errorf("without a price: %+v, %v", got, err)
	}
}

func TestAMachineThatHasLostItsMetadataIsStillOurs(t *testing.T) {
	t.Parallel()
	p := open(t, world{})
	token := p.token()
	i := p.buy(token)
	until(t, p.client, token, provider.Running)
	for _, tc := range []struct{ name, metadata string }{
		{"none", `{}`}, {"null items", `{"items":[null,{"key":"spotferry"}]}`}, {"garbage", `{"items":[{"key":"spotferry","value":"{{"}]}`},
		{"of another machine", `{"items":[{"key":"spotferry","value":"{\"mark\":\"test\",\"token\":\"another\"}"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mark := "test-" + digestOf("test")
			_, name, _ := strings.Cut(string(i.ID), "/")
			c := twisted(t, p, path("aggregated/instances"), text(`{"items":{"zones/us-central1-a":{"instances":[null,
				{"name":"`+name+`","status":"RUNNING","labels":{"spotferry-mark":"`+mark+`"},"metadata":`+tc.metadata+`},
				{"name":"`+name+`","status":"TERMINATED","labels":{"spotferry-mark":"`+mark+`"},"metadata":`+tc.metadata+`}]}}}`))
			l, err := c.List(t.Context())
			if err != nil || len(l.Instances) != 1 || l.Instances[0].ID != i.ID || l.Instances[0].Token != token || l.Instances[0].State != provider.Running {
				t.Errorf("List = %+v, %v", l, err)
			}
		})
	}
}

// digestOf is the end of a mark's label, taken from what is sent.
func digestOf(mark string) string {
	name := gcp.NameOf(mark, "x")
	return name[len("sf-") : len("sf-")+8]
}

func TestAnAnswerAboutAnotherMachineIsNotAdopted(t *testing.T) {
	t.Parallel()
	p := open(t, world{})
	c := twisted(t, p, path("GET /compute/v1/projects/my-project/zones/us-central1-a/instances/"), text(`{"name":"somebody-elses","status":"RUNNING"}`))
	_, err := c.Launch(t.Context(), p.spec(), p.token())
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Kind != provider.UnknownOutcome || !e.MaybeCreated {
		t.Errorf("Launch = %v", err)
	}
}

func TestAConnectionRefusedWasNotSent(t *testing.T) {
	t.Parallel()
	p := open(t, world{change: func(c *gcp.Config) { c.Reread = time.Hour }})
	if _, err := p.client.Offers(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.server.Close()
	_, err := p.client.Launch(t.Context(), p.spec(), p.token())
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Kind != provider.Transient || e.MaybeCreated {
		t.Errorf("Launch = %+v", err)
	}
}
