package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

func TestCheckpointsAreCommittedAsTheyAreWritten(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(65 * time.Second)
		w.equal("committed", w.steps(), []int64{20, 40, 60})
		c := w.lastCommit()
		if c.Final || c.Checkpoint.Epoch != 1 || c.Checkpoint.Files != 2 || c.Lease != lease {
			t.Errorf("commit %+v", c)
		}
		// sha256 of 512 times step 60 as a little-endian uint64, computed with coreutils.
		w.equal("weights", c.Checkpoint.Weights, "a68dbc04bc99aa03907d2cdaa2b758aa903cb68076b6e8505203aea9a1a3fb2c")
	})
}

func TestTheTrainerKnowsWhereItIs(t *testing.T) {
	t.Setenv("UNUSED", "x")
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Envs = map[string]string{"LR": "1.10", "SPOTFERRY_EPOCH": "9"}
		w.cfg.Env = []string{"PATH=/opt/bin", "SECRET_KEY=canary", "CUDA_HOME=/cuda", "SPOTFERRY_EVIDENCE_DIR=/ev"}
		w.cfg.Executable = "/state/bin/spotferry"
		w.boot()
		r := w.machine.Started()[0]
		for name, want := range map[string]string{
			"SPOTFERRY_JOB_ID": string(job), "SPOTFERRY_EPOCH": "1", "SPOTFERRY_RESUME_FROM": "", "LR": "1.10",
			"SPOTFERRY_CHECKPOINT_DIR": w.cfg.Dir + "/work/checkpoints", "SPOTFERRY_NOTICE_FILE": w.cfg.Dir + "/notice.json",
			"SPOTFERRY_PROGRESS_FILE": w.cfg.Dir + "/progress.json", "SPOTFERRY_EVIDENCE_DIR": "/ev", "SECRET_KEY": "",
			"CUDA_HOME": "/cuda", "PATH": "/state/bin:/opt/bin", "HOME": w.cfg.Dir + "/home",
		} {
			w.equal(name, r.Getenv(name), want)
		}
		w.equal("started in", r.Dir, w.cfg.Dir+"/work")
		w.equal("argv", r.Argv, []string{"bash", w.cfg.Dir + "/run.sh"})
	})
}

func TestEveryStepIsToldBeforeTheNextWithoutWaitingForAHeartbeat(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(5 * time.Second)
		before := len(w.gw.Record().Beats)
		w.sleep(12 * time.Second) // a step a second, a heartbeat every five
		beats := w.gw.Record().Beats[before-1:]
		for i, b := range beats[1:] {
			if b.Step < beats[i].Step || b.Step > beats[i].Step+1 {
				t.Errorf("after step %d, step %d is told", beats[i].Step, b.Step)
			}
		}
		if told, asked := beats[len(beats)-1].Step-beats[0].Step, len(beats)-1; told < 11 || asked > 16 {
			t.Errorf("%d renewals tell of %d steps", asked, told)
		}
	})
}

func TestRenewalsForStepsAreSpacedHoweverFastTheStepsAre(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.StepTime = 10 * time.Millisecond
		w.trainer.SaveEvery = 1_000_000
		w.cfg.ReadEvery = 10 * time.Millisecond
		w.boot()
		before := len(w.gw.Record().Beats)
		w.sleep(10 * time.Second)
		if n := len(w.gw.Record().Beats) - before; n < 40 || n > 52 {
			t.Errorf("%d renewals in ten seconds, want one every 200 ms", n)
		}
	})
}

func TestALapsedHoldStopsCommitsAndNothingElse(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(25 * time.Second) // 20 is committed
		w.gw.Refuse(events.VerbRenew, &events.Refusal{Code: events.RefusedUnavailable})
		w.sleep(5 * time.Minute)
		w.equal("committed while the hold was valid and not after", w.steps(), []int64{20, 40})
		if !w.running() || w.over() {
			t.Fatal("the trainer was stopped")
		}
		w.gw.Refuse(events.VerbRenew, nil)
		w.sleep(10 * time.Second)
		w.equal("the newest is committed once the hold is back", w.lastCommit().Checkpoint.Step, 300)
		w.equal("restarts", w.restarts(), 0)
	})
}

func TestTenMinutesWithoutAGatewayTrainOn(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(30 * time.Second)
		w.gw.Cut(true)
		w.sleep(10 * time.Minute)
		if !w.running() {
			t.Fatal("the trainer was stopped")
		}
		w.gw.Cut(false)
		w.sleep(30 * time.Second)
		w.equal("restarts", w.restarts(), 0)
		if last := w.lastCommit().Checkpoint.Step; last < 620 {
			t.Errorf("newest committed step %d, want at least 620", last)
		}
	})
}

