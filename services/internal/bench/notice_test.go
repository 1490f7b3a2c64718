package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// noticePeriod is how often an agent looks for a notice: its own default, and
// half of the most that it accepts.
const noticePeriod = 500 * time.Millisecond

// TestMain makes this test's program the trainer, too.
func TestMain(m *testing.M) {
	switch os.Getenv("BENCH_AS") {
	case "trainer":
		trainer(os.Getenv("BENCH_HEARD"))
		return
	case "plane":
		os.Exit(servePlane())
	}
	os.Exit(m.Run())
}

// trainer writes down when it hears a signal, by the machine's monotonic clock.
func trainer(path string) {
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, syscall.SIGUSR1)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteString("up\n")
	for range heard {
		_, _ = fmt.Fprintln(f, monotonic())
	}
}

func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// TestNoticeToSignal takes the time from the first answer of the metadata service
// that carries a notice to the signal in the handler of a real trainer, which the
// agent runs as its child. Its floor is the same without an agent: an answer of
// the same service, a kill, and the handler.
func TestNoticeToSignal(t *testing.T) {
	agents, each := pick(1, 8), pick(3, 30)
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for range agents {
		m := newMachine(t)
		wg.Go(func() {
			for range each {
				d, err := m.warn(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	floor := over(bare(t, len(took)))
	seen := over(took)
	t.Logf("from the first answer that carries the notice to the signal at the trainer: %s; without an agent: %s; looked for every %s", seen, floor, noticePeriod)
	note := fmt.Sprintf("%d notices, looked for every %s; aim 50 ms", seen.n, noticePeriod)
	figure(t, "first answer with the notice to the signal at the trainer, p50", seen.p50, floor.p50, note)
	figure(t, "the same, p99", seen.p99, floor.p99, note)
	if seen.p99 > time.Second {
		t.Errorf("p99 is %s", seen.p99)
	}
}

// metadata is a seller's metadata service with a notice that comes and goes.
type metadata struct {
	mu     sync.Mutex
	warned bool
	first  int64 // when the first answer with the notice was given; 0: not yet
	calm   chan struct{}
}

func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/latest/api/token":
		_, _ = w.Write([]byte("token"))
	case "/latest/meta-data/spot/instance-action":
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.warned {
			if m.calm != nil {
				close(m.calm)
				m.calm = nil
			}
			http.NotFound(w, r)
			return
		}
		if m.first == 0 {
			m.first = monotonic()
		}
		fmt.Fprintf(w, `{"action": "terminate", "time": %q}`, time.Now().Add(2*time.Minute).UTC().Format(time.RFC3339))
	default:
		http.NotFound(w, r)
	}
}

// set begins or ends a notice; the channel is closed at the first answer without one.
func (m *metadata) set(warned bool) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.warned, m.first, m.calm = warned, 0, make(chan struct{})
	return m.calm
}

func (m *metadata) answered() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first
}

// machine is an agent with a real trainer and a metadata service.
type machine struct {
	meta  *metadata
	heard string // file
	n     int
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{meta: &metadata{}, heard: filepath.Join(dir, "heard")}
	server := httptest.NewServer(m.meta)
	processes := must(agent.NewLinux())(t)
	exe := must(os.Executable())(t)
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	gw := agenttest.NewGateway(events.JoinReply{
		Spec: events.JobSpec{
			Run:    "exec " + exe,
			Envs:   map[string]string{"BENCH_AS": "trainer", "BENCH_HEARD": m.heard},
			Policy: events.Policy{Checkpoint: events.CheckpointPolicy{Signal: "SIGUSR1"}},
		},
		Store: events.StoreGrant{Kind: "dir", Path: store, Tenant: "bench"},
	}, nil)
	imds := must(agent.NewIMDS(server.URL))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Config{
			Bootstrap: events.Bootstrap{Job: "01bench", Epoch: 1, Lease: "01bench-1-1", Timers: events.DefaultTimers()},
			Dir:       filepath.Join(dir, "machine"), Control: gw, Metadata: imds, Processes: processes, Env: os.Environ(), NoticeEvery: noticePeriod,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		imds.Close()
		server.Close()
	})
	gw.Order(events.OrderStart, "start-1")
	for deadline := time.Now().Add(time.Minute); len(m.lines()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the trainer does not come up")
		}
	}
	m.n = 1
	return m
}

func (m *machine) lines() []string {
	b, _ := os.ReadFile(m.heard)
	return strings.Split(string(bytes.TrimSuffix(b, []byte("\n"))), "\n")[:bytes.Count(b, []byte("\n"))]
}

// warn gives one notice, takes it back once it was heard, and returns how long that took.
func (m *machine) warn(ctx context.Context) (time.Duration, error) {
	<-m.meta.set(false)
	m.meta.set(true)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		lines := m.lines()
		if len(lines) > m.n {
			at, err := strconv.ParseInt(lines[m.n], 10, 64)
			m.n = len(lines)
			return time.Duration(at - m.meta.answered()), err
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return 0, fmt.Errorf("notice %d was not heard", m.n)
		}
	}
}

// bare is the same without an agent: whoever gets the answer kills at once.
func bare(t *testing.T, n int) (took []time.Duration) {
	t.Helper()
	meta := &metadata{}
	server := httptest.NewServer(meta)
	defer server.Close()
	heard := filepath.Join(t.TempDir(), "heard")
	exe := must(os.Executable())(t)
	child := must(os.StartProcess(exe, []string{exe}, &os.ProcAttr{Env: append(os.Environ(), "BENCH_AS=trainer", "BENCH_HEARD="+heard)}))(t)
	defer func() { _ = child.Kill(); _, _ = child.Wait() }()
	m := &machine{heard: heard}
	wait := func(lines int) []string {
		for {
			if l := m.lines(); len(l) >= lines {
				return l
			}
			time.Sleep(time.Millisecond)
		}
	}
	wait(1)
	for i := range n {
		meta.set(true)
		resp := must(http.Get(server.URL + "/latest/meta-data/spot/instance-action"))(t)
		_ = resp.Body.Close()
		if err := child.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		at := must(strconv.ParseInt(wait(i + 2)[i+1], 10, 64))(t)
		took = append(took, time.Duration(at-meta.answered()))
	}
	return took
}
