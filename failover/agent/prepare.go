package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/events"
)

// onceReady is what is done once on a machine, however often it is ordered to start.
type onceReady struct{ workdir, setup bool }

// failure is an end of the job on this machine that is nobody's signal to try
// the same again.
type failure struct {
	exit         Exit
	reason       string
	unrestorable bool
}

func (f *failure) Error() string { return f.reason }

// prepared is a machine on which the trainer can be started.
type prepared struct {
	once   onceReady
	resume string // directory of the restored checkpoint, "" for a fresh start
	from   int64  // its step
	watch  *watcher
	kind   string // the framework of the restored checkpoint
}

// start takes up the order to begin. It is obeyed once per order, and not while
// the job is already on its way.
func (a *agent) start(resume []events.Checkpoint) {
	if a.stage != waiting && a.stage != over {
		return
	}
	a.stage, a.trainer, a.ship, a.wish = preparing, trainer{step: -1}, a.ship.afresh(), nil
	if a.notice != nil { // whatever is saved until then may be the last
		a.wish = &wish{kind: wishNotice, settled: true}
	}
	ctx, cancel := context.WithCancel(a.ctx)
	a.trainer.giveUp = cancel
	once, epoch := a.ready, a.epoch
	a.working.Go(func() {
		defer cancel()
		p, err := a.prepare(ctx, epoch, once, resume)
		a.post(func() { a.preparedTo(p, err) })
	})
	if a.bad != nil {
		a.raise(*a.bad) // nothing is started on a faulty machine
	}
}

// prepare does everything before the trainer. What can succeed later is tried
// for as long as ctx lasts; a *failure cannot.
func (a *agent) prepare(ctx context.Context, epoch int, once onceReady, resume []events.Checkpoint) (prepared, error) {
	p := prepared{once: once}
	a.fetchCheckpoint(resume)
	if err := a.fetch(ctx, &p.once); err != nil {
		return p, err
	}
	if err := a.setUp(ctx, epoch, &p.once); err != nil {
		return p, err
	}
	if err := os.MkdirAll(a.place.checkpoints, 0o755); err != nil {
		return p, fmt.Errorf("making the checkpoint directory: %w", err)
	}
	if err := a.restore(ctx, &p, resume); err != nil {
		return p, err
	}
	if err := a.awaitGPUs(ctx); err != nil {
		return p, err
	}
	var err error
	p.watch, err = newWatcher(a, p)
	return p, err
}

// fetch brings the job's inputs, unless they are there.
func (a *agent) fetch(ctx context.Context, once *onceReady) error {
	if !a.hasInputs() || once.workdir {
		return nil
	}
	a.enter("setup")
	began := a.now()
	defer a.tookInputs(began)
	brought, err := a.awaitInputs(ctx, began)
	if err == nil && !brought {
		err = a.fetchInputs(ctx)
	}
	if errors.Is(err, errArchive) {
		return &failure{exit: Exit{Code: 1}, reason: err.Error()}
	}
	once.workdir = err == nil
	return err
}

// tryUntil repeats do until it succeeds or fails for good.
func (a *agent) tryUntil(ctx context.Context, what string, permanent error, do func() error) error {
	b := patience(200*time.Millisecond, 10*time.Second)
	for {
		err := do()
		if err == nil || errors.Is(err, permanent) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.cfg.Log.Warn(what, zap.Error(err))
		a.say(what + ", trying again: " + err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(b.NextBackOff()):
		}
	}
}

func (a *agent) setUp(ctx context.Context, epoch int, once *onceReady) error {
	if a.spec.Setup == "" || once.setup {
		return nil
	}
	a.enter("setup")
	began := a.now()
	if err := os.WriteFile(a.place.setup, []byte(a.spec.Setup), 0o700); err != nil {
		return fmt.Errorf("writing setup: %w", err)
	}
	process, flush, err := a.launch(a.place.setup, epoch, "")
	if err != nil {
		return &failure{exit: Exit{Code: 126}, reason: "setup: " + err.Error()}
	}
	stop := context.AfterFunc(ctx, func() { _ = process.Kill(context.WithoutCancel(ctx)) }) // killed again below, with its error
	exit := process.Wait()
	stop()
	err = process.Kill(context.WithoutCancel(ctx)) // what it left behind must not meet the trainer
	flush()
	a.beat.update(func(h *events.Heartbeat) { h.Clock.SetupMS += (a.now() - began).Milliseconds() })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if exit = shellExit(exit); exit != (Exit{}) {
		return &failure{exit: exit, reason: "setup " + exit.String()}
	}
	once.setup = err == nil
	return err
}

// launch starts one of the job's scripts. flush gives out a last unfinished line
// of output; it is called when the tree is dead.
func (a *agent) launch(script string, epoch int, resume string) (p Process, flush func(), err error) {
	stdout, stderr := a.logs.stream("stdout"), a.logs.stream("stderr")
	alive := func() { a.output.Store(int64(a.now())) }
	stdout.heard, stderr.heard = alive, alive
	p, err = a.cfg.Processes.Start(Program{
		Argv: []string{"bash", script}, Dir: a.place.work,
		Env: a.environment(epoch, resume), Stdout: stdout, Stderr: stderr,
	})
	return p, func() { stdout.Flush(); stderr.Flush() }, err
}