func TestAPausePastTheHoldIsNoticedBeforeCommitting(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(19*time.Second + 500*time.Millisecond) // in the middle of the save of step 20
		w.gw.Refuse(events.VerbRenew, &events.Refusal{Code: events.RefusedUnavailable})
		w.slept.Add(int64(40 * time.Second))
		w.sleep(30 * time.Second)
		w.equal("committed after the pause", w.steps(), []int64(nil))
		w.gw.Refuse(events.VerbRenew, nil)
		w.sleep(10 * time.Second)
		if len(w.steps()) == 0 {
			t.Error("nothing is committed with a new hold")
		}
	})
}

func TestFencedMeansDeadAndSilent(t *testing.T) {
	for name, fence := range map[string]func(*world){
		"told by a renewal": func(w *world) { w.gw.Fence() },
		"told by a commit, and then by nobody": func(w *world) {
			w.gw.Refuse(events.VerbCommit, &events.Refusal{Code: events.RefusedFenced})
			w.gw.Refuse(events.VerbRenew, &events.Refusal{Code: events.RefusedUnavailable})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				w.boot()
				w.sleep(30 * time.Second)
				before := len(w.commits())
				fence(w)
				w.gw.Hint()
				w.sleep(20 * time.Second) // the next checkpoint comes in these
				w.ends(agent.ErrFenced)
				if w.running() {
					t.Error("the trainer lives")
				}
				w.equal("commits", len(w.commits()), before)
			})
		})
	}
}

func TestOneRefusalAsFencedIsCheckedBeforeAnythingIsKilled(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.gw.Refuse(events.VerbLog, &events.Refusal{Code: events.RefusedFenced})
		w.sleep(2 * time.Minute)
		if w.over() || !w.running() {
			t.Fatal("killed although the renewals say that the epoch goes on")
		}
		w.equal("committed", w.steps(), []int64{20, 40, 60, 80, 100, 120}[:len(w.steps())])
		if len(w.steps()) < 5 {
			t.Errorf("committed %v", w.steps())
		}
	})
}

func TestSilenceSavesStopsAndEndsTheMachine(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(30 * time.Second)
		began := time.Now()
		w.gw.Cut(true)
		w.ends(agent.ErrSilent)
		if took := time.Since(began); took < 14*time.Minute || took > 16*time.Minute {
			t.Errorf("ended after %v", took)
		}
		if w.running() {
			t.Error("the trainer lives")
		}
		manifests, _ := w.store.List(w.t.Context(), checkpoint.Prefix("acme", string(job)))
		newest := manifests[len(manifests)-1].Name
		if last := w.trainer.Last(); last < 850 || !strings.Contains(newest, fmt.Sprintf("-%020d-", last)) {
			t.Errorf("last step %d, newest in the store %s", last, newest)
		}
	})
}

func TestPaidForIsTheDeadMansSwitch(t *testing.T) {
	t.Run("without contact the machine is gone by then", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.gw.Reply(func(r *events.RenewReply) { r.PaidFor = 2 * time.Minute })
			w.boot()
			w.sleep(30 * time.Second)
			began := time.Now()
			w.gw.Cut(true)
			w.ends(agent.ErrSilent)
			if took := time.Since(began); took < 90*time.Second || took > 2*time.Minute {
				t.Errorf("ended %v after the last contact, paid for 2m", took)
			}
		})
	})
	t.Run("with contact the gateway's word wins", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.gw.Reply(func(r *events.RenewReply) { r.PaidFor = time.Millisecond })
			w.boot()
			w.sleep(10 * time.Minute)
			if !w.running() || w.over() {
				t.Error("the trainer was stopped")
			}
		})
	})
}

func TestAWrongWallClockChangesNothing(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		start := time.Now()
		w.cfg.Now = func() time.Time { // jumps an hour to and fro every ten seconds
			d := time.Since(start)
			return time.Now().Add(time.Duration(d/(10*time.Second)%3-1) * time.Hour)
		}
		w.boot()
		w.sleep(65 * time.Second)
		w.seller.Warn(30 * time.Second)
		w.sleep(20 * time.Second)
		if c := w.lastCommit(); !c.Final || c.Checkpoint.Step < 65 {
			t.Errorf("last commit %+v", c)
		}
		n := w.gw.Record().Notices[0]
		if n.Left < 28*time.Second || n.Left > 30*time.Second {
			t.Errorf("notice with %v left", n.Left)
		}
	})
}

