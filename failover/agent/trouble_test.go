package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// onward starts the agent and has it go on from a checkpoint.
func (w *world) onward(c events.Checkpoint) {
	w.start()
	w.gw.Order(events.OrderStart, "start-1", c)
}

func (w *world) trouble() events.TroubleRequest {
	w.t.Helper()
	w.until("the trouble is reported", func() bool { return len(w.gw.Record().Troubles) > 0 })
	return w.gw.Record().Troubles[0]
}

func TestATrainerThatIgnoresItsCheckpointIsStoppedAtItsFirstStep(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trainer func(*agenttest.Trainer)
		says    string // "": nothing is wrong with it
		step    int64
	}{
		{"it tells step 1", func(*agenttest.Trainer) {}, "first step is 1", 1},
		{"it tells every tenth step", func(r *agenttest.Trainer) { r.TellEvery = 10 }, "first step is 10", 10},
		{"it tells 0 and then 1", func(r *agenttest.Trainer) { r.Loads = true }, "first step is 1", 1},
		{"it tells nothing, and its first checkpoint is older", func(r *agenttest.Trainer) { r.Silent = true }, "first checkpoint's step is 20", 20},
		{"it goes on with the next step", func(r *agenttest.Trainer) { r.Forgets = false }, "", 0},
		{"it goes on and tells every tenth step", func(r *agenttest.Trainer) { r.Forgets, r.TellEvery = false, 10 }, "", 0},
		{"it tells 0 while it loads, and goes on", func(r *agenttest.Trainer) { r.Forgets, r.Loads = false, true }, "", 0},
		{"it tells nothing, and its first checkpoint is newer", func(r *agenttest.Trainer) { r.Forgets, r.Silent = false, true }, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				w.trainer.Forgets = true
				tc.trainer(w.trainer)
				w.onward(seed(w.t, w.store, 100))
				if tc.says == "" {
					w.until("it commits what comes next", func() bool { return w.lastCommit().Checkpoint.Step == 120 })
					w.equal("troubles", len(w.gw.Record().Troubles), 0)
					return
				}
				r := w.trouble()
				if r.Kind != events.TroubleRestoreIgnored || r.Step != tc.step || r.Lease != lease || !strings.Contains(r.Detail, "step 100 was restored") ||
					!strings.Contains(r.Detail, tc.says) || !strings.Contains(r.Remedy, "resume_from_checkpoint=os.environ") {
					t.Errorf("reported %+v", r)
				}
				w.sleep(time.Minute)
				w.stays(0)
				if last := w.trainer.Last(); last > tc.step+2 {
					t.Errorf("the trainer made step %d", last)
				}
			})
		})
	}
}

// stays checks that nothing is started, committed or reported any more.
func (w *world) stays(commits int) {
	w.t.Helper()
	rec := w.gw.Record()
	w.equal("running, restarts, commits, ends, troubles", fmt.Sprint(w.running(), w.restarts(), len(rec.Commits), len(rec.Dones), len(rec.Troubles)), fmt.Sprint(false, 0, commits, 0, 1))
	if w.over() {
		w.t.Errorf("the agent ended: %v", w.err)
	}
}

func TestOlderCheckpointsThatTheJobCopiesHereAreNotItsFirst(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.Silent = true
		c := seed(w.t, w.store, 100)
		w.onward(c)
		w.sleep(time.Second)
		copied(t, w.cfg.Dir+"/work/checkpoints", 60) // as a download that keeps times does
		w.sleep(10 * time.Second)
		w.equal("troubles", len(w.gw.Record().Troubles), 0)
	})
}

func TestATroubleIsToldUntilItIsHeard(t *testing.T) {
	for name, away := range map[string]func(*world){
		"the gateway is away":    func(w *world) { w.gw.Cut(true) },
		"its answers are lost":   func(w *world) { w.gw.Lose(events.VerbTrouble, 2) },
		"it is not ready for it": func(w *world) { w.gw.Refuse(events.VerbTrouble, &events.Refusal{Code: events.RefusedUnavailable}) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				w.trainer.Forgets = true
				w.onward(seed(w.t, w.store, 100))
				w.sleep(500 * time.Millisecond)
				away(w)
				w.sleep(time.Minute)
				w.gw.Cut(false)
				w.gw.Refuse(events.VerbTrouble, nil)
				w.sleep(time.Minute)
				if n := len(w.gw.Record().Troubles); n == 0 || n > 3 || w.running() {
					t.Errorf("told %d times, running: %v", n, w.running())
				}
			})
		})
	}
}

func TestAGatewayThatDoesNotKnowTroubleIsToldOfAnEnd(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.Forgets = true
		w.gw.Refuse(events.VerbTrouble, &events.Refusal{Code: events.RefusedInvalid, Message: "no such verb"})
		w.onward(seed(w.t, w.store, 100))
		w.until("the end is reported", func() bool { return len(w.gw.Record().Dones) > 0 })
		d := w.gw.Record().Dones[0]
		if d.Code != 1 || d.Signal != "" || !strings.HasPrefix(d.Reason, "restore-ignored: ") {
			t.Errorf("reported %+v", d)
		}
		w.sleep(time.Minute)
		w.equal("ends", len(w.gw.Record().Dones), 1)
	})
}

