package market

import (
	"math"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Rate is a hazard with what stands behind it.
type Rate struct {
	PerHour  float64 // reclaims per market hour
	Reclaims float64 // observed in the pool, weighted by age
	Hours    float64 // of exposure in the pool, weighted by age
	N        int     // machines of the pool that were this old, ever
}

// Risk is what is known of a pool.
type Risk [ages]Rate

// Risk estimates a pool at now (market). Each age's hazard is the pool's own
// count and time, with one reclaim's worth of the pools of the same seller, type and
// capacity as prior, and those with one reclaim's worth of the configured prior.
// Capacity that no seller takes back has no prior: its hazard is what was observed.
func (r *ReclaimRate) Risk(p events.Pool, now time.Time) Risk {
	records := r.at(now)
	var risk Risk
	for a := range ages {
		own := records[p][a]
		var kin tally
		for _, q := range sortedPools(records) {
			if q != p && q.Seller == p.Seller && q.InstanceType == p.InstanceType && q.Capacity == p.Capacity {
				kin.Reclaims += records[q][a].Reclaims
				kin.Hours += records[q][a].Hours
			}
		}
		risk[a] = Rate{Reclaims: own.Reclaims, Hours: own.Hours, N: own.N}
		switch {
		case p.Capacity.Reclaimable():
			risk[a].PerHour = shrink(own, shrink(kin, r.cfg.Prior[a]))
		case own.Reclaims > 0 && own.Hours > 0:
			risk[a].PerHour = own.Reclaims / own.Hours
		}
	}
	return risk
}

// shrink is the rate of t with one pseudo-reclaim at the prior's rate.
func shrink(t tally, prior float64) float64 {
	return (t.Reclaims + 1) / (t.Hours + 1/prior)
}

// at returns the tallies as they weigh at now, with the leases that live counted so far.
func (r *ReclaimRate) at(now time.Time) map[events.Pool]record {
	out := make(map[events.Pool]record, len(r.pools))
	for p, rec := range r.pools {
		aged := *rec
		for a := range aged {
			aged[a].age(now, r.cfg.HalfLife)
		}
		out[p] = aged
	}
	leases := make([]events.LeaseID, 0, len(r.open))
	for lease, x := range r.open {
		if !x.start.IsZero() && x.start.Before(now) && x.pool != (events.Pool{}) {
			leases = append(leases, lease)
		}
	}
	slices.Sort(leases) // sums of floats depend on their order
	for _, lease := range leases {
		x := r.open[lease]
		rec := out[x.pool]
		rec.add(x.start, now, false, r.cfg.HalfLife)
		out[x.pool] = rec
	}
	return out
}

func sortedPools[V any](m map[events.Pool]V) []events.Pool {
	out := make([]events.Pool, 0, len(m))
	for p := range m {
		out = append(out, p)
	}
	slices.SortFunc(out, comparePools)
	return out
}

// Hazard is reclaims per market hour at an age.
func (k Risk) Hazard(age time.Duration) float64 {
	if age < YoungFor {
		return k[Young].PerHour
	}
	return k[Old].PerHour
}

// MeanResidual is how many more market hours a machine of this age can be
// expected to live; 0 when no end is known, because its hazard is zero.
func (k Risk) MeanResidual(age time.Duration) float64 {
	old := k[Old].PerHour
	if old <= 0 {
		return 0
	}
	left := max(YoungFor-age, 0).Hours()
	h := k[Young].PerHour
	if left == 0 {
		return 1 / old
	}
	if h <= 0 {
		return left + 1/old
	}
	survive := math.Exp(-h * left)
	return (1-survive)/h + survive/old
}

// Survival is the probability that a machine of this age lives for more.
func (k Risk) Survival(age, more time.Duration) float64 {
	young := min(max(YoungFor-age, 0), more)
	return math.Exp(-k[Young].PerHour*young.Hours() - k[Old].PerHour*(more-young).Hours())
}
