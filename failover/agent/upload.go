package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
)

// upload sends the waiting checkpoint beside the loop.
func (a *agent) upload(now time.Duration) {
	s := &a.ship
	f := s.next
	ctx, cancel := context.WithCancel(a.ctx)
	t, epoch := a.transfers(now), a.epoch
	s.gauge = t
	switch e := &s.early; {
	case e.of != f.name:
		e.stop()
	case e.flight != nil: // what is under way of this very one is not sent twice
		s.gauge = e.flight.transfer
	}
	s.now, s.next, s.cancel, s.up, s.yields = f, nil, cancel, t, false
	a.working.Go(func() {
		defer cancel()
		a.cfg.Turn("upload")
		var weights string
		var digest sync.WaitGroup
		digest.Go(func() { weights = weightsDigest(f.dir + "/" + f.sub) })
		ref, err := a.engine.Upload(ctx, f.request(epoch))
		up := sent{a.engine.Progress().Sent - t.was, a.now() - t.began}
		digest.Wait()
		a.post(func() { a.uploaded(f, ref, weights, up, err) })
	})
}

// uploaded takes the outcome of an upload.
func (a *agent) uploaded(f *found, ref checkpoint.Ref, weights string, up sent, err error) {
	s := &a.ship
	if s.now != f {
		return // of a start that is over
	}
	s.now = nil
	if err != nil {
		f.tried += up.bytes
	}
	if err == nil {
		a.sentIn(s.gauge, sent{up.bytes + s.up.was - s.gauge.was, up.took + s.up.began - s.gauge.began})
		needed := f.ahead + f.tried + up.bytes
		s.needs.add(needed)
		s.wholes.add(f.gone + needed)
		s.early.finish(f.name)
		s.failures, s.full = 0, 0
		f.release(a.cfg.Log)
		if (a.wish == nil || a.wish.kind != wishEnd) && !a.ignored() {
			s.ready = &events.CommitRequest{Lease: a.cfg.Bootstrap.Lease, SaveMS: f.save.Milliseconds(), UploadMS: (a.now() - f.at).Milliseconds(),
				Checkpoint: events.Checkpoint{Name: ref.Name, Epoch: ref.Epoch, Step: ref.Step, Digest: ref.Digest, Bytes: ref.Bytes, Files: ref.Files, Weights: weights}}
		}
		return
	}
	switch {
	case s.yields && s.next == nil:
		s.next = f
		return
	case errors.Is(err, context.Canceled):
	case hopelessTree(err):
		a.say(fmt.Sprintf("the checkpoint of step %d is not kept: %v", f.step, err))
		a.cfg.Log.Warn("checkpoint given up", zap.String("checkpoint", f.name), zap.Error(err))
	case s.next == nil && (a.wish == nil || a.wish.kind != wishEnd):
		a.uploadAgain(f, err)
		return
	}
	f.release(a.cfg.Log)
}

// hopelessTree reports whether an upload of this very tree can never succeed.
func hopelessTree(err error) bool {
	for _, e := range []error{checkpoint.ErrVanished, checkpoint.ErrChanged, checkpoint.ErrUnsafe, checkpoint.ErrTooLarge, checkpoint.ErrManifest} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (a *agent) uploadAgain(f *found, err error) {
	s := &a.ship
	s.next = f
	if errors.Is(err, checkpoint.ErrNoSpace) {
		s.full++
	}
	a.later(err)
}

// later spaces repetitions.
func (a *agent) later(err error) {
	s := &a.ship
	most := max(a.timers.Heartbeat, time.Second)
	if a.notice != nil {
		most = 200 * time.Millisecond // there is no time for patience
	}
	wait := min(100*time.Millisecond<<min(s.failures, 7), most)
	s.failures++
	s.retry = a.now() + wait
	a.cfg.Log.Warn("shipping, trying again", zap.Duration("in", wait), zap.Error(err))
}
