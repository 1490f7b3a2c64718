package simtest

import (
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
)

// fate is what the seller and the world do to one machine until it is gone.
func (w *world) fate(m *machine, inst provider.Instance) {
	w.alive.Go(func() { w.partitions(m) })
	w.alive.Go(func() { w.trainerDeaths(m) })
	if !inst.Pool.Capacity.Reclaimable() {
		return
	}
	info, _ := trace.Find(w.market, inst.Pool)
	notice := time.Duration(info.Offer.NoticeS) * time.Second
	for n := 0; sleep(m.ctx, w.chance.wait(w.opt.trouble.reclaim, "reclaim", m.id, n)); n++ {
		turn(m.actor("reclaim"))
		if !w.chaotic() {
			return
		}
		switch kind := w.chance.below(10, "kind of reclaim", m.id, n); {
		case notice > 0 && kind < 5:
			w.hits.add("reclaim with notice")
			w.fake.ReclaimAt(m.id, time.Now().Add(notice), notice)
			return
		case notice > 0 && kind < 7:
			w.hits.add("notice withdrawn")
			w.fake.Warn(m.id, time.Now().Add(notice))
			sleep(m.ctx, w.chance.between(notice/8, notice*7/8, "withdrawn after", m.id, n))
			turn(m.actor("withdraw"))
			w.fake.Withdraw(m.id)
		case kind < 9:
			w.hits.add("reclaim without notice")
			w.fake.Kill(m.id, "seller")
			return
		default:
			w.hits.add("machine fails")
			w.fake.Kill(m.id, "fault")
			return
		}
	}
}

// partitions keep a machine from the bus for a while, some past its hold, few past the silence limit.
func (w *world) partitions(m *machine) {
	for n := 0; sleep(m.ctx, w.chance.wait(w.opt.trouble.partition, "partition", m.id, n)); n++ {
		turn(m.actor("partition"))
		if !w.chaotic() {
			return
		}
		mute := w.chance.hits(0.5, "mute", m.id, n)
		long, what := w.chance.between(2*time.Second, 25*time.Second, "short", m.id, n), "partition within the hold"
		switch kind := w.chance.below(6, "how long", m.id, n); {
		case w.opt.trouble.short:
		case kind < 3:
			long, what = w.chance.between(40*time.Second, 5*time.Minute, "long", m.id, n), "partition past the hold"
		case kind < 4:
			long, what = w.chance.between(16*time.Minute, 30*time.Minute, "silent", m.id, n), "partition past the silence limit"
		}
		w.hits.add(what)
		w.trace("partition of %s for %s, mute %v", m.boot.Lease, long, mute)
		from := time.Now()
		m.link.cut(mute)
		sleep(m.ctx, long)
		turn(m.actor("heal"))
		m.link.heal()
		m.mu.Lock()
		m.offline = append(m.offline, window{from, time.Now()})
		m.mu.Unlock()
	}
}

// trainerDeaths kill the trainer on a machine that lives.
func (w *world) trainerDeaths(m *machine) {
	for n := 0; sleep(m.ctx, w.chance.wait(w.opt.trouble.trainer, "trainer", m.id, n)); n++ {
		turn(m.actor("oom"))
		if !w.chaotic() {
			return
		}
		if m.killTrainer() {
			w.trace("trainer on %s killed", m.boot.Lease)
			w.hits.add("trainer killed on a live machine")
		}
	}
}
