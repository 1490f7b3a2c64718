package gcp

import (
	"encoding/json"
	"testing"

	"google.golang.org/api/cloudbilling/v1"

	"github.com/spotferry/spotferry/events"
)

// priceOf is a SKU as Google writes it.
func priceOf(t *testing.T, text, usage, unit, price string) *cloudbilling.Sku {
	t.Helper()
	raw := `{"description":` + quoted(text) + `,"category":{"resourceFamily":"Compute","usageType":"` + usage + `"},"serviceRegions":["us-central1","us-east1"],
	 "pricingInfo":[{"effectiveTime":"2026-11-30T08:00:00.123Z","pricingExpression":{"usageUnit":"` + unit + `","tieredRates":[` + price + `]}}]}`
	var s cloudbilling.Sku
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return &s
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

func TestWhatASKUIsAPriceOf(t *testing.T) {
	t.Parallel()
	const od, pre = "OnDemand", "Preemptible"
	for _, tc := range []struct {
		text, usage string
		want        part
		no          bool
	}{
		{"A2 Instance Core running in Americas", od, part{kind: "core", name: "a2"}, false},
		{"Spot Preemptible A2 Instance Ram running in Iowa", pre, part{kind: "ram", name: "a2", spot: true}, false},
		{"Nvidia Tesla A100 GPU running in Americas", od, part{kind: "gpu", name: "tesla a100"}, false},
		{"Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Iowa", pre, part{kind: "gpu", name: "tesla a100", spot: true}, false},
		{"Nvidia Tesla A100 80GB GPU attached to Spot Preemptible VMs running in Iowa", pre, part{kind: "gpu", name: "tesla a100 80gb", spot: true}, false},
		{"Nvidia L4 GPU running in Belgium", od, part{kind: "gpu", name: "l4"}, false},
		{"Nvidia H100 80GB GPU running in Iowa", od, part{kind: "gpu", name: "h100 80gb"}, false},
		{"Nvidia H100 80GB Plus GPU running in Iowa", od, part{kind: "gpu", name: "h100 80gb plus"}, false},
		{"Nvidia H100 80GB Mega GPU attached to Spot Preemptible VMs", pre, part{kind: "gpu", name: "h100 80gb mega", spot: true}, false},
		{"A3 Instance Core running in Iowa", od, part{kind: "core", name: "a3"}, false},
		{"A3Plus Instance Core running in Iowa", od, part{kind: "core", name: "a3plus"}, false},
		{"Spot Preemptible A3Ultra Instance Ram running in Iowa", pre, part{kind: "ram", name: "a3ultra", spot: true}, false},
		{"G2 Instance Core running in Iowa", od, part{kind: "core", name: "g2"}, false},
		{"Spot Preemptible N1 Predefined Instance Ram running in Iowa", pre, part{kind: "ram", name: "n1 predefined", spot: true}, false},
		{"A4 Nvidia B200 (1 gpu slice) running in Iowa", od, part{kind: "slice", name: "b200"}, false},
		{"Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Iowa", od, part{kind: "slice", name: "b200", spot: true}, false}, // filed wrongly
		{"SSD backed Local Storage", od, part{kind: "ssd"}, false},
		{"SSD backed Local Storage attached to Spot Preemptible VMs", pre, part{kind: "ssd", spot: true}, false},
		{"Sole Tenancy Premium for A2 Instance Core running in Iowa", od, part{}, true},
		{"Reserved Nvidia Tesla A100 GPU in Iowa", od, part{}, true},
		{"Nvidia H100 80GB GPU DWS Defined Duration running in Iowa", od, part{}, true},
		{"N1 Custom Instance Core running in Iowa", od, part{}, true},
		{"Commitment v1: Nvidia Tesla A100 GPU running in Iowa for 1 Year", "Commit1Yr", part{}, true},
		{"Commitment v1: A2 Cpu in Iowa", od, part{}, true},
		{"Nvidia Tesla A100 GPU in a suspended VM", od, part{}, true},
		{"E2 Instance Core running in Iowa", od, part{}, true},
		{"Network Internet Egress from Iowa", od, part{}, true},
		{"", od, part{}, true},
	} {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			got, ok := partOf(priceOf(t, tc.text, tc.usage, "h", ""))
			if ok == tc.no || ok && got != tc.want {
				t.Errorf("partOf = %+v, %v; want %+v", got, ok, tc.want)
			}
		})
	}
	if _, ok := partOf(nil); ok {
		t.Error("a null SKU is a price")
	}
	if _, ok := partOf(&cloudbilling.Sku{Description: "A2 Instance Core"}); ok {
		t.Error("a SKU without category is a price")
	}
}

