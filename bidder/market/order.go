package market

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/spotferry/spotferry/events"
)

// sameOffer compares all that a buyer would notice.
func sameOffer(a, b events.Offer) bool {
	stockA, stockB := a.Available(), b.Available()
	saysA, saysB := a.InStock != nil, b.InStock != nil
	a.Seen, a.Market, a.InStock = b.Seen, b.Market, b.InStock
	return a == b && stockA == stockB && saysA == saysB
}

// newer orders two quotes of one pool: effective time, then when it was seen. Of
// equals the dearer wins: it is the one that cannot disappoint. What is left
// is ordered by its text, so that no two different quotes are equal.
func newer(a, b events.Offer) bool {
	if c := cmp.Or(a.Market.Compare(b.Market), a.Seen.Compare(b.Seen), cmp.Compare(a.Price, b.Price)); c != 0 {
		return c > 0
	}
	return text(a) > text(b)
}

func text(o events.Offer) string {
	b, err := json.Marshal(o)
	if err != nil { // a year beyond 9999: checked offers have none
		return ""
	}
	return string(b)
}

func comparePools(a, b events.Pool) int {
	return cmp.Or(
		cmp.Compare(a.Seller, b.Seller), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone),
		cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Capacity, b.Capacity), cmp.Compare(a.Gang, b.Gang),
	)
}

func sortFacts(facts []events.Fact) {
	slices.SortStableFunc(facts, func(a, b events.Fact) int { return comparePools(poolOf(a), poolOf(b)) })
}

func poolOf(f events.Fact) events.Pool {
	switch f := f.(type) {
	case events.OfferChanged:
		return f.Offer.Pool
	case events.OfferExpired:
		return f.Pool
	case events.OfferQuarantined:
		return f.Pool
	}
	return events.Pool{}
}
