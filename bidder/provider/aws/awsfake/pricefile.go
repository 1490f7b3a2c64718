package awsfake

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// PriceFile is what is sold on demand, as the bulk price file has it: five lines
// that disclaim, a header, and lines of which most are of no interest.
func (s *Server) PriceFile(ctx context.Context) ([]byte, error) {
	offers, err := s.offers(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("\"FormatVersion\",\"v1.0\"\n\"Disclaimer\",\"These prices are of a fake.\"\n" +
		"\"Publication Date\",\"2026-11-30T00:00:00Z\"\n\"Version\",\"20261130000000\"\n\"OfferCode\",\"AmazonEC2\"\n")
	line := func(fields ...string) {
		b.WriteString("\"" + strings.Join(fields, "\",\"") + "\"\n")
	}
	line("SKU", "TermType", "EffectiveDate", "Unit", "PricePerUnit", "Currency", "Instance Type", "Tenancy",
		"Operating System", "Region Code", "CapacityStatus", "Pre Installed S/W")
	for n, o := range offers {
		if o.Pool.Capacity != events.OnDemand {
			continue
		}
		price := fmt.Sprintf("%d.%09d0", o.Price/events.DollarPerHour, o.Price%events.DollarPerHour)
		since := o.Market.UTC().Format(time.DateOnly)
		kind, region := o.Pool.InstanceType, o.Pool.Region
		sku := fmt.Sprintf("SKU%013d", n)
		line(sku, "OnDemand", since, "Hrs", price, "USD", kind, "Shared", "Linux", region, "Used", "NA")
		line(sku, "OnDemand", since, "Hrs", price, "USD", kind, "Dedicated", "Linux", region, "Used", "NA")
		line(sku, "OnDemand", since, "Hrs", "0.0000000000", "USD", kind, "Shared", "Linux", region, "UnusedCapacityReservation", "NA")
		line(sku, "OnDemand", since, "Hrs", "9.9900000000", "USD", kind, "Shared", "Windows", region, "Used", "NA")
		line(sku, "OnDemand", since, "Hrs", "8.8800000000", "USD", kind, "Shared", "Linux", region, "Used", "SQL Std")
		line(sku, "Reserved", since, "Hrs", "0.1000000000", "USD", kind, "Shared", "Linux", region, "Used", "NA")
	}
	return []byte(b.String()), nil
}
