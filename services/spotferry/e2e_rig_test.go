package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// program is a child process of the test and what it has said so far.
type program struct {
	*exec.Cmd
	began  time.Time
	stderr *heard
	stdout *heard
	ended  chan struct{} // closed when it is gone
}

// heard is what a process wrote, and when it wrote first.
type heard struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	first time.Time
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first.IsZero() {
		h.first = time.Now()
	}
	return h.buf.Write(b)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

// begin runs the program. Whatever becomes of the test, it does not outlive it.
func begin(t *testing.T, args ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{Cmd: exec.Command(exe, args...), began: time.Now(), stderr: &heard{}, stdout: &heard{}, ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.stdout, p.stderr
	p.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	p.Dir = t.TempDir() // no source tree around it
	p.WaitDelay = 10 * time.Second
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	return p
}

// kill ends it as the kernel would, and waits.
func (p *program) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
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
			if keep := os.Getenv("E2E_KEEP"); keep != "" {
				_ = os.CopyFS(filepath.Join(keep, t.Name()), os.DirFS(dir))
			}
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

// result of a command that was run to its end, within patience.
func command(t *testing.T, args ...string) result {
	t.Helper()
	p := begin(t, args...)
	until(t, strings.Join(args, " ")+" ends", p.over)
	return result{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
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

// proc is a process, by pid and start time.
type proc struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// alive says whether it is there and not just waiting to be collected.
func (p proc) alive() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return false
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return false
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	return err == nil && (p.Start == 0 || start == p.Start)
}

func (p proc) kill() {
	if p.alive() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// processes are those that run from the state directory's copy of the program, or in one of
// its directories: hosts, agents, trainers and their shells.
func (s *installation) processes() (found []proc) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, link := range []string{"exe", "cwd"} {
			to, err := os.Readlink(filepath.Join("/proc", e.Name(), link))
			if err == nil && strings.HasPrefix(to, s.dir+"/") {
				if p := (proc{PID: pid}); p.alive() {
					found = append(found, p)
				}
				break
			}
		}
	}
	return found
}

// machine is the local seller's record of an instance's processes.
type machine struct {
	dir         string
	Host, Agent proc
}

// machines are those of a job that run, by their directories in the seller's.
func (s *installation) machines(job string) (out []machine) {
	dirs, _ := filepath.Glob(filepath.Join(s.dir, "seller", "instances", job+"-*"))
	for _, d := range dirs {
		m := machine{dir: d}
		b, err := os.ReadFile(filepath.Join(d, "host.json"))
		if err == nil && json.Unmarshal(b, &m) == nil && m.Host.alive() {
			out = append(out, m)
		}
	}
	return out
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

// same compares what two commands printed.
func same(t *testing.T, what string, before, after result) {
	t.Helper()
	if before.code != 0 || after.code != 0 {
		t.Errorf("%s: exit %d then %d: %s%s", what, before.code, after.code, before.err, after.err)
	}
	if before.out == after.out {
		return
	}
	b, a := strings.Split(before.out, "\n"), strings.Split(after.out, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("%s: line %d was %q, is %q", what, i+1, b[i], a[i])
			return
		}
	}
	t.Errorf("%s: had %d lines, has %d", what, len(b), len(a))
}

// figures are what the reading commands say of the jobs.
func (s *installation) figures(jobs ...string) map[string]result {
	s.t.Helper()
	all := map[string]result{}
	commands := [][]string{{"failover", "ls"}, {"bill", "show"}, {"job", "ls"}}
	for _, j := range jobs {
		commands = append(commands, []string{"job", "show", j}, []string{"bill", "show", j})
	}
	for _, c := range commands {
		all[strings.Join(c, " ")] = s.command(append(slices.Clone(c), "-o", "json")...)
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
