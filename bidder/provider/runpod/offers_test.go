package runpod

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// looked is what a client makes of an answer to its query for one and two GPUs in one data centre.
func looked(t *testing.T, answer string, spot bool) []events.Offer {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	defer srv.Close()
	c, err := New(Config{
		Endpoint: srv.URL, Key: "k", Mark: "m", Image: "i", DataCentres: []string{"EU-RO-1"}, Counts: []int{1, 2}, Spot: spot,
		Now: func() events.Moment { return events.Moment{Control: at, Market: at} },
	})
	if err != nil {
		t.Fatal(err)
	}
	offers, err := c.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return offers
}

// recorded is what RunPod answered once. It lies beside the checkout.
const recorded = "../../../../shared/recorded/runpod-graphql-gputype-a100.json"

func TestARecordedAnswerIsRead(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(recorded)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skip("the recorded answers do not lie beside this checkout")
	}
	if err != nil {
		t.Fatal(err)
	}
	answer := strings.ReplaceAll(string(b), `"lowestPrice"`, `"p1"`) // as the price for two GPUs
	offers := looked(t, answer, false)
	if len(offers) != 1 {
		t.Fatalf("%d offers, want the one on demand", len(offers))
	}
	o := offers[0]
	if o.Price != 3_780_000_000 || !o.PerGPU || o.Quoted != "1.89" || o.GPU.Model != "A100-80GB" || o.GPU.Form != "PCIE" || o.GPU.Count != 2 || o.Country != "RO" ||
		o.Pool != (events.Pool{Seller: "runpod", Region: "EU-RO-1", Zone: "EU-RO-1", InstanceType: "2x-NVIDIA_A100_80GB_PCIe", Capacity: events.OnDemand, Gang: 1}) {
		t.Errorf("offer %+v", o)
	}
	offers = looked(t, answer, true)
	if len(offers) != 2 || offers[0].Pool.Capacity != events.Bid || offers[0].Price != 2_316_000_000 || offers[0].NoticeKind != events.NoticeSignal || offers[0].NoticeS != 5 {
		t.Errorf("offers %+v, want the lowest bid too", offers)
	}
}

func TestPricesOfAnyShape(t *testing.T) {
	t.Parallel()
	const row = `{"id":%s,"displayName":"L4","memoryInGb":24,"p0":%s}`
	for _, tc := range []struct {
		name, id, price string
		want            events.PerInstanceHour // 0: nothing is offered
	}{
		{"as it should be", `"NVIDIA L4"`, `{"uninterruptablePrice":0.43,"minimumBidPrice":null,"stockStatus":"High"}`, 430_000_000},
		{"as text", `"NVIDIA L4"`, `{"uninterruptablePrice":"0.43"}`, 430_000_000},
		{"null is not to be had", `"NVIDIA L4"`, `{"uninterruptablePrice":null,"stockStatus":null}`, 0},
		{"a missing one too", `"NVIDIA L4"`, `{}`, 0},
		{"no price at all", `"NVIDIA L4"`, `null`, 0},
		{"0 is not free", `"NVIDIA L4"`, `{"uninterruptablePrice":0}`, 0},
		{"below 0", `"NVIDIA L4"`, `{"uninterruptablePrice":-1}`, 0},
		{"beyond all floats", `"NVIDIA L4"`, `{"uninterruptablePrice":1e999}`, 0},
		{"a list", `"NVIDIA L4"`, `[0.43]`, 0},
		{"no name", `null`, `{"uninterruptablePrice":0.43}`, 0},
		{"a lowest bid alone", `"NVIDIA L4"`, `{"minimumBidPrice":0.2}`, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			good := fmt.Sprintf(row, `"Z"`, `{"uninterruptablePrice":9}`)
			offers := looked(t, `{"data":{"gpuTypes":[`+fmt.Sprintf(row, tc.id, tc.price)+`,`+good+`]}}`, false)
			want := 1
			if tc.want > 0 {
				want = 2
			}
			if len(offers) != want || offers[want-1].Price != 9*events.DollarPerHour { // one bad row spoils no other
				t.Fatalf("offered %+v", offers)
			}
			if tc.want > 0 && (offers[0].Price != tc.want || offers[0].GPU.Model != "L4") {
				t.Errorf("offered %+v", offers[0])
			}
		})
	}
}

func TestStock(t *testing.T) {
	t.Parallel()
	for stock, want := range map[string]string{`"High"`: "true 90", `"Medium"`: "true 60", `"Low"`: "true 30", `"None"`: "false 0", `null`: "unsaid 0", `7`: "unsaid 0"} {
		offers := looked(t, `{"data":{"gpuTypes":[{"id":"NVIDIA L4","memoryInGb":24,"p0":{"uninterruptablePrice":1,"stockStatus":`+stock+`}}]}}`, false)
		if len(offers) != 1 {
			t.Fatalf("%s: %d offers", stock, len(offers))
		}
		got := "unsaid"
		if s := offers[0].InStock; s != nil {
			got = fmt.Sprint(*s)
		}
		if got = fmt.Sprint(got, " ", offers[0].Score); got != want {
			t.Errorf("%s is %s, want %s", stock, got, want)
		}
	}
}

func TestAWrongConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	good := Config{Key: "k", Mark: "m", Image: "i", DataCentres: []string{"EU-RO-1"}, Now: func() events.Moment { return events.Moment{} }}
	for field, spoil := range map[string]func(*Config){
		"key": func(c *Config) { c.Key = "" }, "image": func(c *Config) { c.Image = "" }, "now": func(c *Config) { c.Now = nil }, "disk_gb": func(c *Config) { c.DiskGB = -1 },
		"data_centres": func(c *Config) { c.DataCentres = []string{`X"})`} }, "counts": func(c *Config) { c.Counts = []int{0} },
		"mark": func(c *Config) { c.Mark = "a:b" }, "seller": func(c *Config) { c.Seller = "a.b" }, "endpoint": func(c *Config) { c.Endpoint = "x" },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error that names it", field, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}
