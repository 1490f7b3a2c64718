package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// program writes a script that stands for a program of the machine.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestARealNvidiaSMIThatHangsHoldsNothingUp(t *testing.T) {
	r := inReality(t, events.JobSpec{Run: "for i in $(seq 1000); do echo '{\"step\": '$i'}' > $SPOTFERRY_PROGRESS_FILE.new; mv $SPOTFERRY_PROGRESS_FILE.new $SPOTFERRY_PROGRESS_FILE; sleep 0.05; done"})
	state := filepath.Join(t.TempDir(), "state")
	r.cfg.NvidiaSMI = program(t, `case $(cat `+state+`) in
two) echo "0, Tesla T4, 50, 100, 15360, 40, 30.5"; echo "1, Tesla T4, [N/A], 100, 15360, 40, 30.5";;
hang) trap '' TERM; setsid sleep 1000 & sleep 1000;;
lost) echo "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost."; exit 15;;
esac`)
	is := func(s string) {
		if err := os.WriteFile(state+".new", []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(state+".new", state); err != nil {
			t.Fatal(err)
		}
	}
	is("two")
	r.cfg.SampleEvery = 400 * time.Millisecond
	r.start()
	last := func(rec agenttest.Record) events.Heartbeat { return rec.Beats[len(rec.Beats)-1] }
	rec := r.until("two GPUs are told", func(rec agenttest.Record) bool { return len(rec.Beats) > 0 && len(last(rec).GPUs) == 2 })
	if g := last(rec).GPUs[0]; g.Util != 0.5 || g.Name != "Tesla T4" || g.PowerW != 30.5 {
		t.Errorf("sample %+v", g)
	}
	is("hang")
	rec = r.until("none is told while it hangs", func(rec agenttest.Record) bool { return len(last(rec).GPUs) == 0 })
	step := last(rec).Step
	rec = r.until("the trainer trains on", func(rec agenttest.Record) bool { return last(rec).Step > step+20 })
	if len(rec.Troubles) > 0 {
		t.Errorf("troubles %+v", rec.Troubles)
	}
	is("lost")
	rec = r.until("the loss is reported", func(rec agenttest.Record) bool { return len(rec.Troubles) > 0 })
	if tr := rec.Troubles[0]; tr.Kind != events.TroubleGPUFault || !strings.Contains(tr.Detail, "GPU is lost") {
		t.Errorf("reported %+v", tr)
	}
	r.finish()
	sleeping(t, r.cfg.Dir, false)
}

func TestARealStallTellsWhereItWaits(t *testing.T) {
	r := inReality(t, events.JobSpec{Run: "echo '{\"step\": 7}' > $SPOTFERRY_PROGRESS_FILE; echo $(printf 'x\\377y') >&2; trap '' TERM; (trap '' TERM; setsid sleep 1000) & sleep 1000",
		Policy: events.Policy{ProgressTimeoutS: 2}})
	r.start()
	rec := r.until("the stall is reported", func(rec agenttest.Record) bool { return len(rec.Troubles) > 0 })
	tr := rec.Troubles[0]
	if tr.Kind != events.TroubleStalled || tr.Step != 7 || !slices.Contains(tr.Lines, "x\uFFFDy") {
		t.Errorf("reported %+v", tr)
	}
	told := 0
	for _, l := range tr.Lines {
		if strings.HasPrefix(l, "process ") && strings.Contains(l, "state S") {
			told++
		}
	}
	if told < 3 { // bash, the subshell, sleep
		t.Errorf("the lines tell of %d processes: %q", told, tr.Lines)
	}
	r.until("nothing of it is left", func(agenttest.Record) bool { return !working(r.cfg.Dir) })
	r.finish()
}

func working(dir string) bool {
	procs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	return slices.ContainsFunc(procs, func(p string) bool {
		cwd, err := os.Readlink(p)
		return err == nil && strings.HasPrefix(cwd, dir)
	})
}

// saver saves a checkpoint of 256 KiB every ten steps, and goes on when it cannot.
const saver = `for i in $(seq 100000); do
  echo "{\"step\": $i}" > $SPOTFERRY_PROGRESS_FILE.new && mv $SPOTFERRY_PROGRESS_FILE.new $SPOTFERRY_PROGRESS_FILE
  if [ $((i % 10)) = 0 ]; then
    d=$SPOTFERRY_CHECKPOINT_DIR/checkpoint-$i; mkdir -p $d
    head -c 262144 /dev/zero > $d/state.bin && printf '{"global_step": %d}' $i > $d/trainer_state.json || rm -rf $d
    rm -rf $SPOTFERRY_CHECKPOINT_DIR/checkpoint-$((i - 20))
  fi
  sleep 0.03
done 2>/dev/null`

func mounted(t *testing.T, options string) string {
	t.Helper()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, options); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	return disk
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := 1 << 20; block >= 512; block /= 2 {
		for b := make([]byte, block); err == nil; {
			_, err = f.Write(b)
		}
		err = nil
	}
}

func TestARealDiskThatIsFullStopsSavesAndNothingElse(t *testing.T) {
	for _, tc := range []struct{ name, says string }{
		{"the machine's", "the machine's disk is full"},
		{"the store's", "the checkpoint store is full"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := inReality(t, events.JobSpec{Run: saver, Policy: events.Policy{Checkpoint: events.CheckpointPolicy{Framework: "hf"}}})
			disk := mounted(t, "size=4m")
			if tc.name == "the machine's" {
				r.cfg.Dir = disk
			} else {
				store, err := dir.Open(dir.Config{Path: disk})
				if err != nil {
					t.Fatal(err)
				}
				r.store, r.gw.Joined.Store.Path = store, disk
			}
			r.cfg.Probe, r.cfg.ProbeEvery = agent.ProbeDisk, 100*time.Millisecond
			r.start()
			last := func(rec agenttest.Record) events.Heartbeat { return rec.Beats[len(rec.Beats)-1] }
			r.until("it commits", func(rec agenttest.Record) bool { return len(rec.Commits) > 1 })
			fill(t, disk+"/ballast")
			rec := r.until("the full disk is told", func(rec agenttest.Record) bool { return strings.Contains(last(rec).Trouble, tc.says) })
			kept := rec.Commits[len(rec.Commits)-1].Checkpoint
			step, beats := last(rec).Step, len(rec.Beats)
			rec = r.until("it goes on", func(rec agenttest.Record) bool {
				if tc.name == "the machine's" { // where the trainer cannot write how far it is either
					return len(rec.Beats) > beats+3 && working(disk)
				}
				return last(rec).Step > step+15
			})
			if len(rec.Dones)+len(rec.Troubles) > 0 {
				t.Errorf("it ended: %+v %+v", rec.Dones, rec.Troubles)
			}
			if err := os.Remove(disk + "/ballast"); err != nil {
				t.Fatal(err)
			}
			rec = r.until("commits go on", func(rec agenttest.Record) bool {
				return last(rec).Trouble == "" && rec.Commits[len(rec.Commits)-1].Checkpoint.Step > kept.Step
			})
			if n := strings.Count(output(rec, "agent"), "disk is full"); n > 6 {
				t.Errorf("it is said %d times", n)
			}
			r.finish()
		})
	}
}
