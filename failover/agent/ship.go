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
	began  time.Duration

	ready     *events.CommitRequest // is in the store and not committed
	asking    bool                  // its commit is under way
	committed events.CommitRequest  // the newest of this epoch

	full     int           // how often in a row the store had no room
	failures int           // how often in a row an upload or commit got no answer
	retry    time.Duration // not before

	pace  pace
	saves recent
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

// unsent is how long until the newest complete checkpoint is in the store; 0: it
// is committed.
func (s *shipping) unsent(now time.Duration) time.Duration {
	switch {
	case s.next != nil:
		return s.pace.expect(s.next.size)
	case s.now != nil:
		return max(s.pace.expect(s.now.size)-(now-s.began), time.Millisecond)
	case s.ready != nil:
		return time.Millisecond
	}
	return 0
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
	s.next.release(log)
	s.next, s.ready = nil, nil
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
	s.next.release(a.cfg.Log)
	s.found, s.next, s.size = *f, f, f.size
	s.failures = 0
	a.asked, a.awaited = f.at, false
	a.trainer.stall.moved = max(a.trainer.stall.moved, f.at)
	a.beat.update(func(h *events.Heartbeat) { h.Saved = f.step })
	a.stepped(progress{Step: f.step}, f.at) // also of a trainer that tells none
	a.cfg.Log.Info("checkpoint complete", zap.String("checkpoint", f.name), zap.Int64("bytes", f.size), zap.Duration("save", f.save))
	if w := a.wish; w != nil && w.fresh && f.step >= w.base && s.now != nil {
		s.cancel() // what was asked for goes first; what the store has of the other is not sent again
	}
}

// advance uploads and commits what is due.
func (a *agent) advance(now time.Duration) {
	s := &a.ship
	a.beat.update(func(h *events.Heartbeat) { h.Unsent = a.unsentBytes() })
	if now < s.retry {
		return
	}
	if s.ready != nil && !s.asking && a.barred == 0 && a.stand.get().holds(now, a.timers) {
		a.commit(*s.ready)
	}
	if s.now == nil && s.next != nil && a.fits(s.next, now) {
		a.upload(now)
	}
}

// fits reports whether an upload begun now ends before the machine is taken.
func (a *agent) fits(f *found, now time.Duration) bool {
	if a.notice == nil {
		return true
	}
	if a.ship.pace.expect(f.size) <= a.notice.deadline-a.notice.margin-now {
		return true
	}
	a.cfg.Log.Warn("no time left to ship", zap.String("checkpoint", f.name), zap.Duration("needs", a.ship.pace.expect(f.size)))
	f.release(a.cfg.Log)
	a.ship.next = nil
	return false
}
