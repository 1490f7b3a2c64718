package agent_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
)

func TestANoticeIsUsedForAFreshCheckpoint(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(50 * time.Second)
		at := w.trainer.Last()
		w.seller.Warn(30 * time.Second)
		w.until("a final commit", func() bool { return w.lastCommit().Final })
		if c := w.lastCommit(); c.Checkpoint.Step <= at || c.Checkpoint.Step > at+2 {
			t.Errorf("step %d committed, %d reached at the notice", c.Checkpoint.Step, at)
		}
		n := w.gw.Record().Notices
		if len(n) != 1 || n[0].Action != "terminate" || n[0].Source != "imds" || n[0].SignalMS < 0 || n[0].SignalMS > 100 {
			t.Errorf("notices %+v", n)
		}
		var f agent.NoticeFile
		data, err := os.ReadFile(filepath.Join(w.cfg.Dir, "notice.json"))
		if err != nil || json.Unmarshal(data, &f) != nil || f.SecondsLeft < 29 || f.SecondsLeft > 30 || f.Action != "terminate" {
			t.Errorf("notice file %s, %v", data, err)
		}
		if !w.running() {
			t.Error("the trainer was stopped before its machine")
		}
	})
}

func TestASlowSaveIsWaitedForAsLongAsTheNoticeAllows(t *testing.T) {
	for _, tc := range []struct {
		name   string
		grace  int64
		waited bool
	}{
		{"nobody said how long a save takes", 0, true},
		{"the job says that a save takes five seconds", 5, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, join *events.JoinReply) {
				join.Spec.Policy.Checkpoint.GraceS = tc.grace
				w.trainer.StepTime, w.trainer.SaveTime, w.trainer.SaveEvery = 25*time.Second, 20*time.Second, 4
				w.boot()
				w.until("a save", func() bool { return len(w.commits()) == 1 })
				w.until("the next step", func() bool { return w.trainer.Last() == 5 })
				w.seller.Warn(2 * time.Minute)
				w.until("a final commit", func() bool { return w.lastCommit().Final })
				if fresh := w.lastCommit().Checkpoint.Step > 4; fresh != tc.waited {
					t.Errorf("step %d committed as the last, 4 was saved before the notice", w.lastCommit().Checkpoint.Step)
				}
			})
		})
	}
}

func TestANoticeSeenAgainIsOneNotice(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(30 * time.Second)
		for range 10 { // the deadline recedes with every answer
			w.seller.Warn(time.Minute)
			w.sleep(time.Second)
		}
		w.equal("notices", len(w.gw.Record().Notices), 1)
		finals := 0
		for _, c := range w.commits() {
			if c.Final {
				finals++
			}
		}
		w.equal("final commits", finals, 1)
	})
}

func TestADeadlineThatComesNearerIsBelieved(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(30 * time.Second)
		w.seller.Warn(2 * time.Minute)
		w.sleep(time.Second)
		w.seller.Warn(20 * time.Second)
		w.sleep(time.Second)
		n := w.gw.Record().Notices
		if len(n) != 2 || n[1].Left > 20*time.Second {
			t.Errorf("notices %+v", n)
		}
	})
}

func TestAWithdrawnNoticePutsEverythingBack(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(50 * time.Second)
		w.seller.Warn(time.Minute)
		w.sleep(10 * time.Second)
		w.seller.Fail(errors.New("connection refused"))
		w.sleep(5 * time.Second)
		w.equal("a failure to answer withdraws nothing", len(w.gw.Record().Notices), 1)
		w.seller.Fail(nil)
		w.seller.Withdraw()
		w.sleep(5 * time.Second)
		n := w.gw.Record().Notices
		if len(n) != 2 || !n[1].Withdrawn {
			t.Fatalf("notices %+v", n)
		}
		if _, err := os.Stat(filepath.Join(w.cfg.Dir, "notice.json")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("notice file: %v", err)
		}
		w.sleep(2 * time.Minute)
		if c := w.lastCommit(); c.Final || c.Checkpoint.Step < 120 {
			t.Errorf("last commit %+v", c)
		}
		w.equal("restarts", w.restarts(), 0)
		w.seller.Warn(time.Minute)
		w.sleep(10 * time.Second)
		if n := w.gw.Record().Notices; len(n) != 3 || n[2].Withdrawn || !w.lastCommit().Final {
			t.Errorf("a new notice is a new one: %+v", n)
		}
	})
}

func TestASaveThatCannotFinishIsNotBegun(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.SaveTime = 20 * time.Second
		w.boot()
		w.gw.Refuse(events.VerbLog, nil)
		w.until("two saves", func() bool { return len(w.commits()) == 2 })
		// Saves that were asked for took this long, so the agent knows.
		w.gw.Order(events.OrderSave, "save-1")
		w.until("the save", func() bool { return w.lastCommit().OrderID == "save-1" })
		w.sleep(5 * time.Second)
		before := len(w.commits())
		w.seller.Warn(10 * time.Second)
		w.sleep(10 * time.Second)
		n := w.gw.Record().Notices
		if len(n) != 1 || n[0].SignalMS != -1 {
			t.Errorf("notices %+v", n)
		}
		// What is committed is said to be the last, so that nobody waits.
		w.equal("commits", len(w.commits()), before+1)
		if c := w.lastCommit(); !c.Final || c.Checkpoint.Step != w.commits()[before-1].Checkpoint.Step {
			t.Errorf("last commit %+v", c)
		}
	})
}

