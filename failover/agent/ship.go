package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// shipping is what happens to checkpoints that are complete: one is uploaded at
// a time, the newest waits behind it, those between are passed over.
type shipping struct {
	found  found  // the newest complete one
	size   int64  // of it, or of the one restored
	next   *found // waits
	now    *found // is being uploaded
	cancel context.CancelFunc
	up     transfer // of now
	gauge  transfer // the same, from when something of it was under way before it was complete
	yields bool     // now is cancelled and will wait again, for something newer to have the link

	ready     *events.CommitRequest // is in the store and not committed
	asking    bool                  // its commit is under way
	committed events.CommitRequest  // the newest of this epoch

	full     int           // how often in a row the store had no room
	failures int           // how often in a row an upload or commit got no answer
	retry    time.Duration // not before

	early early
	measured
}

// measured is what a machine has learned by shipping, whatever it was that it shipped.
type measured struct {
	share  share
	spare  spare // of the processors
	limit  int64 // of uploads, bytes a second; 0: none
	turn   int   // which limit since the start
	pace   pace
	needs  sizes  // bytes that the last ones had to send after they were complete
	wholes sizes  // and in all
	saves  recent // from asking to complete
	pauses recent // the trainer's own writing
}

// afresh is the shipping of another start: what was measured stays.
func (s *shipping) afresh() shipping {
	s.early.stop()
	return shipping{measured: s.measured}
}

// exists reports whether there is such a checkpoint at all.
func (f found) exists() bool { return f.name != "" }

// newest is the step of the newest complete checkpoint, -1 if there is none.
func (s *shipping) newest() int64 {
	if !s.found.exists() {
		return -1
	}
	return s.found.step
}

// pending reports whether anything complete is not committed yet.
func (s *shipping) pending() bool {
	return s.next != nil || s.now != nil || s.ready != nil
}

// another is how long one more checkpoint takes to ship with all of the link, if
// it is like the last ones.
func (s *shipping) another() time.Duration { return s.pace.expect(s.needs.p95(s.size)) }

// likely is how many bytes a complete checkpoint has to send: what is known of
// it, or what the last ones had to, if that is less.
func (s *shipping) likely(f *found) int64 { return min(f.need, s.needs.p95(f.need)) }

// left is how many bytes the upload under way has still to send, at most.
func (a *agent) left() int64 {
	s := &a.ship
	left := max(s.likely(s.now)-a.carried(s.up), 0)
	if most := a.engine.Progress().Left; most > 0 {
		left = min(left, most)
	}
	return left
}

// unsentBytes are at most how many bytes of complete checkpoints are not in the store.
func (a *agent) unsentBytes() (n int64) {
	s := &a.ship
	if s.next != nil {
		n += s.next.need
	}
	if s.now != nil {
		n += a.left()
	}
	return n
}

// unsent is how long until the newest complete checkpoint is in the store and
// committed, with all of the link; 0: it is.
func (a *agent) unsent() (d time.Duration) {
	s := &a.ship
	if s.now != nil {
		d += s.pace.rest(a.left())
	}
	if s.next != nil {
		d += s.pace.expect(s.likely(s.next))
	}
	if s.pending() {
		d = max(d, time.Millisecond)
	}
	return d
}

// again has the newest committed checkpoint committed once more, as the last.
func (s *shipping) again() {
	if s.ready == nil {
		again := s.committed
		s.ready = &again
	}
}

// abandon gives up everything that is not committed.
func (s *shipping) abandon(log *zap.Logger) {
	s.early.stop()
	s.next.release(log)
	s.next, s.ready, s.yields = nil, nil, false
	if s.now != nil {
		s.cancel()
	}
}

// complete takes a checkpoint that has been found complete.
func (a *agent) complete(f *found) {
	s := &a.ship
	if a.awaited {
		s.saves.add(f.at - a.asked)
	} else {
		s.saves.add(f.seen + a.cfg.WatchEvery)
	}
	s.pauses.add(f.save)
	f.gone, f.ahead = a.goneOf(f.name)
	f.need = max(f.need-f.gone, 0)
	s.next.release(a.cfg.Log)
	s.found, s.next, s.size, s.yields = *f, f, f.size, false
	s.failures = 0
	a.asked, a.awaited = f.at, false
	a.trainer.stall.moved = max(a.trainer.stall.moved, f.at)
	a.beat.update(func(h *events.Heartbeat) { h.Saved = f.step })
	a.stepped(progress{Step: f.step}, f.at) // also of a trainer that tells none
	a.cfg.Log.Info("checkpoint complete", zap.String("checkpoint", f.name), zap.Int64("bytes", f.size), zap.Int64("need", f.need), zap.Duration("save", f.save))
	if w := a.wish; s.now != nil && a.notice != nil && w != nil && f.step >= w.base && s.now.step < w.base &&
		!a.fitIn(a.unsent()) && a.fitIn(s.pace.expect(s.likely(f))) {
		s.cancel() // what was asked for goes first; what the store has of the other is not sent again
	}
}

// advance uploads and commits what is due.
func (a *agent) advance(now time.Duration) {
	s := &a.ship
	a.limit()
	unsent, flush := a.unsentBytes(), a.unsent()
	a.beat.update(func(h *events.Heartbeat) { h.Unsent, h.FlushMS = unsent, flush.Milliseconds() })
	if now < s.retry {
		return
	}
	if s.ready != nil && !s.asking && a.barred == 0 && a.stand.get().holds(now, a.timers) {
		a.commit(*s.ready)
	}
	if s.now == nil && s.next != nil && !a.standsBack() && a.fits(s.next) {
		a.upload(now)
	}
}

// fitIn reports whether what takes so long, begun now, ends before the machine is taken.
func (a *agent) fitIn(d time.Duration) bool {
	return a.notice == nil || d <= a.notice.deadline-a.notice.margin-a.now()
}

// giveWay has the upload under way wait for the fresh save that a notice asked
// for, if there is no time for both. It goes on if that save does not come.
func (a *agent) giveWay() {
	s := &a.ship
	if s.now == nil && s.next == nil || a.fitIn(a.unsent()+a.outlook(a.now()).fresh()) {
		return // what is nearly there is finished first: it is newer than what is committed
	}
	a.cfg.Log.Info("uploads give way to a fresh save", zap.Int64("unsent", a.unsentBytes()))
	s.yields = true
	if s.now == nil {
		return
	}
	if left := a.engine.Progress().Left; left > 0 { // what was sent of a chunk is lost
		s.now.need = min(s.now.need, left)
	}
	s.cancel()
}

// standsBack reports whether what waits is to wait for a fresh save.
func (a *agent) standsBack() bool {
	return a.ship.yields && a.notice != nil && a.wish != nil && a.wish.fresh
}

// fits reports whether an upload begun now ends before the machine is taken.
func (a *agent) fits(f *found) bool {
	needs := a.ship.pace.expect(a.ship.likely(f))
	if a.fitIn(needs) {
		return true
	}
	a.cfg.Log.Warn("no time left to ship", zap.String("checkpoint", f.name), zap.Duration("needs", needs))
	f.release(a.cfg.Log)
	a.ship.next = nil
	return false
}
