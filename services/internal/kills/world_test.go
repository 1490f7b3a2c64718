package kills

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/dev"
	"github.com/spotferry/spotferry/services/internal/fleet"
)

// options of one run.
type options struct {
	seed     uint64
	kills    int
	layouts  []string
	parallel int // jobs at a time
}

const (
	divide = 10 // of the default timers
	pace   = 100 * time.Millisecond
	zones  = 12 // to buy in: one in which a machine died is left alone for a while

	planePID = "plane.json" // the control plane's process
	planeLog = "plane.log"
)

// world is one run.
type world struct {
	ground
	t      testing.TB
	opt    options
	exe    string
	rec    *recorder
	store  *dir.Store
	began  time.Time
	ctx    context.Context
	cancel context.CancelFunc
	parts  sync.WaitGroup
	prove  chan commit
	proofs sync.WaitGroup

	dealtTo map[events.JobID][]struck // once it is judged

	mu     sync.Mutex
	wrong  []string
	drills []drilled // warnings that machines were asked to be given
	starts int       // of the control plane
	dealt  int
	redrew int
}

func newWorld(t testing.TB, o options, scratch string) *world {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ground: ground{scratch}, t: t, opt: o, exe: exe, began: time.Now(), prove: make(chan commit, 4096)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	t.Cleanup(w.close)
	for _, d := range []string{w.evidence(""), w.state(), w.path("jobs"), w.path("tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// start starts the control plane and what records beside it.
func (w *world) start() {
	ready := make(chan struct{})
	w.parts.Go(func() { w.keepPlane(ready) })
	select {
	case <-ready:
	case <-time.After(time.Minute):
		w.t.Fatalf("the control plane does not come up: %s", tail(w.evidence(planeLog), 2000))
	}
	nc, err := w.connect()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.store, err = dir.Open(dir.Config{Path: filepath.Join(w.state(), "store")}); err != nil {
		w.t.Fatal(err)
	}
	w.rec = newRecorder(nc, w.commits)
	w.parts.Go(func() { w.rec.run(w.ctx) })
	for range 2 {
		w.parts.Go(w.proveCommits)
	}
}

// connect opens a connection with all the rights of a service.
func (w *world) connect() (*natsbus.Log, error) {
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: filepath.Join(w.state(), "operator"), Entropy: rand.Reader, Now: time.Now})
	if err != nil {
		return nil, err
	}
	creds, err := op.Service("recorder")
	if err != nil {
		return nil, err
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{URLFile: natsbus.URLFile(filepath.Join(w.state(), "bus")), Credentials: creds, Name: "recorder", Log: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(nc.Close)
	return natsbus.New(nc, natsbus.Options{})
}

// submit submits a layout's job.
func (w *world) submit(s shape, id events.JobID) error {
	if err := os.MkdirAll(w.job(string(id), "."), 0o700); err != nil {
		return err
	}
	if err := put(w.job(string(id), jobFile), work{Layout: s.Name, Seed: w.opt.seed, Pace: pace}); err != nil {
		return err
	}
	run := fmt.Sprintf("%s trainer %s\n", w.exe, w.job(string(id), jobFile))
	if len(s.Name)%2 == 0 {
		run = "exec " + run // some leave a shell around the trainer, some do not
	}
	spec := events.JobSpec{Name: s.Name, Setup: w.exe + " setup\n", Run: run}
	spec.Policy.Budget = 1_000_000_000
	spec.Policy.Spot.Mode = events.OnDemandOnly
	spec.Policy.Checkpoint = events.CheckpointPolicy{Framework: s.Adapter, Marker: s.Marker}
	spec.Resources.Accelerators = []events.Accelerator{{Model: "V100", Count: 1}}
	for end := time.Now().Add(time.Minute); ; {
		err := w.ask(console.DoSubmit, console.SubmitRequest{ID: id, Spec: spec})
		if err == nil || time.Now().After(end) || !w.pause(200*time.Millisecond) {
			return err
		}
	}
}

func (w *world) ask(v console.Verb, request any) error {
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	s, err := dev.Open(ctx, w.state(), false)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = console.Ask[console.Job](ctx, s.Client, v, request)
	return err
}

// pause waits and reports whether the run goes on.
func (w *world) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.ctx.Done():
		return false
	case <-t.C:
		return w.ctx.Err() == nil
	}
}

// until waits for a condition, and reports whether it came.
func (w *world) until(limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); !holds(); {
		if time.Now().After(end) || !w.pause(20*time.Millisecond) {
			return holds()
		}
	}
	return true
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	w.wrong = append(w.wrong, text)
	fmt.Printf("%7.1fs  WRONG: %.400s\n", time.Since(w.began).Seconds(), text)
}

func (w *world) note(format string, args ...any) {
	fmt.Printf("%7.1fs  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// close ends everything of the run, machines included.
func (w *world) close() {
	w.cancel()
	w.parts.Wait()
	if w.store != nil {
		_ = w.store.Close()
	}
	for range 200 {
		left := w.left()
		if len(left) == 0 {
			return
		}
		for _, p := range left {
			p.Kill()
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Errorf("processes are left: %v", w.left())
}

// left are the processes that run from the run's directory, or in it.
func (w *world) left() (out []fleet.Proc) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, e := range entries {
		for _, link := range []string{"exe", "cwd"} {
			to, err := os.Readlink(filepath.Join(e, link))
			var pid int
			if _, serr := fmt.Sscan(filepath.Base(e), &pid); err == nil && serr == nil && strings.HasPrefix(to, w.dir+"/") {
				if p := procOf(pid); p.Alive() {
					out = append(out, p)
					break
				}
			}
		}
	}
	return out
}

func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-n):])
}
