package market

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spotferry/spotferry/events"
)

// Doubt is why a quote cannot be believed.
type Doubt struct {
	Field  string // as in the offer's JSON
	Value  string // at most 100 bytes
	Reason string // the same words for the same reason, whatever the value
}

// Limits say what is absurd. Zero fields mean their defaults.
type Limits struct {
	MaxPerGPUHour events.PerGPUHour // 1000 dollars
	Ahead         time.Duration     // market time that a price may begin in the future; 5 min
	Skew          time.Duration     // control time that a look may lie in the future; 1 min
	MaxTTL        time.Duration     // the longest an offer may stand without being seen again; 1 h
	Jump          uint64            // a price this many times the last one, or one in as many, is not believed; 100
	Tolerance     float64           // how near to the GPU count a ratio must be to look like per-GPU; 0.05
	Persist       int               // looks in a row after which a corroborated fall to 1/GPUs is believed; 20
}

func (l Limits) withDefaults() Limits {
	set(&l.MaxPerGPUHour, 1000*events.PerGPUHour(events.DollarPerHour))
	set(&l.Ahead, 5*time.Minute)
	set(&l.Skew, time.Minute)
	set(&l.MaxTTL, time.Hour)
	set(&l.Jump, 100)
	set(&l.Tolerance, 0.05)
	set(&l.Persist, 20)
	return l
}

func set[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

const (
	longestName = 128
	mostGPUs    = 1024
)

// Check says what is wrong with an offer by itself, or nil. A zero market time
// in now skips the check of the effective time.
func (l Limits) Check(o events.Offer, now events.Moment) *Doubt {
	l = l.withDefaults()
	for _, check := range []func(events.Offer, events.Moment) *Doubt{l.checkPool, l.checkGPU, l.checkPrice, l.checkTerms, l.checkTimes} {
		if d := check(o, now); d != nil {
			return d
		}
	}
	return nil
}

func doubt(field string, value any, reason string) *Doubt {
	s := fmt.Sprint(value)
	if v, ok := value.(string); ok {
		s = strconv.Quote(v)
	}
	return &Doubt{Field: field, Value: s[:min(len(s), 100)], Reason: reason}
}

func (l Limits) checkPool(o events.Offer, _ events.Moment) *Doubt {
	p := o.Pool
	for _, f := range []struct{ name, value string }{
		{"pool.seller", p.Seller}, {"pool.region", p.Region}, {"pool.zone", p.Zone}, {"pool.instance_type", p.InstanceType},
	} {
		switch {
		case f.value == "":
			return doubt(f.name, f.value, "empty")
		case len(f.value) > longestName:
			return doubt(f.name, f.value, "longer than 128 bytes")
		case strings.ContainsFunc(f.value, func(r rune) bool { return !unicode.IsPrint(r) }):
			return doubt(f.name, f.value, "not printable")
		}
	}
	switch p.Capacity {
	case events.Spot, events.Bid, events.OnDemand, events.Owned:
	default:
		return doubt("pool.capacity_type", string(p.Capacity), "unknown capacity type")
	}
	if p.Gang < 0 {
		return doubt("pool.gang_size", p.Gang, "negative")
	}
	return nil
}

func (l Limits) checkGPU(o events.Offer, _ events.Moment) *Doubt {
	switch {
	case o.GPU.Count < 1 || o.GPU.Count > mostGPUs:
		return doubt("gpu.count", o.GPU.Count, "not a number of GPUs")
	case o.GPU.MemoryMiB < 0:
		return doubt("gpu.memory_mib", o.GPU.MemoryMiB, "negative")
	case o.VCPU < 0 || o.RAMMiB < 0 || o.DiskGB < 0:
		return doubt("vcpu, ram_mib, disk_gb", fmt.Sprintf("%d, %d, %d", o.VCPU, o.RAMMiB, o.DiskGB), "negative")
	case o.SpeedPct < 0 || o.SpeedPct > 10_000:
		return doubt("speed_pct", o.SpeedPct, "not a relative speed")
	}
	return nil
}

func (l Limits) checkPrice(o events.Offer, _ events.Moment) *Doubt {
	switch {
	case o.Price == 0: // also what adapters make of null, "N/A" and NaN
		return doubt("price", o.Price, "missing: null, unreadable and zero are unknown, not free")
	case o.Price < 0:
		return doubt("price", o.Price, "negative")
	case o.Price.PerGPU(o.GPU.Count) > l.MaxPerGPUHour:
		return doubt("price", o.Price, "beyond any GPU's price")
	case o.Egress < 0:
		return doubt("egress_per_gb", o.Egress, "negative")
	}
	return nil
}

func (l Limits) checkTerms(o events.Offer, _ events.Moment) *Doubt {
	t := o.Terms
	const year = 365 * 24 * 3600
	for _, f := range []struct {
		name       string
		value, low int64
	}{
		{"terms.grain_s", t.GrainS, 1}, {"terms.minimum_s", t.MinimumS, 0}, {"terms.free_if_reclaimed_s", t.FreeIfReclaimedS, 0},
		{"notice_s", o.NoticeS, 0}, {"ttl_s", o.TTLS, 0},
	} {
		if f.value < f.low || f.value > year {
			return doubt(f.name, f.value, "not a usable time in seconds")
		}
	}
	return nil
}

func (l Limits) checkTimes(o events.Offer, now events.Moment) *Doubt {
	switch {
	case !now.Market.IsZero() && o.Market.After(now.Market.Add(l.Ahead)):
		return doubt("market_effective", o.Market.UTC().Format(time.RFC3339), "in the future")
	case o.Seen.After(now.Control.Add(l.Skew)):
		return doubt("observed", o.Seen.UTC().Format(time.RFC3339), "in the future")
	}
	return nil
}
