package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
)

// Why Run returned although its context goes on. In each case nothing is left
// running, and the machine has no more reason to be.
var (
	ErrBoot   = errors.New("the agent could not join before the machine's boot deadline")
	ErrFenced = errors.New("the epoch is over: another machine has the job")
	ErrSilent = errors.New("out of contact: the trainer was saved and stopped")
)

// agent is one machine's agent after it has joined. The fields below the line
// belong to the loop: everything else that wants something posts a function.
type agent struct {
	cfg     Config
	timers  events.Timers
	tenant  string
	spec    events.JobSpec
	secrets map[string]events.Secret
	store   checkpoint.Store
	engine  *checkpoint.Engine
	place   layout
	signal  syscall.Signal // asks the trainer to save; 0: it cannot be asked
	logs    *logs
	stand   shared
	beat    beat
	poke    chan struct{} // renew now
	inbox   chan func()
	ctx     context.Context // of everything the loop has started; the loop is Run, so it ends with it
	cancel  context.CancelFunc
	working sync.WaitGroup

	// ---- the loop's
	epoch      int
	placed     bool          // an order has come: the job is this machine's
	turning    bool          // a new epoch is being gone over to
	barred     time.Duration // since when a refusal says that the epoch may be over; 0: none does
	stage      stage
	ready      onceReady // what is done once on a machine
	ahead      ahead
	inputs     inputs // of whoever fetches them
	trainer    trainer
	ship       shipping
	wish       *wish
	notice     *notice
	orders     map[string]bool // ids of those already taken up
	reclaim    time.Duration   // mean time until a machine like this is taken back; 0: unknown
	slow       bool            // a checkpoint ships slower than the seller warns
	lengthened bool            // uploads make the time between saves longer
	asked      time.Duration   // when it was last asked to save, or had saved by itself
	awaited    bool            // and nothing has come since
	spoke      time.Duration   // when a renewal was last sent for a step
	telling    int             // how many of those have no answer yet
	report     context.CancelFunc
	fatal      error
	turned     time.Duration // when the loop last took a turn
	health

	output atomic.Int64 // when the trainer last wrote any output: a monotonic time
}

// stage is where the job is on this machine.
type stage uint8

const (
	waiting   stage = iota // for the order to start
	preparing              // working directory, setup, restore
	training               // the trainer's process is there
	leaving                // its tree is gone; what it saved last is being looked at and shipped
	over                   // reported
)

// Run is the agent's life: join, then do as the gateway says until ctx ends, the
// epoch is over, or contact is lost for good. It returns nil in the first case.
// Every process and goroutine it started has ended when it returns.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	started := cfg.Elapsed()
	place, err := newLayout(cfg.Dir)
	if err != nil {
		return err
	}
	reply, sent, err := join(ctx, cfg, started)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	a, err := newAgent(cfg, place, reply)
	if err != nil {
		return err
	}
	a.beat.update(func(h *events.Heartbeat) { h.Clock.BootMS = (sent - started).Milliseconds() })
	a.stand.renewed(sent, 0)
	return a.serve(ctx, reply.Resume)
}

