package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/events"
)

// trainer is the job's process of one start.
type trainer struct {
	process  Process // nil before it is started
	watch    *watcher
	giveUp   context.CancelFunc // of the preparation, later of the watcher
	flush    func()
	began    time.Duration
	resumed  bool
	from     int64
	step     int64 // newest the trainer told
	told     int64 // newest that a renewal was sent for
	loaded   bool  // it counts as training
	judged   bool  // whether it goes on from what was restored is decided
	below    int64 // the first step of one that does not
	stall    stallClock
	finding  *finding // why it was ended, if something was wrong
	heard    bool     // the gateway knows of that
	unheard  bool     // and never will
	bidden   bool     // it was asked to save by a signal that ends trainers
	stopping bool     // its tree is being stopped or killed
	exit     Exit
	reason   string // why it ended, if more is known than the exit
	failed   *failure
	left     time.Duration // when its tree was gone
	looked   time.Duration // begin of the newest complete look at the disk
	decided  bool          // nothing in that look was unfinished
	done     bool          // the report of its end is under way
	reported context.CancelFunc
}

// preparedTo takes the outcome of the preparation and starts the trainer.
func (a *agent) preparedTo(p prepared, err error) {
	a.ready = p.once
	if err == nil && !a.trainer.stopping {
		err = a.launchTrainer(p)
	}
	if diskFault(err) && a.ctx.Err() == nil {
		a.blame(a.hostFault("before the start", err))
	}
	switch f, ok := errors.AsType[*failure](err); {
	case ok:
		a.trainer.failed, a.trainer.exit, a.trainer.reason = f, f.exit, f.reason
	case a.trainer.stopping || a.ctx.Err() != nil:
		a.trainer.exit, a.trainer.reason = Exit{Code: -1, Signal: "SIGTERM"}, cmp.Or(a.trainer.reason, "stopped before training began")
	case err != nil:
		a.trainer.exit, a.trainer.reason = Exit{Code: 1}, err.Error()
	default:
		return
	}
	if p.watch != nil {
		p.watch.root.Close()
	}
	a.say(a.trainer.reason)
	now := a.now()
	a.stage, a.trainer.decided, a.trainer.looked, a.trainer.left = leaving, true, now, now
}

func (a *agent) launchTrainer(p prepared) error {
	if err := os.RemoveAll(a.place.progress); err != nil {
		return fmt.Errorf("before the start: %w", err)
	}
	if err := os.WriteFile(a.place.run, []byte(a.spec.Run), 0o700); err != nil {
		return fmt.Errorf("writing run: %w", err)
	}
	process, flush, err := a.launch(a.place.run, a.epoch, p.resume)
	if err != nil {
		return &failure{exit: Exit{Code: 126}, reason: "run: " + err.Error()}
	}
	ctx, cancel := context.WithCancel(a.ctx)
	a.trainer = trainer{process: process, watch: p.watch, giveUp: cancel, flush: flush, began: a.now(), resumed: p.resume != "", from: p.from, step: -1}
	a.trainer.stall.moved = a.trainer.began
	a.stage, a.asked = training, a.now()
	p.watch.process = process
	a.working.Go(func() { p.watch.run(ctx) })
	a.working.Go(func() { p.watch.follow(ctx) })
	a.working.Go(func() {
		process.Wait()
		a.post(func() { a.rootExited(process) })
	})
	a.enter("starting")
	a.cfg.Log.Info("trainer started", zap.String("resume", p.resume), zap.Int64("from", p.from))
	return nil
}

// rootExited: the script has ended; what it left running has no business any more.
func (a *agent) rootExited(p Process) {
	if p != a.trainer.process || a.trainer.stopping {
		return
	}
	a.endTree(func() error { return p.Kill(context.WithoutCancel(a.ctx)) })
}

// endTree ends the trainer's tree in one way or another, beside the loop. No way
// of it may leave anything behind because the agent itself is ending.
func (a *agent) endTree(how func() error) {
	p, flush := a.trainer.process, a.trainer.flush
	a.trainer.stopping = true
	a.working.Go(func() {
		if err := how(); err != nil {
			a.cfg.Log.Error("ending the trainer", zap.Error(err))
			a.say(err.Error())
		}
		exit := shellExit(p.Wait())
		flush()
		a.post(func() { a.treeGone(p, exit) })
	})
}

func (a *agent) treeGone(p Process, exit Exit) {
	if p != a.trainer.process || a.stage != training {
		return
	}
	a.stage = leaving
	a.trainer.exit, a.trainer.left = exit, a.now()
	a.trainer.watch.cut.Store(exit != Exit{})
	a.trainer.reason = a.endReason(exit)
	a.trainer.decided = false
	a.say(a.trainer.reason)
	a.cfg.Log.Info("trainer ended", zap.Int("code", exit.Code), zap.String("signal", exit.Signal), zap.Int64("step", a.trainer.step))
}

