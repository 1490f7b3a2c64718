package agent

import "time"

// patient reports whether a fresh checkpoint may still come in time. Under a
// notice there is no reason to give up before it could not be shipped any more, unless the
// job says how long its saves may take: whoever waits has nothing better to do.
func (a *agent) patient(w *wish, now time.Duration) bool {
	if a.tooLate() {
		return false
	}
	return now < w.giveUp || (a.notice != nil && a.spec.Policy.Checkpoint.GraceS == 0)
}

// arrived reports whether what the trainer was asked for is there: a checkpoint
// of the step it was at, or none because it has made no step since its last.
func (a *agent) arrived(w *wish, now time.Duration) bool {
	if a.stage == leaving {
		return a.lookedSince() // it has ended, and what it left is all there is
	}
	if a.stage != training {
		return true
	}
	if a.ship.found.step >= w.base && a.ship.found.at > w.asked {
		return true
	}
	return a.ship.found.exists() && a.ship.found.step >= a.trainer.step && a.trainer.step >= 0 && now-w.asked >= a.saveTime()+2*a.cfg.WatchEvery
}

// tooLate reports whether a notice leaves no time to ship a checkpoint that were
// complete now.
func (a *agent) tooLate() bool {
	s := &a.ship
	rest := s.another()
	switch e := &s.early; {
	case a.wish.fresh && e.of != "" && e.step >= a.wish.base: // it is being written, and sent
		gone, _ := a.goneOf(e.of)
		rest = min(rest, s.pace.rest(max(s.wholes.p95(s.size)-gone, 0)))
	case a.standsBack() && s.next != nil: // nothing of it is seen, and what waits would not fit any more either
		rest = max(rest, s.pace.expect(s.likely(s.next))+2*a.cfg.WatchEvery)
	}
	return !a.fitIn(rest)
}

// hopeless reports whether what waits to be shipped or committed will not be:
// nobody is there to commit to, or the machine is gone by then.
func (a *agent) hopeless() bool {
	if a.notice != nil && a.now() >= a.notice.deadline {
		return true
	}
	w := a.wish
	return w != nil && w.kind == wishSilence && (a.ship.now == nil && a.ship.next == nil || a.now() >= w.giveUp+a.saveLimit())
}
