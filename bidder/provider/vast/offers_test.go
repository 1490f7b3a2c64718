package vast

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// searched is what a client makes of these rows, found on demand and for a bid alike.
func searched(t *testing.T, rows string, change func(*Config)) []events.Offer {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, rows) }))
	defer srv.Close()
	cfg := Config{
		Endpoint: srv.URL, Key: "k", Mark: "m", Image: "i", Pace: Intervals{Search: -1},
		Now: func() events.Moment { return events.Moment{Control: at, Market: at} },
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	offers, err := c.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return offers
}

// recorded is what Vast.ai answered once. It lies beside the checkout.
const recorded = "../../../../shared/recorded/vastai-offers-2025-07-26.json"

func TestARecordedAnswerIsRead(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(recorded)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skip("the recorded answers do not lie beside this checkout")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := searched(t, string(b), nil); len(got) != 0 {
		t.Errorf("%d offers of machines that are not for rent", len(got))
	}
	offers := searched(t, strings.ReplaceAll(string(b), `"rentable": false`, `"rentable": true`), nil)
	if len(offers) != 4 {
		t.Fatalf("%d offers, want two machines on two terms", len(offers))
	}
	o := offers[0]
	want := events.Offer{
		Pool: events.Pool{Seller: "vast", Region: "ca-ontario", Zone: "m1", InstanceType: "1x-RTX_5090", Capacity: events.Bid, Gang: 1},
		GPU:  events.GPU{Vendor: "nvidia", Model: "RTX5090", Count: 1, MemoryMiB: 32607, Capability: 120},
		VCPU: 24, RAMMiB: 63745, DiskGB: 32, Country: "CA", Price: 105_333_300, Terms: events.Terms{GrainS: 1}, SpeedPct: 100,
		Egress: 1953, Ingress: 1953, Market: at, Seen: at, TTLS: 180, InStock: new(true), Machine: "m1",
		Trust: events.TrustCommunity, Isolation: events.Container, Driver: "570.124.04", CUDA: "12.8", Storage: 946_295,
		UpMbps: 2241, DownMbps: 2118, NoticeKind: events.NoticeNone, AfterReclaim: events.AfterPaused, MaxLifetimeS: 3_146_400, Reliability: 99,
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("offer\n%+v, want\n%+v", o, want)
	}
	if o := offers[1]; o.Pool.Capacity != events.OnDemand || o.Price != 105_333_333 {
		t.Errorf("on demand %s at %s, want dph_base", o.Pool, o.Price)
	}
}

