package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// meter is one row of the retail prices.
type meter struct {
	Size     string      `json:"armSkuName"`
	Region   string      `json:"armRegionName"`
	Meter    string      `json:"meterName"`
	SKU      string      `json:"skuName"`
	Product  string      `json:"productName"`
	Price    wire.Number `json:"retailPrice"`
	Unit     string      `json:"unitOfMeasure"`
	Type     string      `json:"type"`
	Since    string      `json:"effectiveStartDate"`
	Primary  *bool       `json:"isPrimaryMeterRegion"`
	Currency string      `json:"currencyCode"`
	Tier     wire.Number `json:"tierMinimumUnits"`
}

// list is a page of them.
type list struct {
	Items *[]json.RawMessage `json:"Items"`
	Next  *string            `json:"NextPageLink"`
}

// tariff is what a size costs in a region.
type tariff struct {
	price events.PerInstanceHour
	since time.Time
}

// tariffs are by region/size/capacity.
type tariffs map[string]tariff

func tariffKey(region, size string, c events.CapacityType) string {
	return region + "/" + strings.ToLower(size) + "/" + string(c)
}

// capacity is what a row sells, "" if it is none of our business: Windows, hosts of
// one's own, the old low priority, reservations.
func (m meter) capacity() events.CapacityType {
	words := m.Product + " " + m.Meter + " " + m.SKU
	for _, no := range []string{"Windows", "Dedicated", "Low Priority", "CloudServices"} {
		if strings.Contains(words, no) {
			return ""
		}
	}
	spotMeter, spotSKU := strings.Contains(m.Meter, "Spot"), strings.Contains(m.SKU, "Spot")
	switch {
	case m.Type != "Consumption", m.Unit != "1 Hour", m.Primary != nil && !*m.Primary, m.Tier.Int() > 0:
		return ""
	case m.Currency != "" && m.Currency != "USD", spotMeter != spotSKU:
		return ""
	case spotMeter:
		return events.Spot
	}
	return events.OnDemand
}

// add takes a row, and says whether it lacks a price that it should have. Of several
// the newest that is in force counts, and of those as old the dearest.
func (all tariffs) add(m meter, region string, now time.Time) (unpriced bool) {
	capacity := m.capacity()
	if capacity == "" || m.Size == "" || m.Region != region {
		return false
	}
	nanos, ok := m.Price.Scaled(int64(events.DollarPerHour))
	since, err := time.Parse(time.RFC3339, m.Since)
	switch {
	case !ok || nanos <= 0 || err != nil:
		return true
	case since.After(now):
		return false
	}
	key := tariffKey(region, m.Size, capacity)
	old, known := all[key]
	next := tariff{events.PerInstanceHour(nanos), since.UTC()}
	if !known || next.since.After(old.since) || next.since.Equal(old.since) && next.price > old.price {
		all[key] = next
	}
	return false
}

const pricePath = "/api/retail/prices"

// tariffs reads what a region's machines cost.
func (c *Client) tariffs(ctx context.Context, region string, all tariffs, now time.Time) (unpriced int, _ *provider.Error) {
	first := url.Values{"$filter": {"serviceName eq 'Virtual Machines' and armRegionName eq '" + region + "' and priceType eq 'Consumption'"}}
	var broken *provider.Error
	err := pages(func(link string) (string, error) {
		q := wire.Question{Method: http.MethodGet, Path: pricePath, Query: first, Most: wire.MostOffers}
		if link != "" {
			u, err := c.samePlace(link)
			if err != nil {
				return "", err
			}
			q.Path, q.Query = u.EscapedPath(), u.Query()
		}
		a, err := c.prices.Ask(ctx, q)
		if err != nil {
			broken = wire.Broken(ctx, provider.OpOffers, err)
			return "", err
		}
		if !a.OK() {
			broken = refused(a)
			return "", broken
		}
		var page list
		err = json.Unmarshal(a.Body, &page)
		if err == nil && page.Items == nil {
			err = errNoRows
		}
		if err != nil {
			broken = wire.Garbled(provider.OpOffers, a, err)
			return "", broken
		}
		for _, raw := range *page.Items {
			var m meter
			if json.Unmarshal(raw, &m) != nil || all.add(m, region, now) {
				unpriced++
			}
		}
		return text(page.Next), nil
	})
	if err != nil && broken == nil {
		broken = &provider.Error{Kind: provider.Transient, Op: provider.OpOffers, Scope: "seller", Code: "unreadable", Err: err}
	}
	return unpriced, broken
}

// samePlace reads a link to the page after, which has to stay where the pages are.
func (c *Client) samePlace(link string) (*url.URL, error) {
	u, err := url.Parse(link)
	if err != nil {
		return nil, errors.New("the link to the next page cannot be read")
	}
	base, err := url.Parse(c.cfg.Prices)
	// The real service writes its port into links: https://prices.azure.com:443/...
	if err != nil || u.Hostname() != base.Hostname() || port(u) != port(base) || u.Path != pricePath {
		return nil, fmt.Errorf("%w: %q", errForeign, wire.Clip(u.Host))
	}
	return u, nil
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// refused is a refusal of the prices. There is nobody to be authorised.
func refused(a wire.Answer) *provider.Error {
	said := answer{status: a.Status, text: wire.Excerpt(a.Body), wait: retryAfter(&http.Response{Header: a.Header})}
	e := classify(provider.OpOffers, said)
	if e.Kind == provider.Throttled {
		e.RetryAfter = max(e.RetryAfter, 3*time.Second)
	}
	if e.Kind != provider.Throttled && e.Kind != provider.Invalid {
		e.Kind, e.Scope = provider.Transient, "seller"
	}
	return e
}
