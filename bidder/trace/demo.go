package trace

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// NewDemo returns the market of a demonstration: the pools of NewModel, at prices
// that hardly differ, but so hard on machines that within some seventy seconds of control
// time three jobs see everything a market can do, whatever the seed. Ages are
// still drawn by the law of the pool, given that they fall into a window; the
// windows and the manner follow the epoch in the lease id:
//
//	epoch 1   kill at age 7 to 11 s       with a warning
//	epoch 2   armed at age 5 to 8 s       without, aimed into a save
//	epoch 3   kill at age 6 to 10 s       without, but after a warning that was withdrawn
//	later     kill at age 8 to 22 s       in any of these manners
//	a storm   47 to 52 s after origin     all pools, without a warning, then empty for 4 to 8 s;
//	                                      again every minute; in the ten seconds before nothing else is killed
//
// Warnings are four seconds where the model has two minutes, three where it has thirty
// seconds. origin is market time at the start, scale market seconds in a control second.
func NewDemo(seed uint64, seller string, origin time.Time, scale int64) *Model {
	short := func(notice int64) int64 {
		switch {
		case notice >= 120:
			return 4
		case notice > 0:
			return 3
		}
		return 0
	}
	return newModel(seed, seller, &demo{seed, Clock{origin, origin, scale}}, short)
}

type demo struct {
	seed uint64
	Clock
}

func (d *demo) fate(dr *draws, p PoolInfo, law Law, key string, launched time.Time) []Reclaim {
	_, epoch, _, err := events.LeaseID(key).Parts()
	if err != nil {
		epoch = 4
	}
	storm, _ := d.storm(p.Offer.Pool, launched)
	m := machine{dr, d.Clock, law, seconds(p.Offer.NoticeS), launched, storm}
	switch {
	case epoch == 1:
		return m.warned(window{7, 11})
	case epoch == 2:
		return m.inSave(window{5, 8})
	case epoch == 3:
		return m.unwarned(window{6, 10})
	case dr.chance(0.33):
		return m.inSave(window{8, 16})
	case dr.chance(0.5):
		return m.unwarned(window{10, 22})
	}
	return m.warned(window{10, 22})
}

func (d *demo) storm(p events.Pool, t time.Time) (time.Time, time.Duration) {
	n := max(int64(d.Control(t).Sub(d.Control0)/time.Minute), 0)
	for ; ; n++ {
		dr := drawsFor(d.seed, "storm", fmt.Sprint(n))
		at := d.Market(d.Control0.Add(time.Duration(n)*time.Minute + dr.between(47*time.Second, 52*time.Second)))
		if at.After(t) {
			lull := drawsFor(d.seed, "lull", p.String(), fmt.Sprint(n))
			return at, d.MarketFor(lull.between(4*time.Second, 8*time.Second))
		}
	}
}

// prices of one sort of machine differ by less than what a move has to save, or
// jobs would leave their machines before anything happens to them.
func (d *demo) prices(p modelPool) (events.PerInstanceHour, []wave) {
	base := p.base
	for _, other := range modelPools() {
		if other.typ == p.typ && other.capacity == p.capacity {
			base = max(base, other.base)
		}
	}
	return base, []wave{{40, 50}, {8, 110}}
}

// calm is longer than it takes to replace a machine, so that a storm finds every job on one.
func (d *demo) calm() time.Duration { return d.MarketFor(10 * time.Second) }

func (d *demo) outages() bool { return false }

// machine is one machine of the demo while its fate is drawn.
type machine struct {
	*draws
	clock    Clock
	law      Law
	notice   time.Duration // control time; 0: the pool gives none
	launched time.Time
	storm    time.Time // the next
}

// window is a range of ages in seconds of control time.
type window struct{ lo, hi int64 }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// dies draws when the machine is killed.
func (m machine) dies(w window) time.Time {
	lo, hi := m.clock.MarketFor(seconds(w.lo)), m.clock.MarketFor(seconds(w.hi))
	return m.launched.Add(m.law.Between(m.unit(), lo, hi))
}

func (m machine) warned(w window) []Reclaim {
	r := Reclaim{Kind: Noticed, At: m.dies(w), Notice: m.notice, Drawn: ByAge}
	if m.notice == 0 {
		r.Kind = Unnoticed
	}
	return []Reclaim{r}
}

// unwarned is a kill out of the blue; where the pool gives warnings, one came
// before that was taken back.
func (m machine) unwarned(w window) []Reclaim {
	kill := Reclaim{Kind: Unnoticed, At: m.dies(w), Drawn: ByAge}
	if m.notice == 0 {
		return []Reclaim{kill}
	}
	warned := m.between(2500*time.Millisecond, 3500*time.Millisecond)
	return []Reclaim{{
		Kind: Withdrawn, At: m.launched.Add(m.clock.MarketFor(warned + m.notice)), Notice: m.notice,
		Withdraw: m.between(800*time.Millisecond, 1200*time.Millisecond), Drawn: ByAge,
	}, kill}
}

// inSave is a kill right into a save. The demo's trainer saves every few seconds,
// in a few milliseconds; the wait is for two or three saves, and not beyond a storm.
func (m machine) inSave(w window) []Reclaim {
	at := m.dies(w)
	wait := 14 * time.Second
	if at.Before(m.storm) {
		wait = min(wait, m.clock.ControlFor(m.storm.Sub(at)))
	}
	offset := 100*time.Microsecond + time.Duration(m.unit()*900)*time.Microsecond
	return []Reclaim{{Kind: Unnoticed, At: at, SaveOffset: offset, SaveWait: wait, Drawn: BySave}}
}