func TestTheEndIsReportedOnceTheLastCheckpointIsCommitted(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.Steps = 50
		w.boot()
		w.sleep(40 * time.Second)
		w.gw.Refuse(events.VerbCommit, &events.Refusal{Code: events.RefusedUnavailable})
		w.sleep(30 * time.Second)
		if d := w.gw.Record().Dones; len(d) > 0 {
			t.Fatalf("reported %+v before the last checkpoint was committed", d)
		}
		w.gw.Refuse(events.VerbCommit, nil)
		w.gw.Lose(events.VerbDone, 2)
		w.sleep(time.Minute)
		r := w.gw.Record()
		w.equal("committed", w.steps(), []int64{20, 50})
		d := r.Dones[len(r.Dones)-1]
		if d.Code != 0 || d.Signal != "" || d.LastStep != 50 {
			t.Errorf("reported %+v", d)
		}
		w.equal("state", r.Beats[len(r.Beats)-1].State, "exited")
		if w.over() {
			t.Error("the agent does not stay")
		}
	})
}

func TestAKilledTrainerGoesOnUnderTheNextEpoch(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(25 * time.Second)
		committed := w.lastCommit().Checkpoint
		w.machine.Started()[0].Die("SIGKILL")
		w.until("it is reported", func() bool { return len(w.gw.Record().Dones) == 1 })
		d := w.gw.Record().Dones[0]
		if d.Signal != "SIGKILL" || d.Code != -1 || d.LastStep < 24 {
			t.Errorf("reported %+v", d)
		}
		w.gw.Reply(func(r *events.RenewReply) { *r = events.RenewReply{Epoch: 2, JWT: "new"} })
		w.until("the agent goes over", func() bool { return len(w.gw.Record().Adopted) > 0 })
		w.gw.Reply(func(r *events.RenewReply) { *r = events.RenewReply{} })
		w.gw.Order(events.OrderStart, "start-2", committed)
		w.sleep(30 * time.Second)
		second := w.machine.Started()[1]
		w.equal("epoch", second.Getenv("SPOTFERRY_EPOCH"), 2)
		w.equal("resume", filepath.Base(second.Getenv("SPOTFERRY_RESUME_FROM")), "checkpoint-20")
		if c := w.lastCommit().Checkpoint; c.Epoch != 2 || c.Step != 40 {
			t.Errorf("last commit %+v", c)
		}
	})
}

func TestRestoreFallsBackAndReports(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		good, bad := seed(w.t, w.store, 100), seed(w.t, w.store, 200)
		w.store.Edit(checkpoint.ManifestName("acme", string(job), refOf(bad)), mem.Flipped(99))
		w.start()
		w.gw.Order(events.OrderStart, "start-1", bad, good)
		w.sleep(5 * time.Second)
		rejects := w.gw.Record().Rejects
		if len(rejects) != 1 || rejects[0].Checkpoint != bad || rejects[0].Detail == "" {
			t.Errorf("rejected %+v", rejects)
		}
		w.equal("resume", filepath.Base(w.machine.Started()[0].Getenv("SPOTFERRY_RESUME_FROM")), "checkpoint-100")
		w.sleep(20 * time.Second)
		w.equal("committed", w.steps(), []int64{120})
		w.equal("from", w.gw.Record().Beats[len(w.gw.Record().Beats)-1].From, 100)
	})
}

func TestNothingRestorableIsNeverAFreshStart(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		bad := seed(w.t, w.store, 200)
		w.store.Edit(checkpoint.ManifestName("acme", string(job), refOf(bad)), func([]byte) []byte { return nil })
		w.start()
		w.gw.Order(events.OrderStart, "start-1", bad)
		w.sleep(time.Minute)
		d := w.gw.Record().Dones
		if len(d) != 1 || !d[0].Unrestorable || d[0].Reason == "" {
			t.Errorf("reported %+v", d)
		}
		w.equal("programs started", len(w.machine.Started()), 0)
	})
}

func TestAStoreThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		good := seed(w.t, w.store, 100)
		w.faults(func(mem.Op) mem.Fault { return mem.Fault{Before: errors.New("no answer")} })
		w.start()
		w.gw.Order(events.OrderStart, "start-1", good)
		w.sleep(2 * time.Minute)
		w.equal("rejected", len(w.gw.Record().Rejects), 0)
		w.faults(func(mem.Op) mem.Fault { return mem.Fault{} })
		w.sleep(15 * time.Second)
		w.equal("resume", filepath.Base(w.machine.Started()[0].Getenv("SPOTFERRY_RESUME_FROM")), "checkpoint-100")
	})
}

