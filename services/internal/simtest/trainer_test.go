package simtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// work is what a job's trainer does.
type work struct {
	steps     int64
	step      time.Duration
	saveEvery int64
	saving    time.Duration // between the first byte of a checkpoint and the last
}

// trainer is the program on a machine.
type trainer struct {
	m    *machine
	work work
	pid  string
	r    *agenttest.Running
	run  *run
	at   int64
	now  state
}

func (t *trainer) main() agent.Exit {
	t.r.Catch(syscall.SIGUSR1, syscall.SIGTERM)
	if !t.wait(0) {
		return agent.Exit{}
	}
	job := events.JobID(t.r.Getenv("SPOTFERRY_JOB_ID"))
	epoch, _ := strconv.Atoi(t.r.Getenv("SPOTFERRY_EPOCH"))
	t.now = beginning(job)
	if dir := t.r.Getenv("SPOTFERRY_RESUME_FROM"); dir != "" {
		if err := t.load(dir); err != nil {
			fmt.Fprintln(t.r.Stderr, err)
			return agent.Exit{Code: 3}
		}
		t.checkCargo(job, dir)
		if t.m.w.flaw != nil {
			t.m.w.flaw(t)
		}
	}
	t.run = &run{job: job, epoch: epoch, pid: t.pid, from: t.at, had: t.now, began: time.Now()}
	t.m.w.side.add(t.run)
	fmt.Fprintf(t.r.Stdout, "epoch %d begins at step %d\n", epoch, t.at)
	exit := t.train()
	t.m.w.side.change(func() { t.run.ended = time.Now() })
	return exit
}

func (t *trainer) train() agent.Exit {
	saved := t.at
	for t.at < t.work.steps {
		if !t.wait(t.work.step) {
			return agent.Exit{}
		}
		t.at++
		t.now = t.now.next(t.at)
		t.m.w.side.change(func() { t.run.steps = append(t.run.steps, made{t.at, t.now, time.Now()}) })
		t.tell()
		asked, stop := t.asked()
		if (asked || t.at == t.work.steps || t.at%t.work.saveEvery == 0) && saved != t.at {
			if !t.save() {
				return agent.Exit{}
			}
			saved = t.at
		}
		if stop {
			return agent.Exit{Code: 143}
		}
	}
	fmt.Fprintf(t.r.Stdout, "done: %s\n", t.now)
	return agent.Exit{}
}

// wait reports whether the process is still alive after d, at its own instant.
func (t *trainer) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.r.Ctx.Done():
		return false
	case <-timer.C:
		turn("trainer-" + t.pid)
		return t.r.Ctx.Err() == nil
	}
}

func (t *trainer) asked() (asked, stop bool) {
	for {
		select {
		case s := <-t.r.Signals:
			asked, stop = true, stop || s == syscall.SIGTERM
		default:
			return asked, stop
		}
	}
}

func (t *trainer) tell() {
	path := t.r.Getenv("SPOTFERRY_PROGRESS_FILE")
	replace(path, map[string]any{"step": t.at, "loss": 1 / float64(t.at)})
}

const weightsName = "model.safetensors"

// save writes a checkpoint, its state file last, and reports whether it lived to the end.
// The files bear virtual times: the agent measures the save by them.
func (t *trainer) save() bool {
	dir := filepath.Join(t.r.Getenv("SPOTFERRY_CHECKPOINT_DIR"), fmt.Sprintf("checkpoint-%d", t.at))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return true // no room: it goes on without
	}
	t.saveCargo(dir)
	write(filepath.Join(dir, weightsName), weights(t.now))
	if !t.wait(t.work.saving) {
		t.m.w.hits.add("killed inside a save")
		return false
	}
	path := filepath.Join(dir, "trainer_state.json")
	replace(path, map[string]any{"global_step": t.at})
	t.rotate()
	return true
}

// rotate keeps the newest two.
func (t *trainer) rotate() {
	names, _ := filepath.Glob(filepath.Join(t.r.Getenv("SPOTFERRY_CHECKPOINT_DIR"), "checkpoint-*"))
	for _, name := range names {
		n, err := strconv.ParseInt(filepath.Base(name)[len("checkpoint-"):], 10, 64)
		if err == nil && n <= t.at-2*t.work.saveEvery {
			_ = os.RemoveAll(name)
		}
	}
}

func (t *trainer) load(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, weightsName))
	if err != nil {
		return err
	}
	var head struct {
		Step int64 `json:"global_step"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "trainer_state.json"))
	if err == nil {
		err = json.Unmarshal(text, &head)
	}
	if err != nil {
		return err
	}
	copy(t.now[:], data[len(data)-len(t.now):])
	t.at = head.Step
	return nil
}

// weights is a small safetensors file whose tensor is the state.
func weights(s state) []byte {
	header := fmt.Appendf(nil, `{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, len(s)/4, len(s))
	header = append(header, bytes.Repeat([]byte(" "), (8-len(header)%8)%8)...)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), s[:]...)
}

// weightsDigest is what an agent says of such a file.
func weightsDigest(s state) string {
	h := sha256.Sum256(s[:])
	return hex.EncodeToString(h[:])
}

func write(path string, data []byte) {
	if os.WriteFile(path, data, 0o644) == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now)
	}
}

func replace(path string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return
	}
	write(path+".new", data)
	_ = os.Rename(path+".new", path)
}
