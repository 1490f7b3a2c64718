package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/azure/azurefake"
	"github.com/spotferry/spotferry/events"
)

// Which rows are prices, and of what.
func TestWhichRowsArePrices(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	const plain = `{"currencyCode":"USD","tierMinimumUnits":0.0,"retailPrice":3.673,"armRegionName":"eastus","effectiveStartDate":"2026-01-01T00:00:00Z",
		"meterName":"NC24ads A100 v4","skuName":"NC24ads A100 v4","productName":"NCads A100 v4 Series","armSkuName":"Standard_NC24ads_A100_v4",
		"unitOfMeasure":"1 Hour","type":"Consumption","isPrimaryMeterRegion":true}`
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(plain) }
	spotRow := with(`"meterName":"NC24ads A100 v4"`, `"meterName":"NC24ads A100 v4 Spot"`, `"skuName":"NC24ads A100 v4"`, `"skuName":"NC24ads A100 v4 Spot"`, "3.673", "0.7346")
	for _, tc := range []struct {
		name           string
		rows           []string
		spot, onDemand events.PerInstanceHour
		unpriced       int
	}{
		{"a plain row is on demand", []string{plain}, 0, 3_673_000_000, 0},
		{"a row with Spot in both names is spot", []string{plain, spotRow}, 734_600_000, 3_673_000_000, 0},
		{"Spot in one name only is neither", []string{with(`"meterName":"NC24ads A100 v4"`, `"meterName":"NC24ads A100 v4 Spot"`)}, 0, 0, 0},
		{"Windows is not bought", []string{with("NCads A100 v4 Series", "NCads A100 v4 Series Windows")}, 0, 0, 0},
		{"hosts are not machines", []string{with("NCads A100 v4 Series", "NCads Dedicated Host")}, 0, 0, 0},
		{"low priority is of another time", []string{with(`"meterName":"NC24ads A100 v4"`, `"meterName":"NC24ads A100 v4 Low Priority"`)}, 0, 0, 0},
		{"a price of 0 is not free", []string{with("3.673", "0.0")}, 0, 0, 1},
		{"a price of null is not free", []string{with("3.673", "null")}, 0, 0, 1},
		{"a price below 0 is no gift", []string{with("3.673", "-1")}, 0, 0, 1},
		{"a price as text is read", []string{with("3.673", `"3.673"`)}, 0, 3_673_000_000, 0},
		{"a price that is words is missing", []string{with("3.673", `"call us"`)}, 0, 0, 1},
		{"a row without a size is of no machine", []string{with("Standard_NC24ads_A100_v4", "")}, 0, 0, 0},
		{"another region's row was not asked for", []string{with("eastus", "westus")}, 0, 0, 0},
		{"another currency is another price", []string{with("USD", "EUR")}, 0, 0, 0},
		{"a month is not an hour", []string{with("1 Hour", "1/Month")}, 0, 0, 0},
		{"a reservation is not consumption", []string{with("Consumption", "Reservation")}, 0, 0, 0},
		{"a meter of elsewhere is not primary", []string{with(`"isPrimaryMeterRegion":true`, `"isPrimaryMeterRegion":false`)}, 0, 0, 0},
		{"a tier above the first is for others", []string{with(`"tierMinimumUnits":0.0`, `"tierMinimumUnits":100.0`)}, 0, 0, 0},
		{"the newest counts, whatever the order", []string{with("2026-01-01", "2026-06-01", "3.673", "3.5"), plain}, 0, 3_500_000_000, 0},
		{"what begins later is not in force", []string{plain, with("2026-01-01", "2027-01-01", "3.673", "3.5")}, 0, 3_673_000_000, 0},
		{"of two as old the dearer counts", []string{plain, with("3.673", "3.5")}, 0, 3_673_000_000, 0},
		{"a row without a date is unusable", []string{with("2026-01-01T00:00:00Z", "soon")}, 0, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			all, unpriced := tariffs{}, 0
			for _, row := range tc.rows {
				var m meter
				if err := json.Unmarshal([]byte(row), &m); err != nil {
					t.Fatal(err)
				}
				if all.add(m, "eastus", now) {
					unpriced++
				}
			}
			got := func(c events.CapacityType) events.PerInstanceHour {
				return all[tariffKey("eastus", "Standard_NC24ads_A100_v4", c)].price
			}
			if got(events.Spot) != tc.spot || got(events.OnDemand) != tc.onDemand || unpriced != tc.unpriced {
				t.Errorf("spot %s, on demand %s, %d without a price; want %s, %s, %d", got(events.Spot), got(events.OnDemand), unpriced, tc.spot, tc.onDemand, tc.unpriced)
			}
		})
	}
}

