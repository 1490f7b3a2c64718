package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests in e2e*_test.go run the program itself, in processes of its own, and
// look at what it leaves behind.

// patience is for anything that is to happen: cores are shared with other tests.
const patience = 90 * time.Second

// installation is a state directory and the `dev` that runs on it, or none.
type installation struct {
	t        *testing.T
	dir      string
	evidence string
	flags    []string
	running  *program
}

// install prepares a state directory; nothing runs yet. What is left of its
// machines when the test ends is killed.
func install(t *testing.T, flags ...string) *installation {
	t.Helper()
	dir := t.TempDir()
	s := &installation{t: t, dir: filepath.Join(dir, "state"), evidence: filepath.Join(dir, "evidence"), flags: flags}
	for _, d := range []string{s.dir, s.evidence} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of dev.log:\n%s", tail(filepath.Join(s.dir, "dev.log"), 6000))
		}
		if keep := os.Getenv("SPOTFERRY_E2E_KEEP"); keep != "" { // to look at it afterwards
			_ = os.CopyFS(filepath.Join(keep, t.Name()), os.DirFS(dir))
		}
		if s.running != nil {
			s.running.kill()
		}
		until(t, "its machines are gone", func() bool {
			left := s.processes()
			for _, p := range left {
				p.kill()
			}
			return len(left) == 0
		})
	})
	return s
}

func tail(path string, n int) string {
	b, _ := os.ReadFile(path)
	return string(b[max(0, len(b)-n):])
}

// launch starts `dev` without waiting for anything.
func (s *installation) launch() *program {
	s.t.Helper()
	args := append([]string{"dev", "--state", s.dir, "--evidence", s.evidence}, s.flags...)
	s.running = begin(s.t, args...)
	return s.running
}

// serve starts `dev` and waits until it answers.
func (s *installation) serve() {
	s.t.Helper()
	p := s.launch()
	until(s.t, "dev serves", func() bool {
		if p.over() {
			s.t.Fatalf("dev ended: %s", p.stderr)
		}
		return strings.Contains(p.stderr.String(), "serving on")
	})
}

// stop asks `dev` to stop and waits until it has.
func (s *installation) stop() {
	s.t.Helper()
	_ = s.running.Process.Signal(syscall.SIGTERM)
	until(s.t, "dev stops", s.running.over)
	if code := s.running.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("dev exited with %d: %s", code, s.running.stderr)
	}
}

func (s *installation) command(args ...string) result {
	s.t.Helper()
	return command(s.t, append(args, "--state", s.dir)...)
}

// ask runs a reading command with -o json and reads its answer.
func ask1[T any](s *installation, args ...string) T {
	s.t.Helper()
	var v T
	r := s.command(append(args, "-o", "json")...)
	if r.code != 0 {
		s.t.Fatalf("%v exited with %d: %s", args, r.code, r.err)
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		s.t.Fatalf("%v printed %.300q: %v", args, r.out, err)
	}
	return v
}

// jobShown is what the tests read of `job show -o json`.
type jobShown struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	Detail    string `json:"detail"`
	Over      bool   `json:"over"`
	Closed    bool   `json:"closed"`
	Epochs    int    `json:"epochs"`
	Reclaims  int    `json:"reclaims"`
	LostSteps int64  `json:"lost_steps"`
	Spent     string `json:"spent"`
	Machine   struct {
		Lease string `json:"lease"`
		Epoch int    `json:"epoch"`
	} `json:"machine"`
	Checkpoint struct {
		Step    int64  `json:"step"`
		Weights string `json:"weights"`
	} `json:"checkpoint"`
	Timeline []struct {
		Type string `json:"type"`
	} `json:"timeline"`
}

// happened counts the events of a type in a job's timeline.
func (j jobShown) happened(kind string) (n int) {
	for _, e := range j.Timeline {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// closed waits until a job is over and has no machine any more.
func (s *installation) closed(job string) jobShown {
	s.t.Helper()
	var j jobShown
	until(s.t, "job "+job+" is closed", func() bool {
		j = ask1[jobShown](s, "job", "show", job)
		return j.Closed
	})
	return j
}

// calm is a job on a machine that is never taken away.
type calm struct {
	name                     string
	steps, saveEvery, hidden int
	seed                     int
	pace                     time.Duration
}

func (c calm) script(pace time.Duration) string {
	return fmt.Sprintf("spotferry trainer --steps %d --save-every %d --save-total-limit 3 --seed %d --hidden %d --step-interval %s",
		c.steps, c.saveEvery, c.seed, c.hidden, pace)
}

func (c calm) file() string {
	return fmt.Sprintf(`name: %s
run: |
  %s
resources:
  accelerators: V100:1
  use_spot: false
policy:
  budget: $100
  checkpoint: {framework: hf}
  work:
    steps: %d
    hours_on: {V100: 1h}
`, c.name, c.script(c.pace), c.steps)
}

// submit submits a job and returns its id.
func (s *installation) submit(c calm) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), c.name+".yaml")
	if err := os.WriteFile(file, []byte(c.file()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	r := s.command("run", file, "-y", "--accept-risk", "--detach", "-o", "name")
	if r.code != 0 {
		s.t.Fatalf("run %s exited with %d: %s", c.name, r.code, r.err)
	}
	return strings.TrimSpace(r.out)
}

// until waits for a condition, and fails the test when it does not come.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain until %s", patience, what)
		}
	}
}

// uninterrupted runs a job's script in a plain shell, as fast as it goes, and
// returns the digest of the weights it ends with.
func uninterrupted(t *testing.T, scripts ...string) string {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	exe, err := os.Executable()
	if err == nil {
		err = os.Symlink(exe, filepath.Join(bin, "spotferry"))
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "bash", "-e", "-c", strings.Join(scripts, "\n"))
	c.Dir = dir
	c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "SPOTFERRY_CHECKPOINT_DIR=" + dir}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("running the job in a plain shell: %v: %s", err, out[max(0, len(out)-500):])
	}
	digest, err := newestDigest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