func TestAnUploadThatCannotFinishIsNotBegun(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.faults(func(op mem.Op) mem.Fault {
			if op.Verb == mem.Put {
				return mem.Fault{Delay: 10 * time.Second}
			}
			return mem.Fault{}
		})
		w.trainer.SaveEvery = 60
		w.boot()
		w.until("a commit", func() bool { return len(w.commits()) == 1 })
		w.until("the next save", func() bool { return w.trainer.Last() == 119 })
		w.seller.Warn(8 * time.Second)
		w.sleep(30 * time.Second)
		if !w.said("terminate") {
			t.Error("the notice is not in the log")
		}
		w.equal("the one there is, and again as the last", w.steps(), []int64{60, 60})
		w.equal("final", w.lastCommit().Final, true)
	})
}

func TestNoticesAtOddTimes(t *testing.T) {
	t.Run("before the order to start it is kept until there is a job to move", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.start()
			w.seller.Warn(time.Minute)
			w.sleep(5 * time.Second)
			w.equal("notices", len(w.gw.Record().Notices), 0)
			w.gw.Order(events.OrderStart, "start-1")
			w.sleep(5 * time.Second)
			n := w.gw.Record().Notices
			if len(n) != 1 || n[0].SignalMS != -1 || n[0].Left > 56*time.Second || n[0].Ago < 4*time.Second {
				t.Errorf("notices %+v", n)
			}
			w.sleep(20 * time.Second)
			if !w.lastCommit().Final {
				t.Errorf("last commit %+v", w.lastCommit())
			}
		})
	})
	t.Run("in the past", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.boot()
			w.sleep(30 * time.Second)
			w.seller.Warn(-time.Hour)
			w.sleep(5 * time.Second)
			n := w.gw.Record().Notices
			if len(n) != 1 || n[0].Left != 0 || n[0].SignalMS != -1 {
				t.Errorf("notices %+v", n)
			}
			if !w.running() || w.over() {
				t.Error("stopped")
			}
		})
	})
	t.Run("beyond what the seller ever gives", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.boot()
			w.sleep(30 * time.Second)
			w.seller.Warn(24 * time.Hour)
			w.sleep(5 * time.Second)
			w.equal("left", w.gw.Record().Notices[0].Left.Round(time.Second) <= 2*time.Minute, true)
		})
	})
	t.Run("after the trainer's end", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.trainer.Steps = 10
			w.boot()
			w.sleep(30 * time.Second)
			w.seller.Warn(time.Minute)
			w.sleep(5 * time.Second)
			w.equal("notices", len(w.gw.Record().Notices), 1)
			w.equal("reports", len(w.gw.Record().Dones), 1)
		})
	})
	t.Run("while the gateway is away", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.boot()
			w.sleep(30 * time.Second)
			w.gw.Cut(true)
			w.seller.Warn(time.Minute)
			w.sleep(20 * time.Second)
			w.gw.Cut(false)
			w.sleep(10 * time.Second)
			n := w.gw.Record().Notices
			if len(n) != 1 || n[0].Ago < 19*time.Second || n[0].Left > 40*time.Second || n[0].SignalMS < 0 {
				t.Errorf("notices %+v", n)
			}
			if !w.lastCommit().Final {
				t.Errorf("last commit %+v", w.lastCommit())
			}
		})
	})
}

func TestATrainerThatCatchesNothingIsNotSignalled(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.Deaf = true
		w.boot()
		w.sleep(50 * time.Second)
		w.seller.Warn(30 * time.Second)
		w.sleep(3 * time.Second)
		if n := w.gw.Record().Notices; len(n) != 1 || n[0].SignalMS != -1 {
			t.Errorf("notices %+v", n)
		}
		if c := w.lastCommit(); !c.Final || c.Checkpoint.Step != 40 || !w.running() {
			t.Errorf("last commit %+v", c)
		}
	})
}

func TestATrainerThatEndsAsItWasBiddenHasNotFinished(t *testing.T) {
	inWorld(t, func(w *world, r *events.JoinReply) {
		r.Spec.Policy.Checkpoint.Signal = "SIGTERM"
		w.boot()
		w.sleep(50 * time.Second)
		w.seller.Warn(time.Minute)
		w.until("its end is told", func() bool { return len(w.gw.Record().Dones) > 0 })
		if d := w.gw.Record().Dones[0]; d.Signal != "SIGTERM" {
			t.Errorf("the end is told as %+v: the job would have succeeded in the middle", d)
		}
		if c := w.lastCommit(); !c.Final || c.Checkpoint.Step < w.trainer.Last() {
			t.Errorf("last commit %+v, last step %d", c, w.trainer.Last())
		}
	})
}

// A trainer whose work is done when the notice comes has its end told before
// anything lets the job be placed elsewhere.
func TestWorkDoneUnderANoticeIsNotMoved(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.Steps = 55
		w.boot()
		w.sleep(50 * time.Second)
		w.seller.Warn(time.Minute)
		w.until("its end is told", func() bool { return len(w.gw.Record().Dones) > 0 })
		if d := w.gw.Record().Dones[0]; d.Code != 0 || d.Signal != "" {
			t.Errorf("the end is told as %+v", d)
		}
		for _, c := range w.commits() {
			if c.Final && c.Checkpoint.Step >= w.trainer.Last() {
				t.Errorf("step %d was called the last before the end was told", c.Checkpoint.Step)
			}
		}
	})
}
