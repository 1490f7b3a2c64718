package trace

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// tally is what three jobs met.
type tally struct {
	kills, unnoticed, noticed, withdrawn, saves int
	storm                                       map[time.Time]int // kills at one instant
	first                                       time.Duration     // control time of the first kill or warning's end
}

// play runs three jobs on the demo for 75 s of control time: each takes the
// cheapest pool in stock but the one it was last taken from, needs a second and up
// to slow more to be back, saves every few seconds, and goes on demand only when
// nothing else is there, for half a market hour.
func play(t *testing.T, seed uint64, ids *rand.Rand, slow time.Duration) tally {
	t.Helper()
	clock := NewClock(t0, t0.Add(24*time.Hour), 240)
	m := NewDemo(seed, "local", clock.Market0, clock.Scale)
	sum := tally{storm: map[time.Time]int{}, first: time.Hour}
	for range 3 {
		job := events.JobID(fmt.Sprintf("01j%023x", ids.Uint64()))
		now := 3*time.Second + time.Duration(ids.Int64N(int64(2*time.Second)))
		var avoid events.Pool
		for epoch := 1; now < 75*time.Second; epoch++ {
			pool, ok := cheapest(m, clock.Market(t0.Add(now)), avoid)
			if !ok {
				now += 8 * time.Second
				continue
			}
			launched := clock.Market(t0.Add(now))
			died := now
			for _, r := range m.Reclaims(pool, string(job.Lease(epoch, 1)), launched) {
				died = sum.meet(r, clock.Control(r.At).Sub(t0), ids)
			}
			if moved := now + 7500*time.Millisecond; moved < died && cheaper(m, pool, clock.Market(t0.Add(moved))) {
				t.Errorf("seed %d: a job leaves %v for a cheaper pool", seed, pool)
			}
			avoid = pool
			now = died + time.Second + time.Duration(ids.Int64N(int64(slow)))
		}
	}
	return sum
}

// meet counts one reclaim, and returns when the machine is gone.
func (s *tally) meet(r Reclaim, at time.Duration, ids *rand.Rand) time.Duration {
	if at > 75*time.Second {
		return at
	}
	switch {
	case r.Kind == Withdrawn:
		s.withdrawn++
		return at
	case r.Kind == Noticed:
		s.noticed++
	case r.SaveOffset > 0:
		s.saves++
		s.unnoticed++
		at += time.Duration(ids.Int64N(int64(4 * time.Second)))
	default:
		s.unnoticed++
	}
	if r.Drawn == ByStorm {
		s.storm[r.At]++
	}
	s.kills++
	s.first = min(s.first, at)
	return at
}

// cheaper says whether a policy would leave a pool for another of its kind: to save a twentieth.
func cheaper(m Market, p events.Pool, at time.Time) bool {
	for _, i := range m.Pools() {
		if i.Offer.Pool.Capacity == events.Spot && i.Offer.Pool.InstanceType == p.InstanceType &&
			m.Price(i.Offer.Pool, at).Price*20 < m.Price(p, at).Price*19 {
			return true
		}
	}
	return false
}

func cheapest(m Market, at time.Time, avoid events.Pool) (events.Pool, bool) {
	var best events.Pool
	var price events.PerInstanceHour
	for _, i := range m.Pools() {
		p := i.Offer.Pool
		q := m.Price(p, at).Price
		if p.Capacity == events.Spot && p != avoid && m.InStock(p, at) && (price == 0 || q < price) {
			best, price = p, q
		}
	}
	return best, price > 0
}

func TestTheDemoShowsEverythingWhateverTheSeed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		slow   time.Duration
		struck int // jobs that one storm takes
	}{
		{"failovers of one to four seconds", 3 * time.Second, 3},
		{"failovers of one to nine seconds", 8 * time.Second, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ids := rand.New(rand.NewPCG(1, 2))
			seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
			for range 100 {
				seeds = append(seeds, ids.Uint64())
			}
			least := [5]int{99, 99, 99, 99, 99}
			defer func() { t.Logf("least kills, unnoticed, noticed, withdrawn, in a save: %v", least) }()
			for _, seed := range seeds {
				for range 3 { // with other job ids
					got := play(t, seed, ids, tc.slow)
					for i, n := range []int{got.kills, got.unnoticed, got.noticed, got.withdrawn, got.saves} {
						least[i] = min(least[i], n)
					}
					struck := 0
					for _, n := range got.storm {
						struck = max(struck, n)
					}
					if got.kills < 8 || got.unnoticed < 3 || got.noticed < 1 || got.withdrawn < 1 || got.saves < 2 || struck < tc.struck || got.first > 20*time.Second {
						t.Errorf("seed %d: %+v", seed, got)
					}
				}
			}
		})
	}
}
