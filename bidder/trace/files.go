package trace

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Files says how a recorded market is played: nine AWS zones of p3.2xlarge (one
// V100), availability and spot price of every 195 seconds over 45 days.
//
// A tick begins at a whole multiple of 195 s since the Unix epoch, so that grains
// aligned to the epoch are ticks. A pool that is unavailable in a tick takes its
// machines back as the tick begins, and sells some exactly while it is
// available. One pool a region sells on demand, always, at 3.06 an hour.
type Files struct {
	Dir          string   `json:"dir"`                     // the directory that holds availability/ and prices/
	StartTick    int      `json:"start_tick,omitempty"`    // the tick that begins at the origin
	RestartTicks int      `json:"restart_ticks,omitempty"` // ticks that every machine takes to boot
	NoticeS      int64    `json:"notice_s,omitempty"`      // control seconds of warning; 0: none
	Zones        []string `json:"zones,omitempty"`         // the zones to play, all nine by default
}

// TickLength is the length of a recorded tick.
const TickLength = 195 * time.Second

const (
	availabilityFile = "availability/cbl_avail_v100x1_aws_2023-02-15_195s.csv.gz"
	priceFile        = "prices/aws_v100x1_spot_2023-02-15_195s.csv.gz"
	baselineFile     = "baselines_per_job.csv.gz"
	columnSuffix     = "_v100_1"
	v100Type         = "p3.2xlarge"
	v100OnDemand     = 306 * events.DollarPerHour / 100
)

// recordedAt is when the first sample was taken.
var recordedAt = time.Date(2023, 2, 15, 22, 8, 16, 0, time.UTC)

// Recorded is a market read from files.
type Recorded struct {
	tick0 time.Time // when tick 0 begins, market time
	start int
	ticks int
	infos []PoolInfo
	zones map[events.Pool]*series // spot pools
}

// series is what was recorded of one zone.
type series struct {
	up    []bool
	price []events.PerInstanceHour
	flips []int // ticks whose availability is not that of the tick before
	moves []int // ticks whose price is not that of the tick before
}

// OpenFiles reads a recorded market. Tick f.StartTick begins at origin, cut to a
// whole tick; a zero origin leaves the recording at its own dates.
func OpenFiles(f Files, seller string, origin time.Time) (*Recorded, error) {
	up, err := readColumns(filepath.Join(f.Dir, availabilityFile), parseUp)
	if err != nil {
		return nil, err
	}
	price, err := readColumns(filepath.Join(f.Dir, priceFile), parsePrice)
	if err != nil {
		return nil, err
	}
	m := &Recorded{start: f.StartTick, ticks: up.rows, zones: map[events.Pool]*series{}}
	if f.StartTick < 0 || f.StartTick >= up.rows {
		return nil, fmt.Errorf("market: start tick %d: the recording has ticks 0 to %d", f.StartTick, up.rows-1)
	}
	m.tick0 = tickStart(recordedAt)
	if !origin.IsZero() {
		m.tick0 = tickStart(origin).Add(-time.Duration(f.StartTick) * TickLength)
	}
	return m, m.addZones(f, seller, up, price)
}

func tickStart(t time.Time) time.Time {
	n, _ := floorDiv(t.Unix(), int64(TickLength/time.Second))
	return time.Unix(n*int64(TickLength/time.Second), 0).UTC()
}

func (m *Recorded) addZones(f Files, seller string, up table[bool], price table[events.PerInstanceHour]) error {
	wanted := f.Zones
	if len(wanted) == 0 {
		for _, c := range up.names {
			wanted = append(wanted, strings.TrimSuffix(c, columnSuffix))
		}
	}
	var onDemand []PoolInfo
	for _, zone := range wanted {
		u, p := up.columns[zone+columnSuffix], price.columns[zone+columnSuffix]
		if u == nil || len(u) != len(p) {
			return fmt.Errorf("market: zone %q: not recorded in both %s and %s, or with other ticks; recorded are %s",
				zone, availabilityFile, priceFile, strings.Join(up.names, ", "))
		}
		spot, od := f.info(seller, zone, events.Spot), f.info(seller, zone, events.OnDemand)
		if n := len(onDemand); n == 0 || onDemand[n-1].Offer.Pool.Region != od.Offer.Pool.Region {
			onDemand = append(onDemand, od)
		}
		spot.OnDemand = onDemand[len(onDemand)-1].Offer.Pool
		m.infos = append(m.infos, spot)
		m.zones[spot.Offer.Pool] = &series{u, p, changes(u), changes(p)}
	}
	m.infos = append(m.infos, onDemand...)
	return nil
}

func (f Files) info(seller, zone string, c events.CapacityType) PoolInfo {
	pool := events.Pool{Seller: seller, Region: zone[:len(zone)-1], Zone: zone, InstanceType: v100Type, Capacity: c, Gang: 1}
	o := events.Offer{
		Pool: pool, GPU: events.GPU{Vendor: "nvidia", Model: "V100", Form: "SXM", Count: 1, MemoryMiB: 16384},
		VCPU: 8, RAMMiB: 61 << 10, DiskGB: 200, Country: "US", SpeedPct: 100,
		Terms: events.Terms{GrainS: int64(TickLength / time.Second), AlignedGrain: true, FollowsMarket: true},
	}
	if c.Reclaimable() {
		o.NoticeS = f.NoticeS
	}
	return PoolInfo{Offer: o, OnDemand: pool, Boot: time.Duration(f.RestartTicks) * TickLength}
}

// Start returns market time at the start tick.
func (m *Recorded) Start() time.Time { return m.Begins(m.start) }

// Begins returns when a tick begins.
func (m *Recorded) Begins(tick int) time.Time {
	return m.tick0.Add(time.Duration(tick) * TickLength)
}

// Tick returns the tick that holds an instant; it may lie outside the recording.
func (m *Recorded) Tick(market time.Time) int {
	n, _ := floorDiv(int64(market.Sub(m.tick0)), int64(TickLength))
	return int(n)
}

// Pools implements Market.
func (m *Recorded) Pools() []PoolInfo { return append([]PoolInfo(nil), m.infos...) }

// Price implements Market. Before and after the recording its first and last price hold.
func (m *Recorded) Price(p events.Pool, market time.Time) Quote {
	s, ok := m.zones[p]
	if !ok {
		if _, known := Find(m, p); known {
			return Quote{Price: v100OnDemand, From: m.tick0}
		}
		return Quote{}
	}
	i := min(max(m.Tick(market), 0), m.ticks-1)
	from, next := around(s.moves, i)
	q := Quote{Price: s.price[i], From: m.Begins(from)}
	if next >= 0 {
		q.Until = m.Begins(next)
	}
	return q
}

// InStock implements Market. Outside the recording nothing is available.
func (m *Recorded) InStock(p events.Pool, market time.Time) bool {
	s, ok := m.zones[p]
	if !ok {
		_, known := Find(m, p)
		return known
	}
	i := m.Tick(market)
	return i >= 0 && i < m.ticks && s.up[i]
}

// NextChange implements Market.
func (m *Recorded) NextChange(p events.Pool, market time.Time) time.Time {
	s, ok := m.zones[p]
	if !ok {
		return time.Time{}
	}
	i := m.Tick(market)
	if i < 0 {
		return m.tick0
	}
	var next []time.Time
	for _, list := range [][]int{s.flips, s.moves, {m.ticks}} {
		if _, n := around(list, i); n >= 0 {
			next = append(next, m.Begins(n))
		}
	}
	return earliest(next...)
}

// Reclaims implements Market: the next tick in which the pool is unavailable
// begins with the machine's end. The end of the recording ends them all.
func (m *Recorded) Reclaims(p events.Pool, _ string, launched time.Time) []Reclaim {
	s, ok := m.zones[p]
	if !ok {
		return nil
	}
	i := max(m.Tick(launched), -1) + 1
	for i < m.ticks && s.up[i] {
		if _, i = around(s.flips, i); i < 0 {
			i = m.ticks
		}
	}
	r := Reclaim{Kind: Unnoticed, At: m.Begins(i), Drawn: ByTick}
	info, _ := Find(m, p)
	if n := info.Offer.NoticeS; n > 0 {
		r.Kind, r.Notice = Noticed, time.Duration(n)*time.Second
	}
	return []Reclaim{r}
}

// changes returns the indexes whose value is not the one before.
func changes[T comparable](v []T) []int {
	var out []int
	for i := 1; i < len(v); i++ {
		if v[i] != v[i-1] {
			out = append(out, i)
		}
	}
	return out
}

// around returns the last of the sorted marks at or before i, 0 if there is none, and the first after i, or -1.
func around(marks []int, i int) (last, next int) {
	k := sort.SearchInts(marks, i+1)
	next = -1
	if k < len(marks) {
		next = marks[k]
	}
	if k > 0 {
		last = marks[k-1]
	}
	return last, next
}