func TestAnOrderToStopAfterATroubleIsAnswered(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": 0, "later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				w.trainer.Forgets = true
				w.onward(seed(w.t, w.store, 100))
				w.trouble()
				w.sleep(wait)
				w.gw.Order(events.OrderStop, "stop-1")
				w.until("the order is answered", func() bool {
					return slices.ContainsFunc(w.gw.Record().Dones, func(d events.DoneRequest) bool { return d.OrderID == "stop-1" })
				})
				w.equal("commits", len(w.commits()), 0)
			})
		})
	}
}

func TestAStallIsFound(t *testing.T) {
	for _, tc := range []struct {
		name  string
		set   func(*world, *events.JoinReply)
		after time.Duration // since step 30; 0: never
	}{
		{"after the limit that the job set", func(_ *world, j *events.JoinReply) { j.Spec.Policy.ProgressTimeoutS = 60 }, time.Minute},
		{"after the limit that the job set, whatever it writes", func(w *world, j *events.JoinReply) {
			j.Spec.Policy.ProgressTimeoutS, w.trainer.Chats = 60, 10*time.Second
		}, time.Minute},
		{"after twice the silence limit when none is set", func(*world, *events.JoinReply) {}, 3 * time.Minute},
		{"after twenty times the longest gap if that is more", func(w *world, _ *events.JoinReply) { w.trainer.StepTime = 15 * time.Second }, 5 * time.Minute},
		{"never, when none is set and it goes on talking", func(w *world, _ *events.JoinReply) { w.trainer.Chats = time.Minute }, 0},
		{"never, when none is set and no step was ever told", func(w *world, _ *events.JoinReply) { w.trainer.Silent = true }, 0},
		{"never, when the job says so", func(_ *world, j *events.JoinReply) { j.Spec.Policy.ProgressTimeoutS = -1 }, 0},
		{"of one that tells no steps, after the limit that the job set since its last checkpoint", func(w *world, j *events.JoinReply) {
			j.Spec.Policy.ProgressTimeoutS, w.trainer.Silent = 60, true
		}, 52 * time.Second},
		{"of one that hangs before its first step, after the limit that the job set", func(w *world, j *events.JoinReply) {
			j.Spec.Policy.ProgressTimeoutS, w.trainer.StepTime = 60, 2*time.Hour
		}, time.Minute},
		{"later, by as long as the agent itself was stopped", func(w *world, j *events.JoinReply) {
			j.Spec.Policy.ProgressTimeoutS = 60
			w.slept.Store(int64(50 * time.Second)) // taken below
		}, 130 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				w.trainer.HangAt, w.trainer.SaveEvery = 30, 20
				w.cfg.Bootstrap.Timers.Silence = 90 * time.Second
				w.cfg.WatchEvery, w.cfg.NoticeEvery, w.cfg.LogEvery = time.Second, time.Second, time.Second
				tc.set(w, j)
				pause := w.slept.Swap(0)
				w.boot()
				if w.trainer.StepTime < time.Hour {
					w.until("it hangs", func() bool { return w.trainer.Last() == 30 })
				}
				began := w.cfg.Elapsed()
				if pause > 0 {
					w.sleep(20 * time.Second)
					w.slept.Add(pause)
				}
				if tc.after == 0 {
					w.sleep(20 * time.Minute)
					w.equal("troubles", len(w.gw.Record().Troubles), 0)
					return
				}
				r := w.trouble()
				w.sleep(2 * time.Minute)
				if r.Kind != events.TroubleStalled || !strings.Contains(r.Detail, "no step and no checkpoint for") || !strings.Contains(r.Remedy, "progress_timeout") {
					t.Errorf("reported %+v", r)
				}
				at := w.stoppedAt() - began
				if at < tc.after-5*time.Second || at > tc.after+45*time.Second { // a look a second lengthens a gap
					t.Errorf("found after %v, want %v", at, tc.after)
				}
				w.stays(len(w.commits()))
			})
		})
	}
}

// stoppedAt is when a renewal first told that the trainer is being stopped.
func (w *world) stoppedAt() time.Duration {
	rec := w.gw.Record()
	for i, b := range rec.Beats {
		if b.State == "stopping" || b.State == "exited" {
			return rec.BeatAt[i]
		}
	}
	return 0
}

func TestALongUploadIsNoStall(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Policy.ProgressTimeoutS = 60
		w.trainer.HangAt = 21
		w.faults(func(op mem.Op) mem.Fault { return mem.Fault{Delay: 100 * time.Second} })
		w.boot()
		w.until("it is committed", func() bool { return len(w.commits()) > 0 })
		w.equal("troubles before", len(w.gw.Record().Troubles), 0)
		w.equal("found then", w.trouble().Kind, events.TroubleStalled)
	})
}

func TestAStallCarriesTheLastLines(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Policy.ProgressTimeoutS = 60
		w.trainer.HangAt = 90
		w.boot()
		lines := w.trouble().Lines
		if len(lines) != 50 || !slices.Contains(lines, "step 90") || slices.Contains(lines, "step 30") {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
	})
}
