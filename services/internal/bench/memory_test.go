package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// settling is how long a process is left alone before it is weighed. Go gives
// memory back to the kernel little by little.
const settling = 15 * time.Second

// TestMemory weighs `spotferry dev` with nothing to do, and the control plane with
// many jobs, each with an agent that renews its hold every five seconds. The
// agents, and the seller's machines, are outside of what is weighed.
func TestMemory(t *testing.T) {
	if !*figures {
		t.Run("a control plane in a process of its own", func(t *testing.T) { t.Parallel(); supervised(t, 3, time.Second) })
		return
	}
	exe := filepath.Join(t.TempDir(), "spotferry")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, "../../spotferry").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v: %s", err, out)
	}
	floor, _ := weigh(t, exec.Command(exe, "dev", "--help"), nil) // the program's own pages, once mapped
	dev := exec.Command(exe, "dev", "--state", filepath.Join(t.TempDir(), "state"))
	idle, _ := weigh(t, dev, func(err *bufio.Scanner, _ io.Writer) {
		for err.Scan() && !strings.Contains(err.Text(), "serving on") {
		}
		time.Sleep(settling)
	})
	heavy(t, "idle `dev`, resident", idle, floor, "aim 120 MB")
	for _, n := range []int{100, 1000} {
		heavy(t, fmt.Sprintf("control plane with %d supervised jobs, resident", n), supervised(t, n, settling), floor, "heartbeats of 5 s; aim 400 MB")
	}
}

func heavy(t *testing.T, what string, seen, floor int64, note string) {
	t.Helper()
	const mb = 1 << 20
	t.Logf("%s: %d MB (the program's help text: %d MB)", what, seen/mb, floor/mb)
	if *figures {
		fmt.Printf("| %s | %d MB | %d MB | %.1fx | %s |\n", what, seen/mb, floor/mb, float64(seen)/float64(max(floor, 1)), note)
	}
}

// supervised is what the control plane weighs once n jobs train.
func supervised(t *testing.T, n int, settle time.Duration) int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	all := &puppets{ctx: ctx, all: map[events.LeaseID]*puppet{}}
	defer func() { cancel(); all.alive.Wait() }()
	plane := exec.Command(must(os.Executable())(t))
	plane.Env = append(os.Environ(), "BENCH_AS=plane", "BENCH_DIR="+t.TempDir(), fmt.Sprint("BENCH_JOBS=", n))
	size, _ := weigh(t, plane, func(out *bufio.Scanner, _ io.Writer) {
		for out.Scan() {
			var b events.Bootstrap
			switch line := out.Text(); {
			case line == "settled":
				time.Sleep(settle)
				if err := all.err(); err != nil {
					t.Error(err)
				}
				return
			case json.Unmarshal([]byte(line), &b) == nil:
				all.born(b)
			default:
				t.Log(line)
			}
		}
		t.Error("the control plane ended by itself")
	})
	return size
}

// weigh runs a program, has use use it by what it says, and returns its resident
// size afterwards, or its greatest if it has ended by itself. It is killed.
func weigh(t *testing.T, c *exec.Cmd, use func(said *bufio.Scanner, to io.Writer)) (resident, peak int64) {
	t.Helper()
	r, w := must2(t, os.Pipe)
	defer r.Close()
	c.Stdout, c.Stderr = w, w
	if use == nil {
		c.Stdout, c.Stderr = nil, nil
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if use == nil {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		peak = c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		return peak, peak
	}
	said := bufio.NewScanner(r)
	said.Buffer(nil, 1<<20)
	use(said, io.Discard)
	resident = residentSize(t, c.Process.Pid)
	_ = c.Process.Kill()
	_ = c.Wait()
	return resident, c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

func must2(t *testing.T, f func() (*os.File, *os.File, error)) (*os.File, *os.File) {
	t.Helper()
	a, b, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func residentSize(t *testing.T, pid int) int64 {
	t.Helper()
	b := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb := must(strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64))(t)
			return kb << 10
		}
	}
	t.Fatal("no resident size")
	return 0
}

// servePlane is the process that is weighed: it prints the bootstrap of every
// machine bought, one JSON object a line, and "settled" once all jobs train.
func servePlane() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n, _ := strconv.Atoi(os.Getenv("BENCH_JOBS"))
	fail := func(err error) int { fmt.Println("the control plane:", err); return 1 }
	lines := make(chan []byte, 64)
	r, err := open(os.Getenv("BENCH_DIR"), func(b events.Bootstrap) {
		if line, err := json.Marshal(b); err == nil {
			lines <- line
		}
	})
	defer r.stop()
	if err != nil {
		return fail(err)
	}
	var started atomic.Int64
	r.each = func(e events.Event) {
		if _, ok := e.Fact.(events.JobStarted); ok {
			started.Add(1)
		}
	}
	ended := r.run(ctx)
	go func() {
		<-r.plane.Ready()
		for i := range n {
			if _, err := r.submit(ctx, i+1); err != nil {
				fmt.Println("submitting:", err)
			}
		}
		for ; int(started.Load()) < n; time.Sleep(20 * time.Millisecond) {
		}
		lines <- []byte("settled")
	}()
	for {
		select {
		case line := <-lines:
			_, _ = os.Stdout.Write(append(line, '\n'))
		case err := <-ended:
			if err != nil {
				return fail(err)
			}
			return 0
		}
	}
}
