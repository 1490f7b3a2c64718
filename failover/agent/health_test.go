package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

const (
	xid79 = "3,900,1,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
	xid31 = "3,901,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=88, name=python, MMU Fault\n"
	oom   = "3,902,1,-;Out of memory: Killed process 88 (python) total-vm:1kB\n"
)

// withKernel gives a machine a log that it returns a writer of.
func (w *world) withKernel() func(string) {
	w.cfg.KernelLog = filepath.Join(w.cfg.Dir, "kmsg")
	return func(s string) {
		f, err := os.OpenFile(w.cfg.KernelLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(s)
			_ = f.Close()
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestAFaultyGPUEndsTheTrainerAndKeepsWhatWasCompleteBefore(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		say := w.withKernel()
		say(xid79) // of whoever had the machine before
		w.boot()
		w.sleep(22 * time.Second)
		say(xid31)
		w.sleep(5 * time.Second)
		w.equal("after what a bug in the trainer looks like, troubles", len(w.gw.Record().Troubles), 0)
		say(xid79)
		r := w.trouble()
		if r.Kind != events.TroubleGPUFault || !strings.Contains(r.Detail, "Xid 79") || !slices.ContainsFunc(r.Lines, func(l string) bool { return strings.Contains(l, "fallen off the bus") }) {
			t.Errorf("reported %+v", r)
		}
		say(xid79) // once is enough
		w.sleep(time.Minute)
		w.equal("committed", w.steps(), []int64{20})
		w.stays(1)
		w.gw.Order(events.OrderStop, "stop-1")
		w.until("the order is answered", func() bool { return len(w.gw.Record().Dones) == 1 })
		w.equal("answer", w.gw.Record().Dones[0].OrderID, "stop-1")
	})
}

func TestNothingIsStartedOnAFaultyMachine(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		say := w.withKernel()
		say("")
		w.start()
		w.sleep(5 * time.Second)
		say(xid79)
		w.equal("reported before the job comes here", w.trouble().Kind, events.TroubleGPUFault)
		w.gw.Order(events.OrderStart, "start-1")
		w.until("and when it is to start", func() bool { return len(w.gw.Record().Troubles) == 2 })
		w.sleep(time.Minute)
		w.equal("programs started", len(w.machine.Started()), 0)
	})
}

func TestATrainerThatDiesOfItsGPUIsReportedAsThat(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		say := w.withKernel()
		say("")
		w.boot()
		w.sleep(5 * time.Second)
		say(xid79)
		w.machine.Started()[0].Die("SIGABRT") // in the same moment
		w.equal("reported", w.trouble().Kind, events.TroubleGPUFault)
		w.sleep(time.Minute)
		w.stays(0)
	})
}

func TestTheKernelsWordOnMemoryIsInTheReason(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		say := w.withKernel()
		say("")
		w.boot()
		w.sleep(5 * time.Second)
		say(oom)
		w.sleep(time.Second)
		w.machine.Started()[0].Die("SIGKILL")
		w.until("the end is reported", func() bool { return len(w.gw.Record().Dones) > 0 })
		if d := w.gw.Record().Dones[0]; d.Signal != "SIGKILL" || !strings.Contains(d.Reason, "out of memory") || !d.OutOfMemory {
			t.Errorf("reported %+v", d)
		}
		w.equal("troubles", len(w.gw.Record().Troubles), 0)
	})
}

func TestGPUsAreInEveryHeartbeatUntilTheyAreGone(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		var gpus atomic.Int64
		gpus.Store(2)
		w.cfg.NvidiaSMI = "/usr/bin/nvidia-smi"
		w.machine.Programs["nvidia-smi"] = func(r *agenttest.Running) agent.Exit {
			switch n := gpus.Load(); n {
			case 0:
				<-r.Ctx.Done() // hangs
			default:
				for i := range n {
					fmt.Fprintf(r.Stdout, "%d, H100, 90, 70000, 81559, 60, 600.5\n", i)
				}
			}
			return agent.Exit{}
		}
		w.boot()
		w.sleep(10 * time.Second)
		beats := w.gw.Record().Beats
		if got := beats[len(beats)-1].GPUs; len(got) != 2 || got[1] != (events.GPUSample{Index: 1, Name: "H100", Util: 0.9, MemUsedMiB: 70000, MemMiB: 81559, TempC: 60, PowerW: 600.5}) {
			t.Errorf("samples %+v", got)
		}
		gpus.Store(0)
		w.sleep(2 * time.Minute)
		beats = w.gw.Record().Beats
		w.equal("samples of one that hangs", len(beats[len(beats)-1].GPUs), 0)
		w.equal("troubles", len(w.gw.Record().Troubles), 0)
		if !w.running() || w.lastCommit().Checkpoint.Step < 100 {
			t.Error("the agent or its trainer waits for nvidia-smi")
		}
		gpus.Store(1)
		if r := w.trouble(); r.Kind != events.TroubleGPUFault || !strings.Contains(r.Detail, "shows 1 GPUs where there were 2") {
			t.Errorf("reported %+v", r)
		}
	})
}

