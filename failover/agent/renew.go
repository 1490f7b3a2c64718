package agent

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// beat is what the next renewal will say.
type beat struct {
	mu    sync.Mutex
	h     events.Heartbeat
	since time.Duration // when the state began
}

func (b *beat) update(f func(*events.Heartbeat)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.h)
}

func (b *beat) get() events.Heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.h
}

func (b *beat) enter(state string, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.h.State, b.since = state, now
}

// told is what a renewal says that is sent now.
func (b *beat) told(now time.Duration) events.Heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.h
	h.At = time.Time{} // the gateway's to set
	if h.State == "training" {
		h.TrainingMS = (now - b.since).Milliseconds()
	}
	return h
}

// renew extends the hold, every heartbeat and whenever there is something to say
// or to hear. It waits for nothing but its own request: uploads, setup and a slow
// disk cannot cost a hold.
func (a *agent) renew(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	lost := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-a.cfg.Control.Hints():
		case <-a.poke:
		}
		if ctx.Err() != nil {
			return
		}
		a.cfg.Turn("renew")
		err := a.renewOnce(ctx)
		if (err != nil) != lost && ctx.Err() == nil {
			lost = err != nil
			a.cfg.Log.Info("contact changed", zap.Bool("contact", !lost), zap.Error(err))
		}
		timer.Reset(a.timers.Heartbeat)
	}
}

func (a *agent) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(a.timers.Heartbeat, a.timers.Hold/4))
	defer cancel()
	sent := a.now()
	h := a.beat.told(sent)
	reply, err := a.cfg.Control.Renew(ctx, h)
	if refused(err, events.RefusedFenced) {
		a.post(a.fenced)
	}
	if err != nil {
		return err
	}
	a.stand.renewed(sent, reply.PaidFor)
	a.post(func() { a.renewed(sent, reply) })
	return nil
}

// renewSoon has the control plane told without waiting for the next heartbeat.
func (a *agent) renewSoon() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// enter sets the state that renewals tell.
func (a *agent) enter(state string) {
	a.beat.enter(state, a.now())
	a.renewSoon()
}