// restore puts the first good checkpoint in place and reports the bad ones. With
// none to restore, the job starts from zero; with none that can be, it does not.
func (a *agent) restore(ctx context.Context, p *prepared, resume []events.Checkpoint) error {
	if len(resume) == 0 {
		return nil
	}
	a.enter("restoring")
	began := a.now()
	if err := a.ahead.resume.wait(ctx); err != nil {
		return err
	}
	a.ahead.name = "" // what is in place is no longer staged
	var got checkpoint.Restored
	err := a.tryUntil(ctx, "restoring", checkpoint.ErrNoneRestorable, func() (err error) {
		got, err = a.engine.Restore(ctx, checkpoint.RestoreRequest{Refs: refsOf(resume), Dir: a.place.checkpoints})
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.rejectAll(ctx, resume, got.Rejected)
	if err != nil {
		return &failure{exit: Exit{Code: 1}, reason: err.Error(), unrestorable: true}
	}
	p.resume, p.from = got.Path, got.Ref.Step
	a.say(fmt.Sprintf("restored the checkpoint of step %d", p.from))
	a.beat.update(func(h *events.Heartbeat) {
		h.From, h.Saved, h.Clock.RestoreMS = p.from, p.from, (a.now() - began).Milliseconds()
	})
	p.kind = got.Manifest.Framework
	return a.finishRestore(p, got.Name)
}

func refOf(c events.Checkpoint) checkpoint.Ref {
	return checkpoint.Ref{Name: c.Name, Epoch: c.Epoch, Step: c.Step, Digest: c.Digest, Bytes: c.Bytes, Files: c.Files}
}

func refsOf(resume []events.Checkpoint) []checkpoint.Ref {
	refs := make([]checkpoint.Ref, len(resume))
	for i, c := range resume {
		refs[i] = refOf(c)
	}
	return refs
}

// rejectAll reports every checkpoint that was passed over: each is lost work.
func (a *agent) rejectAll(ctx context.Context, resume []events.Checkpoint, bad []checkpoint.Rejection) {
	for _, r := range bad {
		a.say(fmt.Sprintf("the checkpoint of step %d cannot be restored: %v", r.Ref.Step, r.Err))
		req := events.RejectRequest{Lease: a.cfg.Bootstrap.Lease, Path: r.Path, Detail: r.Err.Error()}
		for _, c := range resume {
			if c.Name == r.Ref.Name {
				req.Checkpoint = c
			}
		}
		err := persist(ctx, a.timers.Hold/2, func(ctx context.Context) error { return a.cfg.Control.Reject(ctx, req) })
		a.answered(err)
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("rejected checkpoint not reported", zap.String("checkpoint", r.Ref.Name), zap.Error(err))
		}
	}
}

// finishRestore leaves a trainer that looks for the newest checkpoint by itself
// only the one that was restored, and has its framework find that.
func (a *agent) finishRestore(p *prepared, keep string) error {
	root, err := os.OpenRoot(a.place.checkpoints)
	if err != nil {
		return fmt.Errorf("after the restore: %w", err)
	}
	defer root.Close()
	// The adapter that watches is the one that finishes: it may number on from there.
	p.watch = &watcher{a: a, root: root}
	adapter, err := a.adapter(root, p.watch, p.kind)
	if err != nil || adapter == nil {
		return err
	}
	p.watch.adapter = adapter
	if _, err := framework.SetAside(root, adapter, keep, own+"/aside"); err != nil {
		return fmt.Errorf("after the restore: %w", err)
	}
	resume, err := adapter.Finish(root, keep)
	if err != nil {
		return fmt.Errorf("after the restore: %w", err)
	}
	p.resume = filepath.Join(a.place.checkpoints, resume)
	return nil
}

// adapter returns what knows the job's framework, or nil while nothing shows
// which that is. w is who looks on while the trainer runs. kind is what the
// checkpoint restored says of itself; the job's own word wins.
func (a *agent) adapter(root *os.Root, w *watcher, kind string) (framework.Adapter, error) {
	p := a.spec.Policy.Checkpoint
	cfg := framework.Config{Quiet: a.cfg.Quiet, Marker: p.Marker, Run: a.spec.Run, Now: func() time.Time {
		return time.Unix(0, 0).Add(a.now()) // ages only; the wall clock may jump
	}}
	cfg.Writing, cfg.Cut = w.writing, w.cut.Load
	var adapter framework.Adapter
	var err error
	if kind = cmp.Or(p.Framework, kind); kind == "" {
		adapter, err = framework.Detect(root, cfg)
	} else {
		adapter, err = framework.New(kind, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("policy.checkpoint: %w", err)
	}
	return adapter, nil
}