func TestAFullDiskStopsSavesAndRecovers(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(25 * time.Second)
		w.faults(func(op mem.Op) mem.Fault {
			if op.Verb == mem.Put {
				return mem.Fault{Before: checkpoint.ErrNoSpace}
			}
			return mem.Fault{}
		})
		w.sleep(time.Minute)
		w.equal("committed", w.steps(), []int64{20})
		if b := w.gw.Record().Beats; !strings.Contains(b[len(b)-1].Trouble, "full") || !w.said("full") {
			t.Errorf("trouble %q", b[len(b)-1].Trouble)
		}
		if !w.running() {
			t.Fatal("the trainer was stopped")
		}
		w.faults(func(mem.Op) mem.Fault { return mem.Fault{} })
		w.sleep(30 * time.Second)
		if c := w.lastCommit(); c.Checkpoint.Step < 80 {
			t.Errorf("last commit %+v", c)
		}
		if b := w.gw.Record().Beats; b[len(b)-1].Trouble != "" {
			t.Errorf("trouble %q", b[len(b)-1].Trouble)
		}
	})
}

func TestASlowUploadCostsNoHeartbeat(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.faults(func(op mem.Op) mem.Fault {
			if op.Verb == mem.Put {
				return mem.Fault{Delay: 45 * time.Second}
			}
			return mem.Fault{}
		})
		w.boot()
		w.sleep(10 * time.Minute)
		if n := len(w.gw.Record().Beats); n < 110 {
			t.Errorf("%d heartbeats in 10 minutes", n)
		}
		steps := w.steps()
		if len(steps) < 4 {
			t.Fatalf("committed %v", steps)
		}
		if gap := steps[3] - steps[2]; gap < 80 {
			t.Errorf("committed %v: those in between are passed over", steps)
		}
	})
}

func TestSetupRunsOnceAndItsFailureIsTheEnd(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Setup = "pip install"
		w.machine.Programs["setup.sh"] = func(r *agenttest.Running) agent.Exit {
			_, _ = r.Stderr.Write([]byte("no such package"))
			return agent.Exit{Code: 7}
		}
		w.boot()
		w.sleep(10 * time.Second)
		d := w.gw.Record().Dones
		if len(d) != 1 || d[0].Code != 7 || d[0].Reason != "setup ended with code 7" {
			t.Errorf("reported %+v", d)
		}
		if !w.said("no such package") {
			t.Error("its output is lost")
		}
	})
}

func TestJoiningEndsAtTheBootDeadline(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.gw.Cut(true)
		w.start()
		w.ends(agent.ErrBoot)
	})
}

func TestALostAnswerToAJoinIsAskedAgain(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.gw.Lose(events.VerbJoin, 3)
		w.boot()
		w.sleep(10 * time.Second)
		w.equal("joins", w.gw.Record().Joins, 4)
		w.equal("programs started", len(w.machine.Started()), 1)
	})
}

func TestARhythmIsAskedFor(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Policy.Checkpoint.IntervalS = 30
		w.trainer.SaveEvery = 0
		w.boot()
		w.sleep(2 * time.Minute)
		if n := len(w.steps()); n < 3 || n > 4 {
			t.Errorf("committed %v in two minutes, every 30 s", w.steps())
		}
	})
}

func TestASignalThatEndsTrainersIsNotAskedWithForARhythm(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Policy.Checkpoint.IntervalS, j.Spec.Policy.Checkpoint.Signal = 10, "SIGTERM"
		w.boot()
		w.sleep(time.Minute)
		if !w.running() {
			t.Error("the trainer was ended")
		}
	})
}

func TestProgressThatIsNonsenseIsIgnored(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.Silent = true
		w.machine.Programs["run.sh"] = func(r *agenttest.Running) agent.Exit {
			_ = syscall.Mkfifo(r.Getenv("SPOTFERRY_PROGRESS_FILE"), 0o600)
			return w.trainer.Run(r)
		}
		w.boot()
		w.sleep(30 * time.Second)
		w.equal("committed", w.steps(), []int64{20})
		b := w.gw.Record().Beats
		w.equal("a checkpoint tells a step too", b[len(b)-1].Step, 20)
		if _, err := os.Stat(filepath.Join(w.cfg.Dir, "progress.json")); err != nil {
			t.Error(err)
		}
	})
}
