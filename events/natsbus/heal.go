package natsbus

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// healEvery is how often a server is looked at that could not write.
const healEvery = 500 * time.Millisecond

// Heal starts the server anew once there is room again on a disk that was full,
// until ctx ends: a stream that failed to write once refuses every later write,
// however much room there is by then, until it is opened anew (nats-server 2.15.3).
// Its clients see a short outage and come back.
func (e *Embedded) Heal(ctx context.Context) {
	tick := time.NewTicker(healEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if e.heal(ctx) {
			e.cfg.Log.Warn("there is room again: the bus was started anew, since it does not write where it once failed to")
		}
	}
}

// heal reports whether the server was started anew.
func (e *Embedded) heal(ctx context.Context) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil || !e.lines.failedToStore() || e.Room() != nil {
		return false
	}
	e.stop()
	for {
		err := e.start(e.cfg)
		if err == nil {
			return true
		}
		e.cfg.Log.Error("starting the bus anew", zap.Error(err))
		select {
		case <-ctx.Done():
			return false
		case <-time.After(healEvery):
		}
	}
}
