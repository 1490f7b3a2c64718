package trace

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Model is a synthetic market drawn from a seed: ten pools, prices that move in
// small steps, pools that are empty at times, machines that are taken back by
// the Law of their pool, and storms that empty every spot pool at once.
type Model struct {
	seed  uint64
	infos []PoolInfo
	pools map[events.Pool]modelPool
	paths map[events.Pool]path
	hands
}

// hands is what differs between the ordinary model and the demo's.
type hands interface {
	// fate is what befalls a machine by its age alone; at least the kill.
	fate(d *draws, p PoolInfo, law Law, key string, launched time.Time) []Reclaim
	// storm returns the first storm after t and how long it leaves a pool empty.
	storm(p events.Pool, t time.Time) (at time.Time, empty time.Duration)
	// calm is how long before a storm nothing else is killed: what would have been, the storm gets.
	calm() time.Duration
	// prices returns the level and the waves of a spot pool's price.
	prices(p modelPool) (events.PerInstanceHour, []wave)
	// outages says whether pools run empty without a storm, too.
	outages() bool
}

// NewModel returns the market of a seed. seller is the name in its pools.
func NewModel(seed uint64, seller string) *Model {
	return newModel(seed, seller, &ordinary{seed}, func(s int64) int64 { return s })
}

func newModel(seed uint64, seller string, h hands, notice func(int64) int64) *Model {
	m := &Model{seed: seed, pools: map[events.Pool]modelPool{}, paths: map[events.Pool]path{}, hands: h}
	for _, p := range modelPools() {
		i := p.info(seller, notice(p.notice))
		pool := i.Offer.Pool
		d := drawsFor(seed, "price", pool.String())
		price := path{base: p.base, seed: d.next(), slot: d.between(20*time.Minute, 60*time.Minute)}
		if pool.Capacity == events.Spot {
			price.base, price.waves = h.prices(p)
		}
		m.infos = append(m.infos, i)
		m.pools[pool] = p
		m.paths[pool] = price
	}
	pair(m.infos)
	return m
}

// Pools implements Market.
func (m *Model) Pools() []PoolInfo { return append([]PoolInfo(nil), m.infos...) }

// Price implements Market.
func (m *Model) Price(p events.Pool, market time.Time) Quote {
	path, ok := m.paths[p]
	if !ok {
		return Quote{}
	}
	return path.quote(market)
}

// Law returns the hazard of a pool's machines, the zero Law for one on demand.
func (m *Model) Law(p events.Pool) Law { return m.pools[p].law }

// InStock implements Market.
func (m *Model) InStock(p events.Pool, market time.Time) bool {
	spec, ok := m.pools[p]
	if !ok || spec.capacity == events.OnDemand {
		return ok
	}
	for _, g := range m.gaps(p, market) {
		if !market.Before(g.from) && market.Before(g.until) {
			return false
		}
	}
	return true
}

// NextChange implements Market.
func (m *Model) NextChange(p events.Pool, market time.Time) time.Time {
	spec, ok := m.pools[p]
	if !ok || spec.capacity == events.OnDemand {
		return time.Time{}
	}
	next := m.Price(p, market).Until
	for _, g := range m.gaps(p, market) {
		for _, t := range []time.Time{g.from, g.until} {
			if t.After(market) {
				next = earliest(next, t)
			}
		}
	}
	return next
}

// gap is a time in which a pool is empty.
type gap struct{ from, until time.Time }

// outageSpan is the stretch of time that has at most one ordinary outage.
const outageSpan = 6 * time.Hour

