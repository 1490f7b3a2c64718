package checkpoint

import (
	"golang.org/x/time/rate"
)

// Progress is what an engine has done and is doing, at one moment.
type Progress struct {
	Read   int64 // bytes of files read since New
	Sent   int64 // bytes handed to the store since New, as they are stored
	Reused int64 // bytes of files found to be in the store already since New
	// Left is how many bytes of files the uploads under way have neither sent
	// nor found yet: an upper bound of what they will still send.
	Left int64
	// Rate is how many bytes a second the store has taken lately while it was
	// given any; 0 when nothing was sent yet.
	Rate float64
	// Fetched is how many bytes restores have verified since New.
	Fetched int64
}

// Progress returns the counters. It does not wait for anything.
func (e *Engine) Progress() Progress {
	return Progress{Read: e.counters.read.Load(), Sent: e.sent.Load(), Reused: e.reused.Load(), Left: max(e.left.Load(), 0),
		Rate: e.link.rate(), Fetched: e.fetched.Load()}
}

// SetRate limits uploads to so many bytes a second; 0 means no limit. It acts on
// what is under way.
func (e *Engine) SetRate(bytesPerSecond int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pace = bytesPerSecond
	e.apply()
}

// SetWorkers sets how many chunks an upload works on at once; 0 means the
// configured number. It acts on what is under way.
func (e *Engine) SetWorkers(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.workers = n
	if n <= 0 {
		e.workers = e.cfg.Workers
	}
	e.apply()
}

// Boost is for the time after a notice: as many streams and as much memory as
// BoostWorkers and BoostMemory say, and no limit on the rate. It acts on what is
// under way; Boost(false) brings back what was set.
func (e *Engine) Boost(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.boosted = on
	e.apply()
}

// apply brings gate and limiter to what is set. mu is held.
func (e *Engine) apply() {
	workers, memory, pace := e.workers, e.cfg.Memory, e.pace
	if e.boosted {
		workers, memory, pace = max(workers, e.cfg.BoostWorkers), max(memory, e.cfg.BoostMemory), 0
	}
	e.gate.limit(workers, memory)
	limit := rate.Inf
	if pace > 0 {
		limit = rate.Limit(pace)
	}
	e.limiter.SetLimit(limit)
}
