package frameworks

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is for anything that is to happen: a framework takes its time to be
// imported, and cores are shared.
const patience = 6 * time.Minute

// world is a running system, and what jobs are made of.
type world struct {
	t        *testing.T
	exe      string   // the program under test
	state    string   // of the system
	evidence string   // where trainers, machines and the meter write
	scripts  string   // a copy of testdata
	env      []string // with the frameworks' programs first on PATH
}

// newWorld builds the program, starts the system, and stops it when the test ends.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, exe: *program, state: filepath.Join(dir, "state"), evidence: filepath.Join(dir, "evidence"), scripts: filepath.Join(dir, "scripts")}
	w.env = environment(t)
	for _, d := range []string{w.state, w.evidence} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(w.scripts, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	if w.exe == "" {
		w.exe = filepath.Join(dir, "spotferry")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", w.exe, "../../spotferry").CombinedOutput(); err != nil {
			t.Fatalf("building the program: %v: %s", err, out)
		}
	}
	w.serve()
	return w
}

// environment is what the system, its machines and the plain runs see.
func environment(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "install.sh", "--where").CombinedOutput()
	home := strings.TrimSpace(string(out))
	if err != nil {
		t.Fatalf("install.sh --where: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(home, "complete")); err != nil {
		t.Fatalf("the frameworks are not in %s: run services/internal/frameworks/install.sh", home)
	}
	return append(os.Environ(), "PATH="+filepath.Join(home, "env", "bin")+":"+os.Getenv("PATH"))
}

// inside is the world for a part of the test.
func (w *world) inside(t *testing.T) *world {
	part := *w
	part.t = t
	return &part
}

// serve starts the system. At 24 market seconds in a second a job of some minutes is
// one of some hours; timers are a third of the usual, which busy cores can keep.
func (w *world) serve() {
	t := w.t
	t.Helper()
	said, err := os.Create(filepath.Join(filepath.Dir(w.state), "dev.err"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(w.exe, "dev", "--state", w.state, "--evidence", w.evidence, "--scale", "24", "--divide", "3")
	c.Env, c.Dir, c.Stderr = w.env, w.scripts, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = c.Wait(); close(gone) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of dev.log:\n%s", tail(filepath.Join(w.state, "dev.log"), 4000))
		}
		_ = c.Process.Signal(syscall.SIGTERM)
		<-gone
		said.Close()
		w.clear()
	})
	w.until("the system serves", func() bool {
		select {
		case <-gone:
			t.Fatalf("the system has ended: %s", tail(said.Name(), 2000))
		default:
		}
		return strings.Contains(tail(said.Name(), 2000), "serving on")
	})
}

// clear ends what a test that failed has left running: whatever runs the copy of
// the program in the state directory, or in a machine's directory.
func (w *world) clear() {
	w.until("its machines are gone", func() bool {
		left := 0
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			for _, link := range []string{"exe", "cwd"} {
				if to, err := os.Readlink(filepath.Join("/proc", e.Name(), link)); err == nil && strings.HasPrefix(to, w.state+"/") {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					left++
				}
			}
		}
		return left == 0
	})
}

// until waits for a condition, and fails the test when it does not come.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited %s in vain until %s", patience, what)
		}
	}
}

// command runs one of the program's to its end.
func (w *world) command(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, w.exe, append(args, "--state", w.state)...)
	var stderr strings.Builder
	c.Env, c.Dir, c.Stderr = w.env, w.scripts, &stderr
	out, err := c.Output()
	if err != nil {
		w.t.Fatalf("%v: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// ask reads what a command answers with -o json.
func ask[T any](w *world, args ...string) (v T) {
	w.t.Helper()
	out := w.command(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		w.t.Fatalf("%v printed %.300q: %v", args, out, err)
	}
	return v
}

func tail(path string, n int) string {
	b, _ := os.ReadFile(path)
	return string(b[max(0, len(b)-n):])
}