func newAgent(cfg Config, place layout, r events.JoinReply) (*agent, error) {
	a := &agent{cfg: cfg, timers: cfg.Bootstrap.Timers, tenant: r.Store.Tenant, spec: r.Spec, place: place,
		poke: make(chan struct{}, 1), epoch: cfg.Bootstrap.Epoch, inbox: make(chan func(), 64), orders: map[string]bool{}}
	if r.Timers.Heartbeat > 0 {
		if err := checkTimers(r.Timers); err != nil {
			return nil, fmt.Errorf("joining: %w", err)
		}
		a.timers = r.Timers
	}
	a.inputs.grant, a.inputs.near = r.Store.Cache, r.Store.Kind == "dir"
	var err error
	if a.signal, err = parseSignal(r.Spec.Policy.Checkpoint.Signal); err != nil {
		return nil, err
	}
	if err := a.place.setCheckpoints(r.Spec.Policy.Checkpoint.Dir); err != nil {
		return nil, err
	}
	if a.store, err = cfg.openStore(r.Store); err != nil {
		return nil, fmt.Errorf("opening the checkpoint store: %w", err)
	}
	key, err := openKey(cfg, r.Store)
	if err != nil {
		return nil, err
	}
	a.ship.share.percent = cmp.Or(r.Spec.Policy.Checkpoint.SharePct, defaultShare)
	a.engine, err = checkpoint.New(checkpoint.Config{Store: a.store, Tenant: r.Store.Tenant, Job: string(cfg.Bootstrap.Job), Key: key, CacheDir: a.place.base, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	if a.secrets, err = unseal(cfg, r); err != nil {
		return nil, err
	}
	a.logs = newLogs(a.epoch, cfg.Now, &logFile{path: place.log})
	a.logs.mask = masking(a.secrets)
	if cfg.NvidiaSMI != "" {
		a.gpusKnown = make(chan struct{})
		if !cfg.SharedGPUs {
			a.gpus.asked = gpusAsked(r.Spec.Resources.Accelerators)
		}
	}
	a.beat.update(func(h *events.Heartbeat) {
		*h = events.Heartbeat{Lease: cfg.Bootstrap.Lease, State: "ready", Step: -1, Saved: -1, Clock: h.Clock}
	})
	return a, nil
}

// serve runs the loop and everything around it.
func (a *agent) serve(ctx context.Context, resume []events.Checkpoint) error {
	a.ctx, a.cancel = context.WithCancel(ctx)
	logging, stopLogging := context.WithCancel(context.WithoutCancel(ctx)) // outlives the loop: the last lines matter
	var shipper sync.WaitGroup
	shipper.Go(func() { a.logs.ship(logging, a.cfg.Control, a.cfg.LogEvery, a.timers.Hold, a.cfg.Turn) })

	a.spawn(a.renew)
	a.spawn(a.lookForNotices)
	a.lookAfterMachine()
	a.fetchAhead(resume)
	err := a.loop()
	a.endTrainer()
	a.cancel()
	a.working.Wait()
	a.closeInputs()
	if err != nil {
		a.say("the agent ends: " + err.Error())
		a.cfg.Log.Warn("agent ends", zap.Error(err))
	}
	stopLogging()
	shipper.Wait()
	a.logs.file.close()
	return err
}

// spawn runs f beside the loop until it returns; it is given a.ctx.
func (a *agent) spawn(f func(context.Context)) { a.working.Go(func() { f(a.ctx) }) }

// post has the loop call f. Once the loop has ended it does nothing.
func (a *agent) post(f func()) {
	select {
	case a.inbox <- f:
	case <-a.ctx.Done():
	}
}

// say leaves a line for whoever reads the job's output.
func (a *agent) say(text string) { a.logs.add("agent", text) }

// now is the monotonic time, the only one that decisions are made by.
func (a *agent) now() time.Duration { return a.cfg.Elapsed() }

// loop takes what has happened, one thing after the other, and after each does
// what then has to be done.
func (a *agent) loop() error {
	tick := time.NewTicker(a.cfg.WatchEvery)
	defer tick.Stop()
	for {
		if done, err := a.decide(a.now()); done {
			return err
		}
		select {
		case <-a.ctx.Done():
			return nil
		case f := <-a.inbox:
			f()
		case <-tick.C:
			a.cfg.Turn("loop")
		}
	}
}

// decide reports whether the agent's life is over, and as what.
func (a *agent) decide(now time.Duration) (bool, error) {
	if a.barred > 0 && now-a.barred >= a.timers.Fence/2 {
		a.fatal = ErrFenced
	}
	if a.fatal != nil {
		return true, a.fatal
	}
	if gone, why := a.stand.get().ends(now, a.needToEnd(), a.timers); gone && (a.wish == nil || a.wish.kind != wishSilence) {
		a.say(why + ": saving and stopping")
		a.cfg.Log.Warn("out of contact, ending", zap.String("why", why))
		a.want(wishSilence, "")
	}
	if a.stage == training && !a.trainer.loaded && now-a.trainer.began >= a.timers.Hold {
		a.trainer.loaded = true // it tells no steps, or is slow to the first
		a.enter("training")
	}
	a.watchForStall(now)
	a.tellSteps(now)
	a.askInRhythm(now)
	a.tellFlush()
	a.breathe(now)
	a.pursue(now)
	a.advance(now)
	a.leave(now)
	a.settleTrouble()
	a.tellTrouble()
	ended := a.stage == over || a.stage == leaving && a.trainer.done
	return ended && a.wish != nil && a.wish.kind == wishSilence, ErrSilent
}

// endTrainer has the trainer's tree dead when it returns.
func (a *agent) endTrainer() {
	if a.trainer.process == nil {
		return
	}
	// Whatever became of the agent's context, the tree must not outlive it.
	if err := a.trainer.process.Kill(context.WithoutCancel(a.ctx)); err != nil {
		a.cfg.Log.Error("ending the trainer", zap.Error(err))
	}
}
