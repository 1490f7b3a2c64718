package gcpfake

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// What the parts besides the GPUs cost: next to nothing, so that the GPUs' price is
// what is left of the offer's.
const (
	coreNanos = 1000 // an hour
	ramNanos  = 512  // a GiB-hour
)

// sku is one price.
type sku struct {
	text, usage, unit string
	regions           []string
	nanos             int64
	since             time.Time
	broken            bool // its price is null
}

func (s sku) json(n int) map[string]any {
	price := any(map[string]any{"currencyCode": "USD", "units": strconv.FormatInt(s.nanos/1e9, 10), "nanos": s.nanos % 1e9})
	if s.broken {
		price = nil
	}
	return map[string]any{
		"name": fmt.Sprintf("services/6F81-5844-456A/skus/FAKE-%04d", n), "skuId": fmt.Sprintf("FAKE-%04d", n), "description": s.text,
		"category":       map[string]any{"serviceDisplayName": "Compute Engine", "resourceFamily": "Compute", "resourceGroup": "GPU", "usageType": s.usage},
		"serviceRegions": s.regions,
		"pricingInfo": []any{map[string]any{"effectiveTime": stamp(s.since), "pricingExpression": map[string]any{
			"usageUnit": s.unit, "tieredRates": []any{map[string]any{"startUsageAmount": 0, "unitPrice": price}},
		}}},
	}
}

// pricesOf are the prices that make up what an offer costs.
func pricesOf(o events.Offer) []sku {
	machine, kind, gpu, _ := split(o.Pool.InstanceType)
	if kind == "" || o.GPU.Count < 1 {
		return nil
	}
	region := []string{o.Pool.Region}
	usage, before, after := "OnDemand", "", " running in "
	if o.Pool.Capacity == events.Spot {
		usage, before, after = "Preemptible", "Spot Preemptible ", " attached to Spot Preemptible VMs running in "
	}
	if strings.HasPrefix(machine, "a4-") {
		// All in one, and filed under on demand whatever it is.
		return []sku{{before + gpu + " (1 gpu slice) running in " + o.Pool.Region, "OnDemand", "h", region, int64(o.Price) / int64(o.GPU.Count), o.Market, false}}
	}
	ram := (int64(o.RAMMiB)*ramNanos + 512) / 1024
	rest := int64(o.Price) - int64(o.VCPU)*coreNanos - ram
	return []sku{
		{before + family(machine) + " Instance Core running in " + o.Pool.Region, usage, "h", region, coreNanos, o.Market, false},
		{before + family(machine) + " Instance Ram running in " + o.Pool.Region, usage, "GiBy.h", region, ramNanos, o.Market, false},
		{gpu + " GPU" + after + o.Pool.Region, usage, "h", region, rest / int64(o.GPU.Count), o.Market, false},
	}
}

func family(machine string) string {
	switch {
	case strings.HasPrefix(machine, "a3-megagpu-"):
		return "A3Plus"
	case strings.HasPrefix(machine, "a3-ultragpu-"):
		return "A3Ultra"
	case strings.HasPrefix(machine, "n1-"):
		return "N1 Predefined"
	}
	f, _, _ := strings.Cut(machine, "-")
	return strings.ToUpper(f)
}

// others are prices of other markets: each would be a bargain if it were taken for
// what it is not.
func others(s sku) []sku {
	out := []sku{}
	for _, text := range []string{"Sole Tenancy ", "Reserved ", "Custom ", "DWS Defined Duration "} {
		o := s
		o.text, o.nanos = text+s.text, 1
		out = append(out, o)
	}
	commitment := s
	commitment.usage, commitment.nanos = "Commit1Yr", 1
	null := s
	null.broken = true
	return append(out, commitment, null)
}

func (f *Fake) listSKUs(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("service") != "6F81-5844-456A" {
		refuse(w, 404, "notFound", "Service not found")
		return
	}
	all, ok := f.offers(w, r)
	if !ok {
		return
	}
	seen := map[string]bool{}
	var skus []sku
	slices.SortFunc(all, func(a, b events.Offer) int { return cmp.Compare(a.Pool.String(), b.Pool.String()) })
	for _, o := range all {
		for _, s := range pricesOf(o) {
			if !seen[s.usage+s.text] && s.nanos > 0 {
				seen[s.usage+s.text] = true
				skus = append(append(skus, others(s)...), s)
			}
		}
	}
	size := f.cfg.SKUPage
	if most, err := strconv.Atoi(r.URL.Query().Get("pageSize")); err == nil && most > 0 {
		size = min(size, most)
	}
	from, to, next, ok := span(w, r.URL.Query().Get("pageToken"), size, len(skus))
	if !ok {
		return
	}
	items := []any{}
	for n, s := range skus[from:to] {
		items = append(items, s.json(from+n))
	}
	reply(w, map[string]any{"skus": items, "nextPageToken": next})
}