// The end of a real list of prices is read as one.
func TestARecordedEmptyPageIsTheEnd(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../shared/recorded/azure-retail-prices-empty-page.json")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("the recorded answers are not here: %v", err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	defer s.Close()
	c, err := New(config(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	all := tariffs{}
	if unpriced, broken := c.tariffs(t.Context(), "eastus", all, time.Now()); broken != nil || len(all) != 0 || unpriced != 0 {
		t.Errorf("%v, %d prices, %d without; want none of all", broken, len(all), unpriced)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{PricePage: 3, PageSize: 1})
	all, err := r.client.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Pool != onDemand.Pool || all[1].Pool != spot.Pool {
		t.Fatalf("offers %+v; want on demand and spot", all)
	}
	o := all[1]
	want := spot
	want.GPU = events.GPU{Vendor: "nvidia", Model: "A100-80GB", Form: "PCIE", Count: 1, MemoryMiB: 80 << 10, Interconnect: "none", Capability: 80}
	if o.Price != want.Price || o.GPU != want.GPU || o.VCPU != 24 || o.RAMMiB != 220<<10 || o.Country != "US" ||
		o.NoticeS != 30 || o.NoticeKind != events.NoticeAzure || o.Egress != 87_000 || o.Storage != 150_000 || o.Terms.GrainS != 1 || o.Terms.MinimumS != 0 ||
		o.Trust != events.TrustDataCentre || o.Isolation != events.Passthrough {
		t.Errorf("the offer is %+v", o)
	}
	restricted := newRig(t, azurefake.Config{Restricted: []string{spot.Pool.InstanceType}})
	if all, err := restricted.client.Offers(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("with a restriction: %v, %v; want nothing", all, err)
	}
}

// Every size is a GPU that is known, and parts are not whole.
func TestSizesAreKnown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range sizes {
		g := s.identify()
		if !g.Known() || g.Count < 1 || g.MemoryMiB < 4<<10 || s.vcpu < 4 || s.ramGiB < 28 || seen[s.name] {
			t.Errorf("%s is %+v", s.name, g)
		}
		if g.Whole() != (s.isolation() == events.Passthrough) {
			t.Errorf("%s: %d hundredths, %s", s.name, g.FractionPct, s.isolation())
		}
		seen[s.name] = true
	}
	for name, want := range map[string]string{
		"Standard_ND96asr_v4": "8xA100/SXM/40960", "Standard_ND96amsr_A100_v4": "8xA100-80GB/SXM/81920", "standard_nc96ads_a100_V4": "4xA100-80GB/PCIE/81920",
		"Standard_ND96isr_H100_v5": "8xH100/SXM/81920", "Standard_NC40ads_H100_v5": "1xH100/NVL/96256", "Standard_ND96isr_H200_v5": "8xH200/SXM/144384",
		"Standard_NC4as_T4_v3": "1xT4//16384", "Standard_NV6ads_A10_v5": "1xA10//4096", "Standard_NV36ads_A10_v5": "1xA10//24576",
	} {
		s, _ := sizeOf(name)
		if g := s.identify(); fmt.Sprintf("%dx%s/%s/%d", g.Count, g.Model, g.Form, g.MemoryMiB) != want {
			t.Errorf("%s is %+v, want %s", name, g, want)
		}
	}
}

// Whatever the lists hold, reading them ends, in bounds and with an error of a read.
func TestHostileListsOfPrices(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"a page of HTML":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"half an answer":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"Items":[{"arm`)) },
		"an answer without rows": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"a link to another host": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"Items":[],"NextPageLink":"https://evil.example/api/retail/prices"}`))
		},
		"a link that is none": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"Items":[],"NextPageLink":"::"}`))
		},
		"pages that go round": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"Items":[],"NextPageLink":"http://%s/api/retail/prices?$skip=100"}`, r.Host)
		},
		"a refusal without a word":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"more than any answer can be": endless(`{"Items":[],"x":"`, 65<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(serve)
			defer s.Close()
			c, err := New(config(t, s.URL))
			if err != nil {
				t.Fatal(err)
			}
			if _, broken := c.tariffs(t.Context(), "eastus", tariffs{}, time.Now()); broken == nil || broken.Kind != provider.Transient || broken.Op != provider.OpOffers {
				t.Errorf("%v; want a transient failure of offers", broken)
			}
		})
	}
}

// endless is an answer of size bytes.
func endless(begin string, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte(begin))
		chunk := []byte(strings.Repeat("x", 1<<20))
		for n := 0; n < size && err == nil; n += len(chunk) {
			_, err = w.Write(chunk)
		}
	}
}

func TestATooFastReaderOfPricesWaits(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }))
	defer s.Close()
	c, err := New(config(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	_, broken := c.tariffs(t.Context(), "eastus", tariffs{}, time.Now())
	if broken == nil || broken.Kind != provider.Throttled || broken.RetryAfter != 3*time.Second {
		t.Errorf("%v; want throttled for 3 s", broken)
	}
	if errors.Is(broken, provider.ErrHeldBack) {
		t.Error("the call was made")
	}
}