func TestWhatAUnitCosts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, price string
		want        int64 // 0: unknown
	}{
		{"units and nanos", `{"unitPrice":{"currencyCode":"USD","units":"2","nanos":933908000}}`, 2_933_908_000},
		{"nanos alone", `{"unitPrice":{"nanos":31611000}}`, 31_611_000},
		{"units alone", `{"unitPrice":{"units":"3"}}`, 3_000_000_000},
		{"a free tier before the price", `{"startUsageAmount":0,"unitPrice":{"units":"0","nanos":0}},{"startUsageAmount":1,"unitPrice":{"units":"0","nanos":5}}`, 5},
		{"nothing", `{"unitPrice":{"units":"0","nanos":0}}`, 0},
		{"null", `{"unitPrice":null}`, 0},
		{"a null tier", `null`, 0},
		{"no tier", ``, 0},
		{"negative units", `{"unitPrice":{"units":"-1","nanos":5}}`, 0},
		{"negative nanos", `{"unitPrice":{"units":"1","nanos":-5}}`, 0},
		{"nanos beyond a unit", `{"unitPrice":{"units":"1","nanos":1000000000}}`, 0},
		{"absurd units", `{"unitPrice":{"units":"9223372036854775807"}}`, 0},
		{"another currency", `{"unitPrice":{"currencyCode":"EUR","units":"1"}}`, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, ok := rateOf(priceOf(t, "x", "OnDemand", "h", tc.price), "h")
			if ok != (tc.want > 0) || ok && (r.nanos != tc.want || r.since.IsZero()) {
				t.Errorf("rateOf = %+v, %v; want %d", r, ok, tc.want)
			}
		})
	}
	if _, ok := rateOf(priceOf(t, "x", "OnDemand", "mo", `{"unitPrice":{"units":"1"}}`), "h"); ok {
		t.Error("a price a month was taken for one an hour")
	}
}

