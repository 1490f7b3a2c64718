package agent

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// errHold is a commit that was not asked for.
var errHold = errors.New("the hold has lapsed")

// commit asks the gateway beside the loop. The hold is looked at again where the
// request is made: the machine may have slept in between.
func (a *agent) commit(req events.CommitRequest) {
	a.ship.asking = true
	req.Final, req.OrderID = a.last(req.Checkpoint.Step)
	a.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, a.timers.Hold/2)
		defer cancel()
		err := errHold
		if a.stand.get().holds(a.now(), a.timers) {
			err = a.cfg.Control.Commit(ctx, req)
		}
		a.answered(err)
		a.post(func() { a.commitAnswered(req, err) })
	})
}

func (a *agent) commitAnswered(req events.CommitRequest, err error) {
	s := &a.ship
	if req.Checkpoint.Epoch != a.epoch {
		return // of an epoch that was over by then
	}
	s.asking = false
	switch {
	case err == nil:
		s.failures = 0
		s.committed = req
		a.cfg.Log.Info("committed", zap.Int64("step", req.Checkpoint.Step), zap.Bool("final", req.Final))
	case !final(err):
		if !errors.Is(err, errHold) {
			a.later(err)
		}
		return
	default:
		a.cfg.Log.Warn("commit refused", zap.Int64("step", req.Checkpoint.Step), zap.Error(err))
		if refused(err, events.RefusedInvalid) {
			a.say(fmt.Sprintf("the checkpoint of step %d was refused: %v", req.Checkpoint.Step, err))
		}
	}
	if s.ready != nil && s.ready.Checkpoint.Name == req.Checkpoint.Name {
		s.ready = nil
	}
	if w := a.wish; w != nil && req.Final && req.OrderID == w.order {
		w.final = true
	}
}
