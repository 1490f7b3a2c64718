package market

import (
	"math"
	"math/bits"

	"github.com/spotferry/spotferry/events"
)

const (
	reasonJump   = "too far from the last believed price"
	reasonPerGPU = "looks like the price of one GPU sent as that of the instance"
)

// jumped says whether two prices are times apart or more.
func jumped(a, b events.PerInstanceHour, times uint64) bool {
	low, high := uint64(min(a, b)), uint64(max(a, b))
	over, product := bits.Mul64(low, times)
	return over == 0 && high >= product
}

// perGPU says whether cheap is what one of count GPUs of an instance at dear would cost.
func (l Limits) perGPU(dear, cheap events.PerInstanceHour, count int) bool {
	return count > 1 && near(float64(dear)/float64(cheap), float64(count), l.Tolerance)
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*b }

// suspect compares a quote that is possible by itself with the last one believed
// of its pool or, for a pool never seen, with its siblings: the same type in
// another zone of the region, or one GPU of the same model.
func (l Limits) suspect(o events.Offer, last *events.Offer, siblings siblings) *Doubt {
	if last != nil {
		switch {
		case jumped(o.Price, last.Price, l.Jump):
			return doubt("price", o.Price, reasonJump)
		case l.perGPU(last.Price, o.Price, o.GPU.Count):
			return doubt("price", o.Price, reasonPerGPU)
		}
		return nil
	}
	if o.GPU.Count < 2 {
		return nil
	}
	for _, s := range siblings[kindOf(o)] {
		if s.Pool != o.Pool && l.oneOf(s, o) {
			return doubt("price", o.Price, reasonPerGPU)
		}
	}
	return nil
}

// siblings are offers by what a pool has in common with those it is compared with.
type siblings map[kind][]*events.Offer

type kind struct {
	seller, region      string
	capacity            events.CapacityType
	vendor, model, form string
}

func kindOf(o events.Offer) kind {
	return kind{o.Pool.Seller, o.Pool.Region, o.Pool.Capacity, o.GPU.Vendor, o.GPU.Model, o.GPU.Form}
}

func (s siblings) add(o *events.Offer) {
	k := kindOf(*o)
	s[k] = append(s[k], o)
}

// oneOf says whether o, of several GPUs, costs what one of them costs at the sibling.
func (l Limits) oneOf(sibling *events.Offer, o events.Offer) bool {
	if sibling.Pool.InstanceType == o.Pool.InstanceType && sibling.GPU.Count == o.GPU.Count {
		return l.perGPU(sibling.Price, o.Price, o.GPU.Count)
	}
	return sibling.GPU.Count == 1 && near(float64(o.Price), float64(sibling.Price), l.Tolerance)
}
