package gcp

import (
	"regexp"
	"strings"
	"time"

	"google.golang.org/api/cloudbilling/v1"

	"github.com/spotferry/spotferry/events"
)

// part is one of the things that make up a machine's price.
type part struct {
	kind   string // "core", "ram", "gpu", "slice", "ssd"
	name   string // the family of a core or ram, the GPU of the others; "" for ssd
	region string
	spot   bool
}

// rate is what one unit costs: a core-hour, a GiB-hour, a GPU-hour, or a GiB-month of ssd.
type rate struct {
	nanos int64
	since time.Time
}

// prices are the parts' rates.
type prices map[part]rate

// Of these SKUs the words tell that they are of another market.
var otherMarkets = []string{
	"sole tenancy", "reserved", "reservation", "premium", "custom", "commitment", "dws", "suspended", "calendar mode", "flex start",
}

var (
	slicePrice = regexp.MustCompile(`nvidia ([a-z0-9 ]+?) \(1 gpu slice\)`)
	gpuPrice   = regexp.MustCompile(`nvidia ([a-z0-9 ]+?) gpu\b`)
	ownPrice   = regexp.MustCompile(`\b(a2|a3|a3plus|a3ultra|a4|a4x|g2|n1 predefined) instance (core|ram)\b`)
)

// maxRate is dearer than any part is.
const maxRate = 10_000 * int64(events.DollarPerHour)

// add takes a SKU, if it is one of the parts, and says whether it was one. Of two
// that name the same part the dearer counts.
func (all prices) add(s *cloudbilling.Sku) bool {
	p, ok := partOf(s)
	if !ok {
		return false
	}
	r, ok := rateOf(s, units[p.kind])
	if !ok {
		return false
	}
	for _, region := range s.ServiceRegions {
		p.region = region
		if old, ok := all[p]; !ok || old.nanos < r.nanos {
			all[p] = r
		}
	}
	return true
}

// partOf says what a SKU is a price of; its region is left open. Whether it is of spot
// machines the description tells too: some of those are filed as on demand.
func partOf(s *cloudbilling.Sku) (part, bool) {
	if s == nil || s.Category == nil {
		return part{}, false
	}
	text := strings.ToLower(s.Description)
	usage := s.Category.UsageType
	if usage != "OnDemand" && usage != "Preemptible" {
		return part{}, false
	}
	for _, w := range otherMarkets {
		if strings.Contains(text, w) {
			return part{}, false
		}
	}
	p := part{spot: usage == "Preemptible" || strings.Contains(text, "preemptible")}
	if m := slicePrice.FindStringSubmatch(text); m != nil {
		p.kind, p.name = "slice", m[1]
	} else if m := gpuPrice.FindStringSubmatch(text); m != nil {
		p.kind, p.name = "gpu", m[1]
	} else if m := ownPrice.FindStringSubmatch(text); m != nil {
		p.kind, p.name = m[2], m[1]
	} else if strings.HasPrefix(strings.TrimPrefix(text, "spot preemptible "), "ssd backed local storage") {
		p.kind = "ssd"
	}
	return p, p.kind != ""
}

// units are what the parts are counted in.
var units = map[string]string{"core": "h", "ram": "GiBy.h", "gpu": "h", "slice": "h", "ssd": "GiBy.mo"}

// rateOf is a SKU's price, if there is one in dollars a unit. Nothing is free:
// a price of nothing is one that is not known.
func rateOf(s *cloudbilling.Sku, unit string) (rate, bool) {
	if len(s.PricingInfo) == 0 {
		return rate{}, false
	}
	newest := s.PricingInfo[len(s.PricingInfo)-1]
	if newest == nil || newest.PricingExpression == nil || newest.PricingExpression.UsageUnit != unit {
		return rate{}, false
	}
	r := rate{since: moment(newest.EffectiveTime)}
	for _, tier := range newest.PricingExpression.TieredRates {
		if tier == nil || tier.UnitPrice == nil {
			continue
		}
		m := tier.UnitPrice
		if m.CurrencyCode != "" && m.CurrencyCode != "USD" || m.Units < 0 || m.Nanos < 0 || m.Nanos >= 1e9 || m.Units > maxRate/1e9 {
			return rate{}, false
		}
		r.nanos = max(r.nanos, m.Units*1e9+m.Nanos)
	}
	return r, r.nanos > 0
}

// hoursPerMonth is how many Google counts.
const hoursPerMonth = 730

// of is what a machine costs an hour, and since when. It is not known if one part is missing.
func (all prices) of(s shape, region string, spot bool) (rate, bool) {
	gpus := acceleratorOf(s.gpu).prices
	if slice, ok := all.first("slice", gpus, region, spot); ok {
		return rate{slice.nanos * int64(s.gpus), slice.since}, true
	}
	wanted := []struct {
		kind   string
		names  []string
		amount int64
		per    int64
	}{
		{"core", []string{s.family()}, int64(s.vcpu), 1},
		{"ram", []string{s.family()}, int64(s.ramMiB), 1024},
		{"gpu", gpus, int64(s.gpus), 1},
		{"ssd", []string{""}, int64(s.ssdGiB), hoursPerMonth},
	}
	var sum rate
	for _, w := range wanted {
		if w.amount == 0 {
			continue
		}
		r, ok := all.first(w.kind, w.names, region, spot)
		if !ok {
			return rate{}, false
		}
		cost, ok := scaled(r.nanos, w.amount, w.per)
		if !ok {
			return rate{}, false
		}
		sum.nanos += cost
		if r.since.After(sum.since) {
			sum.since = r.since
		}
	}
	return sum, true
}

// scaled is nanos x amount / per, half rounded up; ok is false beyond any price.
func scaled(nanos, amount, per int64) (int64, bool) {
	if nanos > (1<<62)/amount {
		return 0, false
	}
	return (nanos*amount + per/2) / per, true
}

func (all prices) first(kind string, names []string, region string, spot bool) (rate, bool) {
	for _, n := range names {
		if r, ok := all[part{kind, n, region, spot}]; ok {
			return r, true
		}
	}
	return rate{}, false
}
