package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// fenced ends everything: the loop returns before it does anything else.
func (a *agent) fenced() { a.fatal = ErrFenced }

// answered looks at the answer to any request but a renewal, for the one thing
// that all can say. "Fenced" bars commits at once, and the next renewal decides:
// the epoch may be over because the job goes on here under the next one, and a
// replica that has just started may know too little. Without an answer to that
// within half of Timers.Fence it is taken at its word.
func (a *agent) answered(err error) {
	if !refused(err, events.RefusedFenced) {
		return
	}
	a.post(func() {
		if a.barred == 0 {
			a.barred = max(a.now(), 1)
			a.cfg.Log.Warn("refused as fenced", zap.Error(err))
		}
		a.renewSoon()
	})
}

// renewed takes the answer to a renewal that was sent at a time.
func (a *agent) renewed(sent time.Duration, r events.RenewReply) {
	if sent >= a.barred {
		a.barred = 0
	}
	if r.ReclaimEvery > 0 {
		a.reclaim = r.ReclaimEvery
	}
	a.replied(r)
}

// goOver takes the job on under a new epoch on the same machine, as the gateway
// orders when a trainer died and the machine lives. Setup is not run again.
func (a *agent) goOver(r events.RenewReply) {
	if a.turning || a.stage != over && !a.trainer.done {
		return
	}
	a.turning = true
	a.spawn(func(ctx context.Context) {
		err := a.logs.turn(ctx, a.cfg.Control, time.Second, r.Epoch, func() error { return a.cfg.Control.Adopt(r.Epoch, r.JWT) })
		a.post(func() { a.wentOver(r.Epoch, err) })
	})
}

func (a *agent) wentOver(epoch int, err error) {
	a.turning = false
	if err != nil {
		a.cfg.Log.Error("going over to a new epoch", zap.Int("to", epoch), zap.Error(err))
		return // the next renewal brings it again
	}
	a.cfg.Log.Info("going on under a new epoch", zap.Int("from", a.epoch), zap.Int("to", epoch))
	if a.trainer.reported != nil {
		a.trainer.reported()
	}
	a.epoch, a.stage, a.wish, a.barred = epoch, waiting, nil, 0
	a.trainer, a.ship = trainer{step: -1}, a.ship.afresh()
	a.beat.update(func(h *events.Heartbeat) {
		*h = events.Heartbeat{Lease: h.Lease, State: "ready", Step: -1, Saved: -1}
	})
	a.renewSoon()
}
