package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/failover"
)

const pace = 60 * time.Millisecond

// kind is what the jobs of a run have in common. Machines are bought on demand: it
// is the plan that takes them away, not the market, and a buyer who has seen
// machines live for seconds would rather wait than buy such a one again.
type kind struct {
	name   string
	hunted bool // its machines are taken away
	steps  int
}

func (k kind) script(pace time.Duration) string {
	return fmt.Sprintf("spotferry trainer --steps %d --save-every 20 --save-total-limit 3 --seed %d --hidden 96 --step-interval %s", k.steps, len(k.name), pace)
}

func (k kind) file(name string) string {
	return fmt.Sprintf(`name: %s
run: |
  %s
resources:
  accelerators: {V100: 1, A100-80GB: 1, H100: 1}
  use_spot: false
policy:
  budget: $1000
  checkpoint: {framework: hf}
  work:
    steps: %d
    hours_on: {V100: 1h, A100-80GB: 1h, H100: 1h}
`, name, k.script(pace), k.steps)
}

// kinds are jobs whose machines are taken away, and jobs whose are not.
func (w *world) kinds() []kind {
	return []kind{{"hunted", true, w.opt.steps}, {"calm", false, w.opt.calm}}
}

// work keeps enough jobs going until it is told that there will be no more.
func (w *world) work() {
	for w.pause(200 * time.Millisecond) {
		w.mu.Lock()
		go_on := w.supply
		w.mu.Unlock()
		if !go_on {
			return
		}
		going := map[string]int{}
		for _, j := range w.rec.open() {
			if !j.Over() {
				going[kindOf(j)]++
			}
		}
		for _, k := range w.kinds() {
			want := 1
			if k.hunted {
				want = w.opt.hunted
			}
			if going[k.name] < want {
				w.submit(k)
			}
		}
	}
}

func kindOf(j failover.Job) string { name, _, _ := strings.Cut(j.Spec.Name, "-"); return name }

// submit submits one job as a person does, and tries again until it is in the log.
// An answer that was lost must not become a second job: names are used once.
func (w *world) submit(k kind) {
	w.quota++
	name := fmt.Sprintf("%s-%d", k.name, w.quota)
	file := filepath.Join(w.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(k.file(name)), 0o600); err != nil {
		w.fail("%v", err)
		return
	}
	for w.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
		said, err := w.fleet.CLI(ctx, "run", file, "-y", "--accept-risk", "--detach", "-o", "name")
		cancel()
		there := func() bool { _, ok := w.rec.job(name); return ok }
		if w.until(2*time.Second, there) {
			return
		}
		if err == nil && said.Code == 0 {
			if w.until(20*time.Second, there) {
				return
			}
			w.fail("job %s was accepted and is not in the log", name)
			return
		}
		w.pause(300 * time.Millisecond)
	}
}

// undisturbed runs a kind's script in a plain shell, as fast as it goes, and
// returns the digest of the weights it ends with.
func (w *world) undisturbed(k kind) (string, error) {
	dir := filepath.Join(w.dir, "undisturbed-"+k.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	c := exec.CommandContext(w.ctx, "bash", "-e", "-c", k.script(0))
	c.Dir = dir
	c.Env = []string{"PATH=" + w.bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "SPOTFERRY_CHECKPOINT_DIR=" + dir}
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("running %s undisturbed: %w: %s", k.name, err, out[max(0, len(out)-500):])
	}
	return newestWeights(dir)
}

// newestWeights is the SHA-256 over the weights' data in the newest checkpoint below dir.
func newestWeights(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "checkpoint-*", "model.safetensors"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no checkpoint in %s: %w", dir, err)
	}
	step := func(path string) (n int) {
		_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(path)), "checkpoint-%d", &n)
		return n
	}
	b, err := os.ReadFile(slices.MaxFunc(found, func(a, b string) int { return step(a) - step(b) }))
	if err != nil || len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
		return "", fmt.Errorf("the newest checkpoint in %s cannot be read: %w", dir, err)
	}
	sum := sha256.Sum256(b[8+binary.LittleEndian.Uint64(b):])
	return hex.EncodeToString(sum[:]), nil
}

// ask is a reading command, repeated until it answers.
func ask[T any](w *world, args ...string) (v T, err error) {
	for try := 0; try < 20; try++ {
		said, e := w.fleet.CLI(w.ctx, append(args, "-o", "json")...)
		if e == nil && said.Code == 0 {
			return v, json.NewDecoder(bytes.NewReader(said.Stdout)).Decode(&v)
		}
		err = fmt.Errorf("%v exits with %d: %s", args, said.Code, said.Stderr)
		if !w.pause(500 * time.Millisecond) {
			break
		}
	}
	return v, err
}
