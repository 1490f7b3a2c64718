package azurefake

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

var (
	priceRegion = regexp.MustCompile(`armRegionName eq '([a-z0-9]+)'`)
	skuRegion   = regexp.MustCompile(`^location eq '([a-z0-9]+)'$`)
)

// skus are the sizes on offer, among things that are none.
func (f *Fake) skus(w http.ResponseWriter, r *http.Request) {
	m := skuRegion.FindStringSubmatch(r.URL.Query().Get("$filter"))
	if m == nil {
		refuse(w, word{status: 400, code: "InvalidFilter", message: "The filter is invalid."})
		return
	}
	all, err := f.backend.Offers(r.Context())
	if err != nil {
		fail(w, provider.OpOffers, "skus", err)
		return
	}
	rows := []any{map[string]any{"resourceType": "disks", "name": "Premium_LRS", "locations": []string{m[1]}}}
	seen := map[string]bool{}
	for _, o := range all {
		name := o.Pool.InstanceType
		if o.Pool.Region != m[1] || seen[name] {
			continue
		}
		seen[name] = true
		restrictions := []any{}
		if slices.Contains(f.cfg.Restricted, name) {
			restrictions = append(restrictions, map[string]any{"type": "Location", "values": []string{m[1]}, "reasonCode": "NotAvailableForSubscription"})
		}
		rows = append(rows, map[string]any{
			"resourceType": "virtualMachines", "name": name, "locations": []string{strings.ToUpper(m[1][:1]) + m[1][1:]}, "restrictions": restrictions,
			"capabilities": []any{
				map[string]any{"name": "vCPUs", "value": strconv.Itoa(o.VCPU)},
				map[string]any{"name": "MemoryGB", "value": strconv.Itoa(o.RAMMiB >> 10)},
				map[string]any{"name": "GPUs", "value": strconv.Itoa(o.GPU.Count)},
			},
		})
	}
	f.page(w, r, rows, true)
}

// row is a price as Azure tells it.
func row(o events.Offer, since time.Time) map[string]any {
	short := strings.ReplaceAll(strings.TrimPrefix(o.Pool.InstanceType, "Standard_"), "_", " ")
	name := short
	if o.Pool.Capacity == events.Spot {
		name += " Spot"
	}
	price := float64(o.Price) / float64(events.DollarPerHour)
	return map[string]any{
		"currencyCode": "USD", "tierMinimumUnits": 0.0, "retailPrice": price, "unitPrice": price,
		"armRegionName": o.Pool.Region, "effectiveStartDate": since.UTC().Format(time.RFC3339),
		"meterName": name, "skuName": name, "productName": "Virtual Machines Series", "armSkuName": o.Pool.InstanceType,
		"unitOfMeasure": "1 Hour", "type": "Consumption", "isPrimaryMeterRegion": true, "serviceName": "Virtual Machines",
	}
}

// decoys are rows of other markets, each of which would be a bargain.
func decoys(o events.Offer, since time.Time) []any {
	var out []any
	for _, x := range []struct {
		field string
		value any
	}{
		{"productName", "Virtual Machines Series Windows"}, {"meterName", "X Low Priority"}, {"armSkuName", ""}, {"retailPrice", 0},
		{"isPrimaryMeterRegion", false}, {"type", "Reservation"}, {"unitOfMeasure", "1/Month"}, {"currencyCode", "EUR"},
	} {
		d := row(o, since)
		if x.field != "retailPrice" {
			d["retailPrice"] = 0.01
		}
		d[x.field] = x.value
		out = append(out, d)
	}
	old := row(o, since.Add(-240*time.Hour))
	old["retailPrice"] = 0.02
	null := row(o, since)
	null["retailPrice"] = nil
	return append(out, old, null)
}

func (f *Fake) prices(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	m := priceRegion.FindStringSubmatch(q.Get("$filter"))
	from, err := strconv.Atoi("0" + q.Get("$skip"))
	if m == nil || err != nil {
		refuse(w, word{status: 400, code: "BadRequest", message: "Invalid OData parameters supplied"})
		return
	}
	all, err := f.backend.Offers(r.Context())
	if err != nil {
		fail(w, provider.OpOffers, "prices", err)
		return
	}
	rows := []any{}
	for _, o := range all {
		if o.Pool.Region == m[1] {
			since := o.Market
			if since.IsZero() {
				since = f.cfg.Now().Add(-time.Hour)
			}
			rows = append(append(rows, decoys(o, since)...), row(o, since))
		}
	}
	from = min(from, len(rows))
	to := min(from+f.cfg.PricePage, len(rows))
	var next any
	if to < len(rows) {
		q.Set("$skip", strconv.Itoa(to))
		next = "http://" + r.Host + r.URL.Path + "?" + q.Encode()
	}
	answer(w, http.StatusOK, map[string]any{
		"BillingCurrency": "USD", "CustomerEntityId": "Default", "CustomerEntityType": "Retail",
		"Items": rows[from:to], "NextPageLink": next, "Count": to - from,
	})
}