// gaps returns the gaps around t: all that are open at t, and the next.
func (m *Model) gaps(p events.Pool, t time.Time) []gap {
	var out []gap
	// The longest gap after a storm is shorter than an hour; look that far back.
	for from := t.Add(-time.Hour); ; {
		at, empty := m.storm(p, from)
		if at.IsZero() {
			break
		}
		out = append(out, gap{at, at.Add(empty)})
		if at.After(t) {
			break
		}
		from = at
	}
	if !m.outages() {
		return out
	}
	n, _ := floorDiv(t.Unix(), int64(outageSpan/time.Second))
	for k := n - 1; k <= n+1; k++ {
		d := drawsFor(m.seed, "outage", p.String(), fmt.Sprint(k))
		if d.chance(0.4) {
			from := time.Unix(k*int64(outageSpan/time.Second), 0).UTC().Add(d.between(0, outageSpan))
			out = append(out, gap{from, from.Add(d.between(10*time.Minute, 100*time.Minute))})
		}
	}
	return out
}

// Reclaims implements Market: what befalls the machine by its age, cut short by
// the first storm.
func (m *Model) Reclaims(p events.Pool, key string, launched time.Time) []Reclaim {
	spec, ok := m.pools[p]
	if !ok || !spec.capacity.Reclaimable() {
		return nil
	}
	info, _ := Find(m, p)
	fate := m.fate(drawsFor(m.seed, "fate", p.String(), key), info, spec.law, key, launched)
	storm, _ := m.storm(p, launched)
	return cutShort(fate, storm, storm.Add(-m.calm()))
}

// cutShort lets a storm have a machine whose own end would come after the calm
// before it.
func cutShort(fate []Reclaim, storm, calm time.Time) []Reclaim {
	if storm.IsZero() || fate[len(fate)-1].At.Before(calm) {
		return fate
	}
	var out []Reclaim
	for _, r := range fate {
		if r.Kind == Withdrawn && r.At.Before(storm) {
			out = append(out, r)
		}
	}
	return append(out, Reclaim{Kind: Unnoticed, At: storm, Drawn: ByStorm})
}

// ordinary is the market as it mostly is. A warning is best effort: one reclaim
// in eight comes without, even where warnings are usual.
type ordinary struct{ seed uint64 }

func (o *ordinary) fate(d *draws, p PoolInfo, law Law, _ string, launched time.Time) []Reclaim {
	at := launched.Add(max(law.Age(1-d.unit()), time.Second))
	kill := Reclaim{Kind: Unnoticed, At: at, Drawn: ByAge}
	notice := time.Duration(p.Offer.NoticeS) * time.Second
	warned, falsely := d.chance(0.875), d.chance(0.08)
	share, when := d.unit(), d.unit()
	if notice == 0 {
		return []Reclaim{kill}
	}
	if warned {
		kill.Kind, kill.Notice = Noticed, notice
	}
	if !falsely {
		return []Reclaim{kill}
	}
	early := launched.Add(time.Duration(when * 0.9 * float64(at.Sub(launched))).Truncate(time.Millisecond))
	return []Reclaim{{
		Kind: Withdrawn, At: early, Notice: notice, Withdraw: time.Duration((0.2 + 0.6*share) * float64(notice)).Truncate(time.Millisecond),
		Drawn: ByAge,
	}, kill}
}

// stormSpan is the stretch of time that has at most one storm.
const stormSpan = 48 * time.Hour

func (o *ordinary) storm(p events.Pool, t time.Time) (time.Time, time.Duration) {
	n, _ := floorDiv(t.Unix(), int64(stormSpan/time.Second))
	for k := n; k < n+64; k++ {
		d := drawsFor(o.seed, "storm", fmt.Sprint(k))
		if !d.chance(0.5) {
			continue
		}
		at := time.Unix(k*int64(stormSpan/time.Second), 0).UTC().Add(d.between(0, stormSpan))
		if at.After(t) {
			return at, drawsFor(o.seed, "lull", p.String(), fmt.Sprint(k)).between(5*time.Minute, 50*time.Minute)
		}
	}
	return time.Time{}, 0
}

func (o *ordinary) prices(p modelPool) (events.PerInstanceHour, []wave) {
	return p.base, ordinaryWaves()
}

func (o *ordinary) calm() time.Duration { return 0 }

func (o *ordinary) outages() bool { return true }
