package agenttest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/failover/agent"
)

// Trainer is a program that makes steps and writes checkpoints laid out as
// Hugging Face's, in virtual time and on the real disk. SIGUSR1 has it save at
// the end of the step it is in; SIGTERM as well, and then end.
type Trainer struct {
	Steps     int64
	StepTime  time.Duration
	SaveEvery int64         // steps; 0: only when asked, and at the end
	SaveTime  time.Duration // between the first file of a checkpoint and the last
	Shards    int           // files of weights, written one after the other; 0: one
	Bytes     int           // of each, which no two share; 0: a few
	Keep      int           // 0: all
	Deaf      bool          // it catches nothing
	Silent    bool          // it writes no progress
	Forgets   bool          // it begins anew whatever it is given to go on from
	Loads     bool          // it tells step 0 before it has loaded anything
	TellEvery int64         // steps; 0: each is told
	HangAt    int64         // it makes no more steps after this one; 0: never
	Chats     time.Duration // while it hangs, it writes a line this often; 0: never

	mu  sync.Mutex
	log []Step
}

// Step is one entry of the trainer's own log, which no agent writes.
type Step struct {
	Job   string
	Epoch int
	Step  int64
	At    time.Time
}

// Log returns every step made, by any machine.
func (t *Trainer) Log() []Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Step(nil), t.log...)
}

// Last returns the newest step made, 0 before the first.
func (t *Trainer) Last() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.log) == 0 {
		return 0
	}
	return t.log[len(t.log)-1].Step
}

// Run is the program.
func (t *Trainer) Run(r *Running) agent.Exit {
	if !t.Deaf {
		r.Catch(syscall.SIGUSR1, syscall.SIGTERM)
	}
	step := int64(0)
	if t.Loads {
		replace(r.Getenv("SPOTFERRY_PROGRESS_FILE"), map[string]any{"step": 0})
		if !t.wait(r, 10*time.Second) {
			return agent.Exit{}
		}
	}
	if from := r.Getenv("SPOTFERRY_RESUME_FROM"); from != "" && !t.Forgets {
		n, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(from), "checkpoint-"), 10, 64)
		if err != nil {
			return agent.Exit{Code: 3}
		}
		step = n
		fmt.Fprintf(r.Stdout, "resumed at %d\n", n)
	}
	saved := step
	for step < t.Steps {
		if !t.wait(r, t.StepTime) {
			return agent.Exit{}
		}
		step++
		t.made(r, step)
		asked, stop := t.asked(r)
		if asked || step == t.Steps || t.SaveEvery > 0 && step%t.SaveEvery == 0 {
			if step != saved && !t.save(r, step) {
				return agent.Exit{}
			}
			saved = step
		}
		if stop {
			return agent.Exit{Code: 143}
		}
		if step == t.HangAt {
			t.hang(r)
			return agent.Exit{}
		}
	}
	return agent.Exit{}
}

// hang does nothing until it is killed, and may talk meanwhile.
func (t *Trainer) hang(r *Running) {
	for t.wait(r, cmp.Or(t.Chats, time.Hour)) {
		if t.Chats > 0 {
			fmt.Fprint(r.Stdout, "evaluating\r")
		}
	}
}

func (t *Trainer) wait(r *Running, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.Ctx.Done():
		return false
	case <-timer.C:
		return r.Ctx.Err() == nil
	}
}

func (t *Trainer) asked(r *Running) (asked, stop bool) {
	for {
		select {
		case s := <-r.Signals:
			asked, stop = true, stop || s == syscall.SIGTERM
		default:
			return asked, stop
		}
	}
}

func (t *Trainer) made(r *Running, step int64) {
	epoch, _ := strconv.Atoi(r.Getenv("SPOTFERRY_EPOCH"))
	t.mu.Lock()
	t.log = append(t.log, Step{r.Getenv("SPOTFERRY_JOB_ID"), epoch, step, time.Now()})
	t.mu.Unlock()
	fmt.Fprintf(r.Stdout, "step %d\n", step)
	if !t.Silent && (t.TellEvery == 0 || step%t.TellEvery == 0) {
		replace(r.Getenv("SPOTFERRY_PROGRESS_FILE"), map[string]any{"step": step, "loss": 1 / float64(step), "digest": digest(step)})
	}
}

func digest(step int64) string { return fmt.Sprintf("%064x", step) }

// save writes a checkpoint, its state last, and reports whether it lived to the end.
func (t *Trainer) save(r *Running, step int64) bool {
	out := r.Getenv("SPOTFERRY_CHECKPOINT_DIR")
	dir := filepath.Join(out, fmt.Sprintf("checkpoint-%d", step))
	shards := max(t.Shards, 1)
	for i := range shards {
		if os.MkdirAll(dir, 0o755) != nil || os.WriteFile(filepath.Join(dir, t.shard(i)), t.weights(step, i), 0o644) != nil {
			return t.wait(r, t.SaveTime) // a full disk
		}
		if !t.wait(r, t.SaveTime/time.Duration(shards)) {
			return false
		}
	}
	replace(filepath.Join(dir, "trainer_state.json"), map[string]any{"global_step": step})
	t.rotate(out, step)
	return true
}

func (t *Trainer) shard(i int) string {
	if t.Shards <= 1 {
		return "model.safetensors"
	}
	return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, t.Shards)
}

func (t *Trainer) weights(step int64, shard int) []byte {
	if t.Bytes == 0 {
		return Weights(step)
	}
	data := make([]byte, t.Bytes/4*4)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(step))
	binary.LittleEndian.PutUint64(seed[8:], uint64(shard))
	_, _ = rand.NewChaCha8(seed).Read(data) // it never fails
	return tensors(data)
}

func (t *Trainer) rotate(out string, newest int64) {
	names, _ := filepath.Glob(filepath.Join(out, "checkpoint-*"))
	for len(names) > t.Keep && t.Keep > 0 {
		oldest, at := 0, newest
		for i, name := range names {
			if n, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(name), "checkpoint-"), 10, 64); err == nil && n <= at {
				oldest, at = i, n
			}
		}
		_ = os.RemoveAll(names[oldest])
		names = append(names[:oldest], names[oldest+1:]...)
	}
}

// Weights returns a small safetensors file whose data depends on the step alone.
func Weights(step int64) []byte {
	return tensors(bytes.Repeat(binary.LittleEndian.AppendUint64(nil, uint64(step)), 512))
}

func tensors(data []byte) []byte {
	header := fmt.Appendf(nil, `{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, len(data)/4, len(data))
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

func replace(path string, v any) {
	data, err := json.Marshal(v)
	if err == nil && os.WriteFile(path+".new", data, 0o644) == nil {
		_ = os.Rename(path+".new", path)
	}
}