// stop has the trainer end in order: it is asked, given time, and killed.
func (a *agent) stop(reason string) {
	switch {
	case a.stage == preparing:
		a.trainer.stopping = true
		a.trainer.giveUp()
	case a.stage == waiting:
		a.trainer = trainer{exit: Exit{Code: -1, Signal: "SIGTERM"}, reason: "stopped before training began", decided: true, step: -1}
		a.stage = leaving
	case a.stage == training && !a.trainer.stopping:
		a.enter("stopping")
		a.trainer.reason = reason
		grace := a.cfg.Grace
		if a.notice != nil { // the machine dies then, and what the trainer saves last has to be shipped before
			grace = min(grace, max(a.notice.deadline-a.now()-a.ship.another()-a.notice.margin, 0))
		}
		p := a.trainer.process
		a.endTree(func() error { return p.Stop(a.ctx, grace) }) // the agent's end cuts the grace short
	}
}

// end kills everything at once; nothing more can be committed.
func (a *agent) end(order string) {
	a.wish = &wish{kind: wishEnd, order: order, settled: true}
	a.ship.abandon(a.cfg.Log)
	if a.stage == training && !a.trainer.stopping {
		p := a.trainer.process
		a.trainer.reason = "ended by order"
		a.endTree(func() error { return p.Kill(context.WithoutCancel(a.ctx)) })
		return
	}
	if a.stage == training { // it is being stopped with patience, which is over now
		p := a.trainer.process
		a.spawn(func(ctx context.Context) { _ = p.Kill(context.WithoutCancel(ctx)) }) // Stop reports what is left
		return
	}
	a.stop("ended by order")
}

// leave reports the end of the trainer once what it saved last is looked at and
// committed. A trainer that finished is not reported before its last checkpoint
// is true.
func (a *agent) leave(now time.Duration) {
	if a.stage != leaving || a.trainer.done {
		return
	}
	looked := a.lookedSince() && a.kernelHeard(a.trainer.left)
	ended := a.wish != nil && a.wish.kind == wishEnd
	doomed := a.notice != nil && now > a.notice.deadline
	if !ended && !doomed && (!looked || a.ship.pending() && !a.hopeless()) {
		return
	}
	a.trainer.done = true
	if a.trainer.giveUp != nil {
		a.trainer.giveUp()
	}
	a.enter("exited")
	if a.wish != nil && a.wish.kind == wishSilence {
		a.stage = over // there is nobody to tell
		return
	}
	if a.trainer.finding != nil {
		return // see settleTrouble
	}
	a.reportDone()
}

// lookedSince reports whether everything that the trainer left has been seen. A
// torn checkpoint stays undecided: after it has been still for long enough it is
// as it will be.
func (a *agent) lookedSince() bool {
	return a.trainer.looked >= a.trainer.left &&
		(a.trainer.decided || a.trainer.looked >= a.trainer.left+a.cfg.Quiet+4*a.cfg.WatchEvery)
}

// lastWords is how long the output may take to be sent before an end is told.
// The machine may be given back the moment that is heard, and with it what still waits.
func (a *agent) lastWords() time.Duration {
	limit := a.timers.Heartbeat
	if a.notice != nil {
		limit = max(min(limit, a.notice.deadline-a.notice.margin-a.now()), 0)
	}
	return limit
}

// reportDone tells how it ended, until that has been heard.
func (a *agent) reportDone() {
	t := a.trainer
	req := events.DoneRequest{Lease: a.cfg.Bootstrap.Lease, Code: t.exit.Code, Signal: t.exit.Signal, LastStep: max(t.step, t.from), Reason: t.reason}
	req.OutOfMemory = a.killedForMemory(t.exit)
	if t.bidden && t.exit == (Exit{}) { // it did as it was bidden, which is no end of the work
		req.Code, req.Signal = -1, unix.SignalName(a.signal)
	}
	if t.failed != nil {
		req.Unrestorable = t.failed.unrestorable
	}
	if a.wish != nil && (a.wish.kind == wishStop || a.wish.kind == wishEnd) {
		req.OrderID = a.wish.order
		a.wish = nil
	}
	ctx, cancel := context.WithCancel(a.ctx)
	epoch, patience := a.epoch, a.lastWords()
	a.trainer.reported = cancel
	a.working.Go(func() {
		defer cancel()
		a.logs.flush(ctx, a.cfg.Control, patience)
		err := persist(ctx, a.timers.Hold/2, func(ctx context.Context) error { return a.cfg.Control.Done(ctx, req) })
		a.answered(err)
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("the end was not taken", zap.Error(err))
		}
		a.post(func() {
			if a.stage == leaving && a.epoch == epoch {
				a.stage = over
			}
		})
	})
}
