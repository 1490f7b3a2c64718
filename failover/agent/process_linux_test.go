package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the programs that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "stubborn" {
		stubborn(os.Args[2], os.Args[3])
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "sink" {
		sinking()
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "grinding" {
		grinding(os.Args[2], os.Args[3])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "careful" {
		careful(os.Args[2])
		return
	}
	if len(os.Args) == 5 && os.Args[1] == "agent" {
		if err := lone(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// stubborn ignores SIGTERM and starts another like itself, in a session of its
// own and without any environment, before it notes its pid in dir.
func stubborn(depth, dir string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	if n, _ := strconv.Atoi(depth); n > 0 {
		cmd := exec.Command(os.Args[0], "stubborn", strconv.Itoa(n-1), dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Env = []string{}
		cmd.Stdout = os.Stdout // keeps the pipe open
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	_ = os.WriteFile(filepath.Join(dir, depth), []byte(strconv.Itoa(os.Getpid())), 0o644)
	select {}
}

// careful saves on SIGUSR1, and on SIGTERM takes a moment to end.
func careful(dir string) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1, syscall.SIGTERM)
	f, _ := os.Create(filepath.Join(dir, "open"))
	defer f.Close()
	fmt.Println("ready")
	for s := range c {
		if s == syscall.SIGTERM {
			time.Sleep(200 * time.Millisecond)
			fmt.Println("ended in order")
			os.Exit(5)
		}
		fmt.Println("saved")
	}
}

// buffer is output that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func linux(t *testing.T) *Linux {
	t.Helper()
	l, err := NewLinux()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// script starts a shell script with the test binary as $1 and a directory as $2.
func script(t *testing.T, l *Linux, text, dir string, out *buffer) Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.sh")
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Start(Program{Argv: []string{"bash", file, self, dir}, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: out, Stderr: out})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill(context.Background()) })
	return p
}

// eventually waits for something that other processes do.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if so() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func pids(t *testing.T, dir string, names ...string) (all []int) {
	t.Helper()
	for _, name := range names {
		eventually(t, name, func() bool {
			data, err := os.ReadFile(filepath.Join(dir, name))
			pid, err2 := strconv.Atoi(string(data))
			if err == nil && err2 == nil {
				all = append(all, pid)
			}
			return err == nil && err2 == nil
		})
	}
	return all
}

func alive(pid int) bool {
	p, err := lookUp(pid)
	return err == nil && !p.dead
}

func TestKillEndsEveryDescendant(t *testing.T) {
	dir, l, out := t.TempDir(), linux(t), &buffer{}
	other := script(t, l, `exec sleep 1000`, t.TempDir(), &buffer{}) // another tree, which is none of it
	p := script(t, l, `"$1" stubborn 3 "$2" & wait`, dir, out)
	all := pids(t, dir, "0", "1", "2", "3")
	// The one in the middle dies, so that its child is an orphan: of another
	// session, without environment, and of no living ancestor in the tree.
	if err := syscall.Kill(all[2], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphan is ours", func() bool {
		o, err := lookUp(all[1])
		return err == nil && o.ppid == os.Getpid()
	})
	began := time.Now()
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed in %v", time.Since(began))
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d lives", pid)
		}
	}
	if exit := p.Wait(); exit.Signal != "SIGKILL" {
		t.Errorf("exit %+v", exit)
	}
	if root := other.(*linuxProcess).root.pid; !alive(root) {
		t.Error("the other tree is dead as well")
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestAnOrphanThatOutlivesTheScriptIsKilled(t *testing.T) {
	dir, l := t.TempDir(), linux(t)
	p := script(t, l, `"$1" stubborn 1 "$2" & while [ ! -e "$2/0" ]; do sleep 0.01; done; exit 3`, dir, &buffer{})
	if exit := p.Wait(); exit != (Exit{Code: 3}) {
		t.Errorf("exit %+v", exit)
	}
	all := pids(t, dir, "0", "1")
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(all[0]) || alive(all[1]) {
		t.Error("left behind")
	}
}

func TestStopIsPatientAndThenIsNot(t *testing.T) {
	t.Run("whoever ends in time is not killed, although the shell is gone", func(t *testing.T) {
		dir, out := t.TempDir(), &buffer{}
		p := script(t, linux(t), `"$1" careful "$2"; exit $?`, dir, out)
		eventually(t, "ready", func() bool { return strings.Contains(out.String(), "ready") })
		if err := p.Stop(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "ended in order\n") {
			t.Errorf("output %q", out)
		}
	})
	t.Run("whoever does not is", func(t *testing.T) {
		dir := t.TempDir()
		p := script(t, linux(t), `"$1" stubborn 1 "$2"`, dir, &buffer{})
		all := pids(t, dir, "0", "1")
		began := time.Now()
		if err := p.Stop(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if alive(all[0]) || alive(all[1]) || time.Since(began) > 5*time.Second {
			t.Errorf("lives, after %v", time.Since(began))
		}
	})
}

func TestTellReachesThoseThatListen(t *testing.T) {
	dir, out := t.TempDir(), &buffer{}
	// The shell and cat have no handler: the signal would kill them.
	p := script(t, linux(t), `"$1" careful "$2" | cat; exit 9`, dir, out)
	eventually(t, "ready", func() bool { return strings.Contains(out.String(), "ready") })
	told, err := p.Tell(syscall.SIGUSR1)
	if err != nil || told != 1 {
		t.Fatalf("told %d, %v", told, err)
	}
	eventually(t, "saved", func() bool { return strings.Contains(out.String(), "saved") })
	files, err := p.Writing(dir)
	if err != nil || !slices.Equal(files, []string{filepath.Join(dir, "open")}) {
		t.Errorf("writing %q, %v", files, err)
	}
	if files, _ := p.Writing(dir + "/other"); len(files) > 0 {
		t.Errorf("writing %q", files)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestExits(t *testing.T) {
	for text, want := range map[string]Exit{
		`exit 0`:                        {},
		`exit 42`:                       {Code: 42},
		`kill -9 $$`:                    {Code: -1, Signal: "SIGKILL"},
		`bash -c 'kill -9 $$'; exit $?`: {Code: -1, Signal: "SIGKILL"}, // the trainer within the script
		`kill -SEGV $$`:                 {Code: -1, Signal: "SIGSEGV"},
		`no-such-program`:               {Code: 127},
	} {
		p := script(t, linux(t), text, t.TempDir(), &buffer{})
		if got := shellExit(p.Wait()); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if err := p.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := linux(t).Start(Program{Argv: []string{"/no/such/program"}}); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestAllOutputArrives(t *testing.T) {
	out := &buffer{}
	p := script(t, linux(t), `for i in $(seq 5000); do echo line $i; done; printf end >&2`, t.TempDir(), out)
	p.Wait()
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 5000 || !strings.Contains(out.String(), "end") {
		t.Errorf("%d lines", n)
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	l := linux(t)
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := 0
	for i := range 6 {
		p := script(t, l, `echo x`, t.TempDir(), &buffer{})
		p.Wait()
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			before = count()
		}
	}
	if after := count(); after > before+2 {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestMembers(t *testing.T) {
	const self, root = 10, 20
	marks := map[int]string{31: "ours", 32: "theirs", 33: ""}
	got := members([]proc{
		{pid: 1}, {pid: self, ppid: 1, start: 5},
		{pid: root, ppid: self, session: root, start: 100},
		{pid: 21, ppid: root, session: root, start: 101},
		{pid: 22, ppid: 21, session: 22, start: 102},               // another session, by descent
		{pid: 23, ppid: 1, session: root, start: 103},              // by session
		{pid: 24, ppid: 23, session: 24, start: 104},               // and its child
		{pid: 25, ppid: self, session: 25, start: 90},              // older than the tree
		{pid: 30, ppid: self, session: 30, start: 105},             // the root of another tree
		{pid: 31, ppid: self, session: 31, start: 106},             // orphans
		{pid: 32, ppid: self, session: 32, start: 107},             //
		{pid: 33, ppid: self, session: 33, start: 108},             //
		{pid: 34, ppid: self, session: 34, start: 109, dead: true}, // nobody knows whose
	}, proc{pid: root, start: 100}, self, []int{root, 30}, "ours", func(p proc) string { return marks[p.pid] })
	var pids []int
	for _, p := range got {
		pids = append(pids, p.pid)
	}
	if want := "[20 21 22 23 24 31 33]"; fmt.Sprint(pids) != want {
		t.Errorf("members %v, want %s", pids, want)
	}
}