func TestWhatAMachineCosts(t *testing.T) {
	t.Parallel()
	all := prices{}
	for _, s := range []struct{ text, usage, unit, price string }{
		{"A2 Instance Core running in Iowa", "OnDemand", "h", `{"unitPrice":{"nanos":31611000}}`},
		{"A2 Instance Ram running in Iowa", "OnDemand", "GiBy.h", `{"unitPrice":{"nanos":4237000}}`},
		{"Nvidia Tesla A100 GPU running in Iowa", "OnDemand", "h", `{"unitPrice":{"units":"2","nanos":933908000}}`},
		{"Nvidia Tesla A100 80GB GPU running in Iowa", "OnDemand", "h", `{"unitPrice":{"units":"3","nanos":928600000}}`},
		{"SSD backed Local Storage", "OnDemand", "GiBy.mo", `{"unitPrice":{"nanos":80000000}}`},
		{"A2 Instance Core running in Iowa", "OnDemand", "h", `{"unitPrice":{"nanos":1}}`}, // twice: the dearer counts
		{"Spot Preemptible A2 Instance Core running in Iowa", "Preemptible", "h", `{"unitPrice":{"nanos":9483300}}`},
		{"Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Iowa", "Preemptible", "h", `{"unitPrice":{"nanos":880172400}}`},
		{"Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Iowa", "OnDemand", "h", `{"unitPrice":{"units":"2","nanos":100000000}}`},
	} {
		if !all.add(priceOf(t, s.text, s.usage, s.unit, s.price)) {
			t.Errorf("%q was not taken", s.text)
		}
	}
	a2 := shape{name: "a2-highgpu-1g", vcpu: 12, ramMiB: 85 << 10, gpu: "nvidia-tesla-a100", gpus: 1}
	ultra := shape{name: "a2-ultragpu-1g", vcpu: 12, ramMiB: 170 << 10, ssdGiB: 375, gpu: "nvidia-a100-80gb", gpus: 1}
	for _, tc := range []struct {
		name   string
		s      shape
		region string
		spot   bool
		want   int64
	}{
		{"cores, memory and a GPU", a2, "us-central1", false, 12*31_611_000 + 85*4_237_000 + 2_933_908_000},
		{"with a disk of its own", ultra, "us-east1", false, 12*31_611_000 + 170*4_237_000 + 3_928_600_000 + 41_095_890},
		{"spot, whose memory has no price", a2, "us-central1", true, 0},
		{"in a region that has no prices", a2, "us-west1", false, 0},
		{"all in one, by the slice", shape{name: "a4-highgpu-8g", vcpu: 224, ramMiB: 1 << 20, ssdGiB: 12000, gpu: "nvidia-b200", gpus: 8}, "us-east1", true, 8 * 2_100_000_000},
		{"the slice is spot only", shape{name: "a4-highgpu-8g", vcpu: 224, ramMiB: 1 << 20, gpu: "nvidia-b200", gpus: 8}, "us-east1", false, 0},
		{"a GPU without a price", shape{name: "a2-new-1g", vcpu: 12, ramMiB: 1 << 20, gpu: "nvidia-x900", gpus: 1}, "us-east1", false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := all.of(tc.s, tc.region, tc.spot)
			if ok != (tc.want > 0) || got.nanos != tc.want {
				t.Errorf("of = %s, %v; want %s", events.PerInstanceHour(got.nanos), ok, events.PerInstanceHour(tc.want))
			}
		})
	}
}

func TestWhatIsSoldOnDemand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		gpus int
		want bool
	}{
		{"a2-highgpu-1g", 1, true}, {"a2-ultragpu-8g", 8, true}, {"g2-standard-4", 1, true}, {"n1-standard-8", 1, true},
		{"a3-highgpu-8g", 8, true}, {"a3-highgpu-4g", 4, false}, {"a3-highgpu-1g", 1, false}, {"a3-megagpu-8g", 8, true},
		{"a3-ultragpu-8g", 8, false}, {"a4-highgpu-8g", 8, false}, {"a4x-highgpu-4g", 4, false},
	} {
		if got := (shape{name: tc.name, gpus: tc.gpus}).onDemand(); got != tc.want {
			t.Errorf("%s with %d GPUs is sold on demand: %v, want %v", tc.name, tc.gpus, got, tc.want)
		}
	}
}

func TestGPUsAreIdentified(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ kind, model, form string }{
		{"nvidia-tesla-t4", "T4", ""}, {"nvidia-tesla-v100", "V100", ""}, {"nvidia-l4", "L4", ""},
		{"nvidia-tesla-a100", "A100", "SXM"}, {"nvidia-a100-80gb", "A100-80GB", "SXM"},
		{"nvidia-h100-80gb", "H100", "SXM"}, {"nvidia-h100-mega-80gb", "H100", "SXM"},
		{"nvidia-h200-141gb", "H200", "SXM"}, {"nvidia-b200", "B200", ""},
	} {
		g := shape{gpu: tc.kind, gpus: 8}.identify()
		if !g.Known() || g.Model != tc.model || g.Form != tc.form || g.Count != 8 {
			t.Errorf("%s is %+v, want %s %s", tc.kind, g, tc.model, tc.form)
		}
	}
	if g := (shape{gpu: "nvidia-x900", gpus: 1}).identify(); g.Known() || g.Model != "nvidia-x900" {
		t.Errorf("a GPU unheard of is %+v", g)
	}
}
