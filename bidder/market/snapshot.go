package market

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// rateState is a ReclaimRate as JSON, in an order of its own, so that equal
// measurements are equal bytes.
type rateState struct {
	HalfLifeS int64        `json:"half_life_s"`
	AsOf      time.Time    `json:"market_as_of"`
	Pools     []poolState  `json:"pools"`
	Leases    []leaseState `json:"leases"`
}

type poolState struct {
	Pool  events.Pool `json:"pool"`
	Young tally       `json:"young"`
	Old   tally       `json:"old"`
}

// leaseState is a lease that lives (Pool) or has ended (Ended).
type leaseState struct {
	Lease events.LeaseID `json:"lease"`
	Pool  *events.Pool   `json:"pool,omitempty"`
	Start time.Time      `json:"market_start,omitzero"`
	Ended time.Time      `json:"market_end,omitzero"`
}

// MarshalJSON writes all that Apply has learned.
func (r *ReclaimRate) MarshalJSON() ([]byte, error) {
	s := rateState{HalfLifeS: int64(r.cfg.HalfLife / time.Second), AsOf: r.asOf}
	for _, p := range sortedPools(r.pools) {
		s.Pools = append(s.Pools, poolState{p, r.pools[p][Young], r.pools[p][Old]})
	}
	for lease, x := range r.open {
		s.Leases = append(s.Leases, leaseState{Lease: lease, Pool: &x.pool, Start: x.start})
	}
	for lease, ended := range r.done {
		s.Leases = append(s.Leases, leaseState{Lease: lease, Ended: ended})
	}
	slices.SortFunc(s.Leases, compareLeases)
	return json.Marshal(s)
}

// RestoreReclaimRate reads what MarshalJSON wrote, under the same half-life: weights
// of another cannot be converted.
func RestoreReclaimRate(cfg RateConfig, b []byte) (*ReclaimRate, error) {
	r := NewReclaimRate(cfg)
	var s rateState
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("reading reclaim rates: %w", err)
	}
	if want := int64(r.cfg.HalfLife / time.Second); s.HalfLifeS != want {
		return nil, fmt.Errorf("reclaim rates were weighted with a half-life of %d s, not %d s; fold the leases again", s.HalfLifeS, want)
	}
	r.asOf = s.AsOf
	for _, p := range s.Pools {
		r.pools[p.Pool] = &record{p.Young, p.Old}
	}
	for _, l := range s.Leases {
		if l.Pool != nil {
			r.open[l.Lease] = exposure{*l.Pool, l.Start}
		} else {
			r.done[l.Lease] = l.Ended
		}
	}
	return r, nil
}

func compareLeases(a, b leaseState) int { return strings.Compare(string(a.Lease), string(b.Lease)) }
