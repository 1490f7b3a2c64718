package trace

import "time"

// draws is a stream of numbers that follow from a seed and names, and from
// nothing else: SplitMix64 over an FNV-1a hash of the names. It is written out
// here because a market must be the same under every release of Go.
type draws struct{ state uint64 }

func drawsFor(seed uint64, names ...string) *draws {
	h := uint64(14695981039346656037)
	for _, n := range names {
		for i := range len(n) {
			h = (h ^ uint64(n[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // names are kept apart
	}
	return &draws{mix(h) ^ mix(seed+0x9e3779b97f4a7c15)}
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (d *draws) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return mix(d.state)
}

// unit is uniform in [0, 1).
func (d *draws) unit() float64 { return float64(d.next()>>11) / (1 << 53) }

// chance is true with probability p.
func (d *draws) chance(p float64) bool { return d.unit() < p }

// between is uniform in [lo, hi), to the millisecond.
func (d *draws) between(lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(d.unit()*float64(hi-lo))).Truncate(time.Millisecond)
}

// at returns the i-th number of a family, without the ones before it.
func at(family uint64, i int64) uint64 { return mix(family + uint64(i)*0x9e3779b97f4a7c15) }
