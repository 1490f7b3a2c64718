package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// gets counts reads of objects whose names have a text in them, and lets each take a time.
func (w *world) gets(text string, each time.Duration) *atomic.Int64 {
	var n atomic.Int64
	w.faults(func(op mem.Op) mem.Fault {
		if op.Verb != mem.Get || !strings.Contains(op.Name, text) {
			return mem.Fault{}
		}
		n.Add(1)
		return mem.Fault{Delay: each}
	})
	return &n
}

func (w *world) resumedFrom(t *testing.T) string {
	t.Helper()
	started := w.machine.Started()
	if len(started) == 0 {
		t.Fatal("no trainer")
	}
	return started[len(started)-1].Getenv("SPOTFERRY_RESUME_FROM")
}

func TestTheCheckpointIsFetchedBeforeTheOrderToStart(t *testing.T) {
	inWorld(t, func(w *world, join *events.JoinReply) {
		c := seed(w.t, w.store, 40)
		join.Resume = []events.Checkpoint{c}
		n := w.gets("/data/", 5*time.Second)
		w.start()
		w.sleep(time.Minute)
		before := n.Load()
		if before == 0 {
			t.Fatal("nothing is fetched before the order")
		}
		w.equal("the place of checkpoints", visible(t, w), "")
		w.gw.Order(events.OrderStart, "start-1", c)
		w.sleep(2 * time.Second)
		w.equal("objects read again", n.Load()-before, 0)
		w.equal("resumed from", filepath.Base(w.resumedFrom(t)), "checkpoint-40")
	})
}

// newestBeat is the last renewal.
func (w *world) newestBeat() events.Heartbeat {
	b := w.gw.Record().Beats
	return b[len(b)-1]
}

// slowly is a program that takes a time.
func slowly(d time.Duration) func(*agenttest.Running) agent.Exit {
	return func(r *agenttest.Running) agent.Exit {
		select {
		case <-time.After(d):
		case <-r.Ctx.Done():
		}
		return agent.Exit{}
	}
}

// visible lists what a trainer would find.
func visible(t *testing.T, w *world) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.cfg.Dir, "work", "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestANewerCommitThanTheOneFetchedIsRestored(t *testing.T) {
	for name, wait := range map[string]time.Duration{"which has been fetched": time.Minute, "which is being fetched": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, join *events.JoinReply) {
				old, newest := seed(w.t, w.store, 40), seed(w.t, w.store, 60)
				join.Resume = []events.Checkpoint{old}
				w.gets("/data/", 10*time.Second)
				w.start()
				w.sleep(wait)
				w.gw.Order(events.OrderStart, "start-1", newest, old)
				w.until("a trainer", func() bool { return len(w.machine.Started()) == 1 })
				w.equal("resumed from", filepath.Base(w.resumedFrom(t)), "checkpoint-60")
				w.equal("the place of checkpoints", visible(t, w), "checkpoint-60")
				w.equal("rejected", len(w.gw.Record().Rejects), 0)
			})
		})
	}
}

func TestTheCheckpointIsFetchedWhileSetupRuns(t *testing.T) {
	inWorld(t, func(w *world, join *events.JoinReply) {
		c := seed(w.t, w.store, 40)
		join.Spec.Setup = "setup"
		w.machine.Programs["setup.sh"] = slowly(20 * time.Second)
		w.gets("/data/", 15*time.Second)
		w.start()
		w.gw.Order(events.OrderStart, "start-1", c)
		w.until("a trainer", func() bool { return len(w.machine.Started()) == 2 })
		w.sleep(6 * time.Second)
		clock := w.newestBeat().Clock
		if clock.SetupMS < 20_000 || clock.RestoreMS > 5_000 {
			t.Errorf("setup %d ms, restore %d ms: they are to be beside each other", clock.SetupMS, clock.RestoreMS)
		}
	})
}

func TestAStopEndsWhatIsFetchedAhead(t *testing.T) {
	for name, order := range map[string]func(*world, events.Checkpoint){
		"of a machine with the order to start": func(w *world, c events.Checkpoint) {
			w.gw.Order(events.OrderStart, "start-1", c)
			w.sleep(time.Second)
			w.gw.Order(events.OrderStop, "stop-1")
			w.until("the report", func() bool { return len(w.gw.Record().Dones) == 1 })
		},
		"of one that ends": func(*world, events.Checkpoint) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, join *events.JoinReply) {
				c := seed(w.t, w.store, 40)
				join.Resume = []events.Checkpoint{c}
				w.gets("", time.Hour)
				w.start()
				w.sleep(time.Second)
				began := time.Now()
				order(w, c)
				w.cancel()
				w.ends(nil)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestInputsAreBroughtAndCountedOnce(t *testing.T) {
	for _, tc := range []struct {
		name          string
		order         time.Duration // after the join
		ahead, inputs time.Duration
	}{
		{"the order comes with the join", 0, 0, 10 * time.Second},
		{"it comes in the middle", 4 * time.Second, 4 * time.Second, 6 * time.Second},
		{"it comes after", time.Minute, 10 * time.Second, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, join *events.JoinReply) {
				join.Spec.Workdir = workdir(w.t, w.store, "data.txt", "tokens")
				n := w.gets("/workdirs/", 10*time.Second)
				w.start()
				w.sleep(tc.order)
				w.gw.Order(events.OrderStart, "start-1")
				w.until("a trainer", func() bool { return len(w.machine.Started()) == 1 })
				w.sleep(6 * time.Second)
				w.equal("times read", n.Load(), 1)
				clock := w.newestBeat().Clock
				near := func(what string, ms int64, want time.Duration) {
					if d := time.Duration(ms)*time.Millisecond - want; d < -time.Second || d > time.Second {
						t.Errorf("%s took %d ms, want about %v; clock %+v", what, ms, want, clock)
					}
				}
				near("ahead", clock.AheadMS, tc.ahead)
				near("inputs", clock.InputsMS, tc.inputs)
				near("setup, of which they are a part,", clock.SetupMS, tc.inputs)
			})
		})
	}
}

func TestARestoredCheckpointIsFoundByItsFramework(t *testing.T) {
	inWorld(t, func(w *world, join *events.JoinReply) {
		join.Spec.Policy.Checkpoint.Framework = "deepspeed"
		e, err := checkpoint.New(checkpoint.Config{Store: w.store, Tenant: "acme", Job: string(job)})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "global_step40")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "mp_rank_00_model_states.pt"), []byte("PK"), 0o644); err != nil {
			t.Fatal(err)
		}
		ref, err := e.Upload(w.t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 40, Framework: "deepspeed"})
		if err != nil {
			t.Fatal(err)
		}
		w.start()
		w.gw.Order(events.OrderStart, "start-1", events.Checkpoint{Name: ref.Name, Epoch: ref.Epoch, Step: ref.Step, Digest: ref.Digest, Bytes: ref.Bytes, Files: ref.Files})
		w.until("a trainer", func() bool { return len(w.machine.Started()) == 1 })
		latest, err := os.ReadFile(filepath.Join(w.cfg.Dir, "work", "checkpoints", "latest"))
		if err != nil || strings.TrimSpace(string(latest)) != "global_step40" {
			t.Errorf("latest says %q, %v", latest, err)
		}
		if from := w.resumedFrom(t); !strings.HasPrefix(from, filepath.Join(w.cfg.Dir, "work", "checkpoints")) {
			t.Errorf("resumed from %s", from)
		}
	})
}
