package awsfake

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// offers asks the seller behind what it sells, and notes zones and prices.
func (s *Server) offers(ctx context.Context) ([]events.Offer, error) {
	offers, err := s.cfg.Backend.Offers(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(offers, func(a, b events.Offer) int { return cmp.Compare(a.Pool.String(), b.Pool.String()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range offers {
		if p := o.Pool; !slices.Contains(s.zones[p.Region], p.Zone) {
			s.zones[p.Region] = append(s.zones[p.Region], p.Zone)
		}
		if o.Pool.Capacity.Reclaimable() {
			s.notePrice(o.Pool, o.Market, o.Price)
		}
	}
	return offers, nil
}

type priceKey struct{ region, zone, instanceType string }

type priceRow struct {
	at    time.Time
	price events.PerInstanceHour
}

// notePrice adds a row where the price changes; s.mu is held.
func (s *Server) notePrice(p events.Pool, at time.Time, price events.PerInstanceHour) {
	key := priceKey{p.Region, p.Zone, p.InstanceType}
	rows := s.rows[key]
	n, found := slices.BinarySearchFunc(rows, at, func(r priceRow, t time.Time) int { return r.at.Compare(t) })
	switch {
	case found:
		rows[n].price = price
	case n == 0 || rows[n-1].price != price:
		s.rows[key] = slices.Insert(rows, n, priceRow{at, price})
	}
}

// notePrices adds what a machine's own prices tell of the market.
func (s *Server) notePrices(i provider.Instance) {
	if !i.Pool.Capacity.Reclaimable() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range i.Prices {
		s.notePrice(i.Pool, p.From, p.Price)
	}
}

func (s *Server) describeSpotPriceHistory(ctx context.Context, q query) (any, error) {
	if _, err := s.offers(ctx); err != nil {
		return nil, err
	}
	start, err := moment(q.get("StartTime"))
	if err != nil {
		return nil, err
	}
	end, err := moment(q.get("EndTime"))
	if err != nil {
		return nil, err
	}
	type row struct {
		Type    string `xml:"instanceType"`
		Product string `xml:"productDescription"`
		Price   string `xml:"spotPrice"`
		At      string `xml:"timestamp"`
		Zone    string `xml:"availabilityZone"`
		ZoneID  string `xml:"availabilityZoneId"`
		at      time.Time
	}
	var rows []row
	kinds, products := q.list("InstanceType"), q.list("ProductDescription")
	s.mu.Lock()
	for key, changes := range s.rows {
		if key.region != q.region || len(kinds) > 0 && !slices.Contains(kinds, key.instanceType) || len(products) > 0 && !slices.Contains(products, linux) {
			continue
		}
		for n, c := range changes {
			last := n == len(changes)-1 || changes[n+1].at.After(start) // the one in force at the start is told too
			if !end.IsZero() && c.at.After(end) || c.at.Before(start) && !last {
				continue
			}
			rows = append(rows, row{key.instanceType, linux, sixDecimals(c.price), c.at.UTC().Format(time.RFC3339Nano), s.name(key.region, key.zone), key.zone, c.at})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ZoneID, b.ZoneID))
	})
	from, to, next, err := q.page(len(rows), s.cfg.Page)
	return struct {
		XMLName xml.Name `xml:"answer"`
		Rows    []row    `xml:"spotPriceHistorySet>item"`
		Next    string   `xml:"nextToken"`
	}{Rows: rows[from:to], Next: next}, err
}

const linux = "Linux/UNIX"

// sixDecimals is a price as EC2 writes it; one of the seller behind that is finer
// has nine, so that its bill and ours stay the same.
func sixDecimals(p events.PerInstanceHour) string {
	text := fmt.Sprintf("%d.%09d", int64(p)/1_000_000_000, int64(p)%1_000_000_000)
	return strings.TrimSuffix(text, "000")
}

func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, &fault{http.StatusBadRequest, "InvalidParameterValue", fmt.Sprintf("Invalid time %.40q", text)}
	}
	return at, nil
}

func (s *Server) describeAvailabilityZones(ctx context.Context, q query) (any, error) {
	if _, err := s.offers(ctx); err != nil {
		return nil, err
	}
	type zone struct {
		Name   string `xml:"zoneName"`
		ID     string `xml:"zoneId"`
		State  string `xml:"zoneState"`
		Region string `xml:"regionName"`
		OptIn  string `xml:"optInStatus"`
		Kind   string `xml:"zoneType"`
	}
	answer := struct {
		XMLName xml.Name `xml:"answer"`
		Zones   []zone   `xml:"availabilityZoneInfo>item"`
	}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.zones[q.region] {
		answer.Zones = append(answer.Zones, zone{s.name(q.region, id), id, "available", q.region, "opt-in-not-required", "availability-zone"})
	}
	if len(answer.Zones) > 0 { // near cities there are small ones, closed until asked for
		answer.Zones = append(answer.Zones, zone{q.region + "-city-1a", "city1-az1", "available", q.region, "not-opted-in", "local-zone"})
	}
	return answer, nil
}