func TestAFullDiskIsToldAndForgotten(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		var state atomic.Uintptr
		w.cfg.Probe = func(string) error {
			if err := syscall.Errno(state.Load()); err != 0 {
				return &os.PathError{Op: "write", Path: "probe", Err: err}
			}
			return nil
		}
		told := func() string {
			beats := w.gw.Record().Beats
			return beats[len(beats)-1].Trouble
		}
		w.boot()
		w.sleep(time.Minute)
		w.equal("trouble", told(), "")
		state.Store(uintptr(syscall.ENOSPC))
		w.until("a full disk is told", func() bool { return strings.Contains(told(), "disk is full") })
		state.Store(0)
		w.until("and forgotten", func() bool { return told() == "" })
		w.equal("restarts, troubles", fmt.Sprint(w.restarts(), len(w.gw.Record().Troubles)), "0 0")
		state.Store(uintptr(syscall.EROFS))
		if r := w.trouble(); r.Kind != events.TroubleHostFault || !strings.Contains(r.Detail, "read-only file system") {
			t.Errorf("reported %+v", r)
		}
		w.sleep(time.Minute)
		w.stays(len(w.commits()))
	})
}

func TestTheWallClockDecidesNothing(t *testing.T) {
	for name, by := range map[string]time.Duration{"an hour forward": time.Hour, "an hour back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				j.Spec.Policy.ProgressTimeoutS = 60
				var off atomic.Int64
				w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
				w.boot()
				w.sleep(25 * time.Second)
				off.Store(int64(by))
				w.sleep(40 * time.Second)
				w.equal("commits go on", w.steps(), []int64{20, 40, 60})
				w.seller.Warn(2 * time.Minute)
				w.sleep(time.Minute)
				if !w.running() || len(w.gw.Record().Troubles) > 0 || w.over() {
					t.Error("the trainer was stopped")
				}
				if n := w.gw.Record().Notices; len(n) != 1 || n[0].Left < 118*time.Second || n[0].Left > 2*time.Minute {
					t.Errorf("notices %+v", n)
				}
				w.seller.Withdraw()
				w.sleep(time.Second)
				w.gw.Refuse(events.VerbRenew, &events.Refusal{Code: events.RefusedUnavailable})
				w.sleep(31 * time.Second)
				before := len(w.commits())
				off.Store(-int64(by))
				w.sleep(time.Minute)
				w.equal("commits without a hold", len(w.commits())-before, 0)
			})
		})
	}
}

func TestInputsAreTimedAsAPartOfSetup(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Setup = "pip install"
		w.machine.Programs["setup.sh"] = func(*agenttest.Running) agent.Exit { time.Sleep(3 * time.Second); return agent.Exit{} }
		j.Spec.Workdir = workdir(w.t, w.store, "train.py", "print()")
		w.faults(func(mem.Op) mem.Fault { return mem.Fault{Delay: 2 * time.Second} })
		w.start()
		w.gw.Order(events.OrderStart, "start-1")
		w.until("it trains", func() bool { return w.trainer.Last() > 0 })
		w.sleep(6 * time.Second)
		beats := w.gw.Record().Beats
		c := beats[len(beats)-1].Clock
		if c.InputsMS < 2000 || c.InputsMS > 2500 || c.SetupMS < c.InputsMS+3000 || c.SetupMS > c.InputsMS+3500 || c.ImageMS != 0 {
			t.Errorf("clock %+v", c)
		}
	})
}
