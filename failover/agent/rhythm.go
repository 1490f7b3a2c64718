package agent

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
)

// rhythm is what the time between saves that are asked for is chosen from. It is pure.
type rhythm struct {
	set     time.Duration // by the job; 0: not
	auto    bool          // the job leaves it to what is measured
	pause   time.Duration // of the trainer, for a save; 0: none was seen yet
	reclaim time.Duration // mean time until a machine like this is taken back; 0: unknown
	flush   time.Duration // of a checkpoint, with the uploads' share of the link
}

// The least and the most that is chosen for a job.
const (
	leastEvery = 30 * time.Second
	mostEvery  = time.Hour
)

// every returns the time between saves, 0 if the trainer's own rhythm is all
// there is, and whether uploads make it longer than it would be: saves that
// nobody can ship cost time and bring nothing.
func (r rhythm) every() (d time.Duration, lengthened bool) {
	d = r.set
	if r.auto {
		d = mostEvery
		if best, err := checkpoint.Interval(r.pause, r.reclaim); err == nil {
			d = min(max(best, leastEvery), mostEvery)
		}
	}
	if d > 0 && r.flush > d {
		return r.flush, true
	}
	return d, false
}

// p50 returns the duration that half of them exceed, or otherwise if nothing was measured.
func (r recent) p50(otherwise time.Duration) time.Duration {
	if len(r) == 0 {
		return otherwise
	}
	s := slices.Sorted(slices.Values(r))
	return s[len(s)/2]
}

// steady is how long one more checkpoint takes to ship while nothing presses.
func (m *measured) steady() time.Duration {
	if len(m.wholes) == 0 {
		return 0
	}
	n := m.wholes.p95(0)
	return m.share.steady(n, m.pace.expect(n))
}

// askInRhythm asks for a save every interval, of a trainer that takes no harm.
func (a *agent) askInRhythm(now time.Duration) {
	if a.wish != nil || a.trainer.step < 0 || !a.asks() || endsTrainer(a.signal) {
		return
	}
	p := a.spec.Policy.Checkpoint
	s := &a.ship
	every, long := rhythm{set: time.Duration(p.IntervalS) * time.Second, auto: p.IntervalAuto, pause: s.pauses.p50(0), reclaim: a.reclaim, flush: s.steady()}.every()
	a.tellRhythm(every, long)
	if every > 0 && now-a.asked >= every {
		a.ask(now)
		a.asked = now
	}
}

// tellRhythm says what a person would want to know of how saves keep up, once
// for each change of it.
func (a *agent) tellRhythm(every time.Duration, lengthened bool) {
	if lengthened != a.lengthened {
		a.lengthened = lengthened
		if lengthened {
			a.say(fmt.Sprintf("saves are asked for every %v only: uploads of %v follow no faster", every.Round(time.Second), a.ship.steady().Round(time.Second)))
		}
		a.cfg.Log.Info("interval", zap.Duration("every", every), zap.Bool("lengthened", lengthened))
	}
}

// tellFlush says that a checkpoint takes longer to ship than the seller warns, once
// for each time that it begins to be so.
func (a *agent) tellFlush() {
	if a.unannounced() || len(a.ship.needs) == 0 {
		return
	}
	needs, limit := a.ship.another(), a.cfg.NoticeCap
	if a.slow {
		limit = limit * 4 / 5 // not to and fro
	}
	if slow := needs > limit; slow != a.slow {
		a.slow = slow
		if slow {
			a.say(fmt.Sprintf("a checkpoint takes %v to ship and the seller warns at most %v ahead: one that is begun then is not saved", needs.Round(time.Second), a.cfg.NoticeCap))
		}
		a.cfg.Log.Warn("flush against notice", zap.Bool("longer", slow), zap.Duration("flush", needs), zap.Duration("notice", a.cfg.NoticeCap))
	}
}
