package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
)

// ahead is what a machine brings to itself before it needs it: from when it has
// joined the inputs and, beside them and setup, the checkpoint that it would
// resume from by then. Its predecessor may commit a newer one yet, which is then
// fetched in its place.
//
// After the join it belongs to whoever prepares a start, and there is one at a time.
type ahead struct {
	began  time.Duration
	inputs *errand
	resume *errand
	name   string // of the checkpoint that resume brings first
}

// errand is something done beside everything else. A nil one has ended.
type errand struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // to be read then
	ended  time.Duration // and this
}

func (a *agent) send(do func(context.Context) error) *errand {
	ctx, cancel := context.WithCancel(a.ctx)
	e := &errand{cancel: cancel, done: make(chan struct{})}
	a.working.Go(func() {
		defer close(e.done)
		defer cancel()
		e.err = do(ctx)
		e.ended = a.now()
	})
	return e
}

// wait waits for the end of an errand, or of ctx.
func (e *errand) wait(ctx context.Context) error {
	if e == nil {
		return nil
	}
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop has an errand ended when it returns.
func (e *errand) stop() {
	if e != nil {
		e.cancel()
		<-e.done
	}
}

// fetchAhead begins with everything that needs no order.
func (a *agent) fetchAhead(resume []events.Checkpoint) {
	a.ahead.began = a.now()
	if a.hasInputs() {
		a.ahead.inputs = a.send(a.fetchInputs)
	}
	a.fetchCheckpoint(resume)
}

// fetchCheckpoint has the first of resume brought, unless that is under way. A
// directory is restored into by one at a time. What another fetch of the same
// checkpoint brought is not fetched again.
func (a *agent) fetchCheckpoint(resume []events.Checkpoint) {
	h, name := &a.ahead, ""
	if len(resume) > 0 {
		name = resume[0].Name
	}
	if name == h.name {
		return
	}
	h.resume.stop()
	h.resume, h.name = nil, name
	if name == "" {
		return
	}
	h.resume = a.send(func(ctx context.Context) error {
		began := a.now()
		_, err := a.engine.Fetch(ctx, checkpoint.RestoreRequest{Refs: refsOf(resume), Dir: a.place.checkpoints})
		switch {
		case err == nil:
			a.cfg.Log.Info("checkpoint fetched ahead", zap.String("checkpoint", name), zap.Duration("took", a.now()-began))
		case ctx.Err() == nil:
			a.cfg.Log.Warn("fetching the checkpoint ahead", zap.Error(err)) // the restore meets it again, and says so
		}
		return err
	})
}

// awaitInputs waits for what was begun at the join, and reports whether it
// brought all. It counts the time waited as the inputs', and that before the
// order as ahead of it.
func (a *agent) awaitInputs(ctx context.Context, ordered time.Duration) (bool, error) {
	e := a.ahead.inputs
	if e == nil {
		return false, nil
	}
	if err := e.wait(ctx); err != nil {
		return false, err
	}
	a.ahead.inputs = nil
	early := min(e.ended, ordered) - a.ahead.began
	a.beat.update(func(h *events.Heartbeat) { h.Clock.AheadMS = early.Milliseconds() })
	return e.err == nil, nil
}

// tookInputs counts the time for inputs, which is a part of that for setup.
func (a *agent) tookInputs(began time.Duration) {
	took := (a.now() - began).Milliseconds()
	a.beat.update(func(h *events.Heartbeat) {
		h.Clock.InputsMS += took
		h.Clock.SetupMS += took
	})
}
