package aws

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotferry/spotferry/events"
)

// plainLinux is the product whose prices count. The others are dearer, or double it.
const plainLinux = types.RIProductDescriptionLinuxUnix

// place is where a spot price holds.
type place struct{ instanceType, zone string }

// change is a price and since when it holds.
type change struct {
	at    time.Time
	price events.PerInstanceHour
}

// history is a region's spot prices as far as they were asked for. What has been
// does not change any more, so only what came since is asked for again.
type history struct {
	mu      sync.Mutex
	changes map[place][]change // oldest first
	known   map[string]span    // by instance type: between these every change is here
}

type span struct{ from, to time.Time }

func newHistory() history {
	return history{changes: map[place][]change{}, known: map[string]span{}}
}

// mostChanges bounds what is kept of one place.
const mostChanges = 2000

func (h *history) note(p place, c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.changes[p]
	n, found := slices.BinarySearchFunc(list, c, func(a, b change) int { return a.at.Compare(b.at) })
	if found {
		list[n] = c
		return
	}
	list = slices.Insert(list, n, c)
	if len(list) > mostChanges {
		list = slices.Delete(list, 0, len(list)-mostChanges)
	}
	h.changes[p] = list
}

// missing is since when the types' prices have to be asked for, so that all are known since from.
func (h *history) missing(types []string, from time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	start := from
	for n, t := range types {
		s, ok := h.known[t]
		if !ok || s.from.After(from) {
			return from
		}
		if n == 0 || s.to.Before(start) {
			start = s.to
		}
	}
	return start
}

func (h *history) cover(types []string, s span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range types {
		whole := s
		if old, ok := h.known[t]; ok && old.from.Before(s.from) && !old.to.Before(s.from) {
			whole.from = old.from
		}
		h.known[t] = whole
	}
}

// between is what a machine costs that lives at p from start until end, zero if
// it still does: its first price, and the changes in between.
func (h *history) between(p place, start, end time.Time) []events.PriceFrom {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.changes[p]
	if len(list) == 0 {
		return nil
	}
	n, found := slices.BinarySearchFunc(list, start, func(c change, t time.Time) int { return c.at.Compare(t) })
	if !found {
		n = max(n-1, 0) // the one before, or the oldest there is
	}
	out := []events.PriceFrom{{From: start, Price: list[n].price}}
	for _, c := range list[n+1:] {
		if !end.IsZero() && !c.at.Before(end) {
			break
		}
		if c.price != out[len(out)-1].Price && c.at.After(start) {
			out = append(out, events.PriceFrom{From: c.at, Price: c.price})
		}
	}
	return out
}

// late is how long after a change it may still be missing from the history, market time.
const late = 10 * time.Minute

// learn makes the history whole for the types since from. now is market time.
func (r *region) learn(ctx context.Context, z zones, instanceTypes []string, from, now time.Time) error {
	slices.Sort(instanceTypes)
	instanceTypes = slices.Compact(instanceTypes)
	for some := range slices.Chunk(instanceTypes, perCall) {
		start := r.history.missing(some, from)
		rows, err := r.askPrices(ctx, z, some, start)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if price, ok := readable(row.text); ok {
				r.history.note(row.place, change{row.at, price})
			}
		}
		until := now.Add(-late)
		if until.Before(start) {
			until = start
		}
		r.history.cover(some, span{start, until})
	}
	return nil
}

// row is one row of the price history.
type row struct {
	place
	at   time.Time
	text string // dollars an hour
}

// askPrices returns every change since start, and the last one before it, newest
// first. No types are all.
func (r *region) askPrices(ctx context.Context, z zones, instanceTypes []string, start time.Time) ([]row, error) {
	in := &ec2.DescribeSpotPriceHistoryInput{ProductDescriptions: []string{string(plainLinux)}, StartTime: &start}
	for _, t := range instanceTypes {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(t))
	}
	var rows []row
	err := pages(func(token *string) (*string, error) {
		in.NextToken = token
		out, err := r.ec2.DescribeSpotPriceHistory(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, p := range out.SpotPriceHistory {
			if got, ok := readRow(p, z); ok {
				rows = append(rows, got)
			}
		}
		return out.NextToken, nil
	})
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.instanceType, b.instanceType), cmp.Compare(a.zone, b.zone), b.at.Compare(a.at))
	})
	return rows, err
}

// readRow is a row in our terms; false if it is of another product, or does not
// say of what, where and when it is. Old rows name their zone only.
func readRow(p types.SpotPrice, z zones) (row, bool) {
	id := aws.ToString(p.AvailabilityZoneId)
	if id == "" {
		id = z.idOf[aws.ToString(p.AvailabilityZone)]
	}
	if _, ours := z.nameOf[id]; !ours || p.Timestamp == nil || p.InstanceType == "" || p.ProductDescription != plainLinux {
		return row{}, false
	}
	return row{place{string(p.InstanceType), id}, p.Timestamp.UTC(), aws.ToString(p.SpotPrice)}, true
}

// readable is a price of more than nothing; what else stands there is no price.
func readable(text string) (events.PerInstanceHour, bool) {
	price, err := events.ParsePerInstanceHour(text)
	return price, err == nil && price > 0
}