// aRow is a usable row; change replaces fields, "-" takes one away.
func aRow(change map[string]string) string {
	row := map[string]json.RawMessage{}
	for k, v := range map[string]string{
		"id": "7", "machine_id": "12", "num_gpus": "2", "gpu_name": `"RTX 4090"`, "gpu_ram": "24564", "cpu_cores": "64", "cpu_cores_effective": "16",
		"cpu_ram": "256000", "disk_space": "100.5", "dph_base": "0.8", "min_bid": "0.5", "geolocation": `"Texas, US"`, "rentable": "true",
		"verification": `"verified"`, "reliability2": "0.99", "duration": "7300.5", "bw_nvlink": "0", "gpu_frac": "0.25",
	} {
		row[k] = json.RawMessage(v)
	}
	for k, v := range change {
		if row[k] = json.RawMessage(v); v == "-" {
			delete(row, k)
		}
	}
	b, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestRowsOfASearch(t *testing.T) {
	t.Parallel()
	type fields = map[string]string
	is := func(what string, got, want any) func(events.Offer) error {
		return func(events.Offer) error {
			if got != want {
				return fmt.Errorf("%s %v, want %v", what, got, want)
			}
			return nil
		}
	}
	field := func(what string, get func(events.Offer) any, want any) func(events.Offer) error {
		return func(o events.Offer) error { return is(what, get(o), want)(o) }
	}
	price := func(p events.PerInstanceHour) func(events.Offer) error {
		return field("price", func(o events.Offer) any { return o.Price }, p)
	}
	region := func(r, c string) func(events.Offer) error {
		return field("place", func(o events.Offer) any { return o.Pool.Region + " in " + o.Country }, r+" in "+c)
	}
	for _, tc := range []struct {
		name   string
		change fields
		check  func(events.Offer) error // of what is on demand; nil: there is no offer at all on demand
	}{
		{"as they should be", nil, price(800_000_000)},
		{"a price as text", fields{"dph_base": `"0.8"`}, price(800_000_000)},
		{"a price of null is not free", fields{"dph_base": "null"}, nil},
		{"a price of nothing is not free", fields{"dph_base": "-"}, nil},
		{"a price of 0 is not free", fields{"dph_base": "0"}, nil},
		{"a price below 0", fields{"dph_base": "-1"}, nil},
		{"a price that is a word", fields{"dph_base": `"free"`}, nil},
		{"a price that is an object", fields{"dph_base": `{"usd":1}`}, nil},
		{"a price beyond all floats", fields{"dph_base": "1e400"}, nil},
		{"a price of an hour of a million dollars and more", fields{"dph_base": "1000001"}, nil},
		{"a price with an exponent", fields{"dph_base": "8e-1"}, price(800_000_000)},
		{"a price of many digits", fields{"dph_base": "0.10533333333333333"}, price(105_333_333)},
		{"no GPU", fields{"num_gpus": "0"}, nil},
		{"a million GPUs", fields{"num_gpus": "1000000"}, nil},
		{"no name of the GPU", fields{"gpu_name": "null"}, nil},
		{"a name of the GPU as long as a book", fields{"gpu_name": `"` + strings.Repeat("RTX ", 1000) + `"`}, nil},
		{"a name of the GPU that would break a line", fields{"gpu_name": `"RTX\n4090"`}, nil},
		{"a GPU that is in no table is shown and not known", fields{"gpu_name": `"RTX 9999"`},
			field("GPU", func(o events.Offer) any { return fmt.Sprint(o.GPU.Model, o.GPU.Known()) }, "RTX 9999false")},
		{"the same name with other memory is another GPU", fields{"gpu_ram": "49140"},
			field("GPU", func(o events.Offer) any { return o.GPU.Model }, "RTX4090-48GB")},
		{"a slice has its part of the host's memory", nil, field("RAM", func(o events.Offer) any { return o.RAMMiB }, 64000)},
		{"without the host's cores, its part of the GPUs", fields{"cpu_cores": "null"}, field("RAM", func(o events.Offer) any { return o.RAMMiB }, 64000)},
		{"a place without a region", fields{"geolocation": `", US"`}, region("us", "US")},
		{"a place with a continent", fields{"geolocation": `"Bulgaria, BG, EU"`}, region("bg-bulgaria", "BG")},
		{"no place", fields{"geolocation": "null"}, region("unknown", "")},
		{"a place that is no country", fields{"geolocation": `"Mars, Crater"`}, region("unknown", "")},
		{"not for rent", fields{"rentable": "false"}, nil},
		{"a disk smaller than we rent", fields{"disk_space": "31.9"}, nil},
		{"a disk that is not told", fields{"disk_space": "null"}, nil},
		{"no id", fields{"id": "null"}, nil},
		{"an id that would lead elsewhere", fields{"id": `"../../users"`}, nil},
		{"no machine", fields{"machine_id": "-"}, nil},
		{"a lifetime in whole hours", nil, field("lifetime", func(o events.Offer) any { return o.MaxLifetimeS }, int64(7200))},
		{"a field of another shape", fields{"rentable": `"yes"`}, nil},
		{"slices of a machine exclude each other", nil, field("machine", func(o events.Offer) any { return o.Machine + o.Pool.Zone }, "m12m12")},
		{"anybody's machine", nil, field("trust", func(o events.Offer) any { return o.Trust }, events.TrustCommunity)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			other := aRow(fields{"id": "8", "machine_id": "13"}) // one bad row spoils no other
			var found []events.Offer
			neighbours := 0
			for _, o := range searched(t, `{"offers":[`+aRow(tc.change)+`,`+other+`]}`, nil) {
				switch {
				case o.Machine == "m13":
					neighbours++
				case o.Pool.Capacity == events.OnDemand:
					found = append(found, o)
				}
			}
			if neighbours != 2 {
				t.Errorf("%d offers of the good row, want 2", neighbours)
			}
			if tc.check == nil {
				if len(found) > 0 {
					t.Errorf("offered %+v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%d offers, want 1", len(found))
			}
			if err := tc.check(found[0]); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOffersOfOnePoolAreItsCheapest(t *testing.T) {
	t.Parallel()
	type fields = map[string]string
	rows := `{"offers":[` + aRow(fields{"id": "1", "dph_base": "0.9"}) + "," + aRow(fields{"id": "2", "dph_base": "0.7"}) + "," + aRow(fields{"id": "3", "dph_base": "0.8"}) + `]}`
	offers := searched(t, rows, func(c *Config) { c.DataCentre = true })
	if len(offers) != 2 || offers[1].Price != 700_000_000 || offers[1].Trust != events.TrustDataCentre {
		t.Errorf("offers %+v, want the cheapest of the pool, in a data centre", offers)
	}
}

func TestAWrongConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	good := Config{Key: "k", Mark: "m", Image: "i", Now: func() events.Moment { return events.Moment{} }}
	for field, spoil := range map[string]func(*Config){
		"key": func(c *Config) { c.Key = "" }, "image": func(c *Config) { c.Image = "" }, "now": func(c *Config) { c.Now = nil },
		"disk_gb": func(c *Config) { c.DiskGB = 7 }, "bid_over_pct": func(c *Config) { c.BidOverPct = -1 }, "limit": func(c *Config) { c.Limit = -1 },
		"mark": func(c *Config) { c.Mark = "a:b" }, "seller": func(c *Config) { c.Seller = "a.b" }, "endpoint": func(c *Config) { c.Endpoint = "ftp://x" },
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

func BenchmarkTenThousandOffers(b *testing.B) {
	var rows strings.Builder
	for n := range 5000 {
		if n > 0 {
			rows.WriteByte(',')
		}
		rows.WriteString(aRow(map[string]string{"id": fmt.Sprint(n + 1), "machine_id": fmt.Sprint(n + 1)}))
	}
	answer := []byte(`{"offers":[` + rows.String() + `]}`)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	defer srv.Close()
	c, err := New(Config{Endpoint: srv.URL, Key: "k", Mark: "m", Image: "i", Pace: Intervals{Search: -1}, Now: func() events.Moment { return events.Moment{Control: at, Market: at} }})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if offers, err := c.Offers(b.Context()); err != nil || len(offers) != 10_000 {
			b.Fatalf("%d offers, %v", len(offers), err)
		}
	}
}
