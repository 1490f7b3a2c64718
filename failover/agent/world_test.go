package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

const (
	job   = events.JobID("01jtest")
	lease = events.LeaseID("01jtest-1-1")
)

// world is one machine with its agent inside a bubble.
type world struct {
	t       *testing.T
	cfg     agent.Config
	gw      *agenttest.Gateway
	seller  *agenttest.Seller
	machine *agenttest.Machine
	trainer *agenttest.Trainer
	store   *mem.Store
	plan    atomic.Pointer[mem.Plan]
	slept   atomic.Int64 // added to the monotonic clock, as a suspension would be
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error
}

// inWorld runs f in a bubble with a machine that has not been started. The spec
// has a trainer that catches SIGUSR1, makes a step a second, saves every 20 and
// takes a second for it.
func inWorld(t *testing.T, f func(*world, *events.JoinReply)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: nil, ended: make(chan struct{})}
		start := time.Now()
		elapsed := func() time.Duration { return time.Since(start) + time.Duration(w.slept.Load()) + time.Hour }
		w.store = mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
			if p := w.plan.Load(); p != nil {
				return (*p)(op)
			}
			return mem.Fault{}
		}})
		join := events.JoinReply{Org: "acme", Store: events.StoreGrant{Kind: "mem", Tenant: "acme"}, Spec: events.JobSpec{
			Run: "train", Policy: events.Policy{Checkpoint: events.CheckpointPolicy{Framework: "hf", Signal: "SIGUSR1"}}}}
		w.gw = agenttest.NewGateway(join, elapsed)
		w.seller = &agenttest.Seller{Now: elapsed}
		w.trainer = &agenttest.Trainer{Steps: 100_000, StepTime: time.Second, SaveEvery: 20, SaveTime: time.Second}
		w.machine = &agenttest.Machine{Programs: map[string]func(*agenttest.Running) agent.Exit{"run.sh": w.trainer.Run}}
		w.cfg = agent.Config{
			Bootstrap: events.Bootstrap{Job: job, Epoch: 1, Lease: lease, Timers: events.DefaultTimers()},
			Dir:       dir, Control: w.gw, Metadata: w.seller, Processes: w.machine, Elapsed: elapsed, Quiet: -1,
			OpenStore: func(events.StoreGrant) (checkpoint.Store, error) { return w.store, nil },
			Log:       zap.NewNop(),
		}
		if testing.Verbose() {
			w.cfg.Log = zaptest.NewLogger(t)
		}
		f(w, &w.gw.Joined)
		if w.cancel != nil {
			w.cancel()
			<-w.ended
		}
	})
}

// boot starts the agent and orders it to begin.
func (w *world) boot() {
	w.start()
	w.gw.Order(events.OrderStart, "start-1")
	w.sleep(time.Second)
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.cancel = cancel
	go func() {
		w.err = agent.Run(ctx, w.cfg)
		close(w.ended)
	}()
	synctest.Wait()
}

func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until sleeps until something is so, for at most a virtual hour.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	for range 36_000 {
		if synctest.Wait(); so() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("never: %s", what)
}

func (w *world) commits() []events.CommitRequest { return w.gw.Record().Commits }

// answers returns the commits that answer an order.
func (w *world) answers(order string) (cs []events.CommitRequest) {
	for _, c := range w.commits() {
		if c.OrderID == order {
			cs = append(cs, c)
		}
	}
	return cs
}

func (w *world) steps() (steps []int64) {
	for _, c := range w.commits() {
		steps = append(steps, c.Checkpoint.Step)
	}
	return steps
}

func (w *world) running() bool {
	return slices.ContainsFunc(w.machine.Started(), (*agenttest.Running).Alive)
}

func (w *world) restarts() int { return len(w.machine.Started()) - 1 }

func (w *world) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

func (w *world) said(text string) bool {
	return slices.ContainsFunc(w.gw.Record().Lines, func(l events.LogLine) bool { return strings.Contains(l.Text, text) })
}

func (w *world) faults(p mem.Plan) { w.plan.Store(&p) }

func (w *world) lastCommit() events.CommitRequest {
	c := w.commits()
	if len(c) == 0 {
		return events.CommitRequest{}
	}
	return c[len(c)-1]
}

func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (w *world) ends(with error) {
	w.t.Helper()
	w.until("the agent ends", w.over)
	if !errors.Is(w.err, with) {
		w.t.Errorf("Run = %v, want %v", w.err, with)
	}
}
