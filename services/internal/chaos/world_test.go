package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/fleet"
	"github.com/spotferry/spotferry/services/internal/installation"
)

// options of one run.
type options struct {
	seed     uint64
	kills    int
	replicas int
	hunted   int           // jobs on machines that are taken away, at any time
	steps    int           // of each of those
	calm     int           // steps of each job on a machine that is not, one at a time
	limit    time.Duration // for all of it
	faults   bool          // points, a stopped agent, full disks, a wrong clock, nonsense
	separate bool          // every program from its own binary
}

const (
	scale  = 24 // market seconds in a second: what one slow failover teaches must not make every pool look hopeless
	divide = 10 // of the default timers
)

// world is one run: the programs, the jobs, and what we did to them.
type world struct {
	t      testing.TB
	opt    options
	dir    string
	bin    string
	rand   *mrand.Rand // of the one goroutine that strikes
	fleet  *fleet.Fleet
	rec    *recorder
	log    *evidence
	began  time.Time
	disks  map[string]string // small disks by what is on them
	skip   []string          // what could not be done here, and why
	ctx    context.Context
	cancel context.CancelFunc
	parts  sync.WaitGroup

	mu     sync.Mutex
	downed map[*fleet.Program]time.Duration // killed by us: how long it is to stay away
	wrong  []string
	quota  int // jobs submitted so far
	supply bool
	drills int
	room   time.Time // when every disk has had room for a while; zero: always
	healed bool      // every program is to be started again at once
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{
		t: t, opt: o, dir: t.TempDir(), rand: mrand.New(mrand.NewPCG(o.seed, 1)), began: time.Now(),
		downed: map[*fleet.Program]time.Duration{}, disks: map[string]string{}, supply: true,
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	t.Cleanup(w.close)
	w.build()
	w.began = time.Now() // building is not counted
	w.start()
	return w
}

// build makes the programs: the one binary, and in a long run each on its own.
func (w *world) build() {
	w.bin = filepath.Join(w.dir, "bin")
	packages := []string{"../../spotferry"}
	if w.opt.separate {
		for _, name := range append(fleet.Services(), "bus", "provider-local", "agent") {
			packages = append(packages, "../../"+name)
		}
	}
	if err := os.Mkdir(w.bin, 0o755); err != nil {
		w.t.Fatal(err)
	}
	c := exec.CommandContext(w.ctx, "go", append([]string{"build", "-o", w.bin + "/"}, packages...)...)
	if out, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("building the programs: %v: %s", err, out)
	}
}

// start makes the installation, puts small disks under it, and starts everything.
func (w *world) start() {
	home := filepath.Join(w.dir, "fleet")
	wish := installation.Wish{Scale: scale, Divide: divide, Market: trace.Spec{Kind: "demo", Seed: w.opt.seed}}
	if w.opt.faults {
		if _, err := installation.Init(installation.Config{Dir: home, Wish: wish}); err != nil {
			w.t.Fatal(err)
		}
		w.mountDisks(home)
	}
	cfg := fleet.Config{
		Dir: home, Spotferry: filepath.Join(w.bin, "spotferry"), Replicas: w.opt.replicas, Wish: wish,
		Evidence: filepath.Join(w.dir, "evidence"), Args: map[string][]string{},
	}
	if w.opt.separate {
		cfg.Binaries = w.bin
		cfg.Args["provider-local"] = []string{"--agent-command", filepath.Join(w.bin, "agent")}
	}
	if w.opt.faults {
		crash := filepath.Join(w.dir, "points")
		if err := os.MkdirAll(filepath.Join(crash, "hit"), 0o700); err != nil {
			w.t.Fatal(err)
		}
		for _, name := range fleet.Services() {
			cfg.Args[name] = append(cfg.Args[name], "--crash-dir", crash)
		}
		cfg.Args["ledger"] = append(cfg.Args["ledger"], "--clock-skew", "-1h") // what it writes is not decided by its clock
	}
	var err error
	if w.fleet, err = fleet.Start(w.ctx, cfg); err != nil {
		w.t.Fatal(err)
	}
	if w.log, err = newEvidence(w.fleet.Evidence()); err != nil {
		w.t.Fatal(err)
	}
	w.listen()
	for _, p := range w.fleet.Programs() {
		w.parts.Go(func() { w.supervise(p) })
	}
}

// connect opens a connection with all the rights of a service.
func (w *world) connect(name string) (*natsbus.Log, error) {
	i := w.fleet.Installation()
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: i.OperatorDir(), Entropy: rand.Reader, Now: time.Now})
	if err != nil {
		return nil, err
	}
	creds, err := op.Service(name)
	if err != nil {
		return nil, err
	}
	nc, err := natsbus.Connect(i.Reach(natsbus.ConnConfig{Credentials: creds, Name: name, Log: zap.NewNop()}))
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(nc.Close)
	return natsbus.New(nc, natsbus.Options{})
}

func (w *world) listen() {
	log, err := w.connect("recorder")
	if err == nil {
		w.rec, err = newRecorder(log.JetStream().Conn())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.parts.Go(func() { w.rec.run(w.ctx) })
}

// supervise starts a program again whenever it has died, and notes one that died
// by itself.
func (w *world) supervise(p *fleet.Program) {
	for w.pause(10 * time.Millisecond) {
		if p.Running() {
			continue
		}
		down, ours := w.takeDown(p)
		if !ours {
			down = 200 * time.Millisecond
			if point := w.log.hit(w.dir, p, w.rec.open()); point == "" && !w.crowded() {
				w.fail("%s, pid %d, ended by itself: %s", p, p.Pid(), tail(p.Log(), 1500))
			}
		}
		if !w.pause(down) {
			return
		}
		for p.Begin() != nil && w.pause(100*time.Millisecond) {
			continue
		}
	}
}

// crowded says whether a disk is full or was a moment ago: a program that starts on
// one says so and ends, and whoever keeps it starts it again.
func (w *world) crowded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.room)
}

func (w *world) takeDown(p *fleet.Program) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	down, ours := w.downed[p]
	delete(w.downed, p)
	if w.healed {
		down = 0
	}
	return down, ours
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
	if len(w.wrong) < 50 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

func (w *world) close() {
	w.cancel()
	w.parts.Wait()
	if w.fleet != nil {
		w.fleet.Close()
	}
	for _, disk := range w.disks {
		_ = unix.Unmount(disk, unix.MNT_DETACH)
	}
}

// mountDisks puts a small disk under what each kind of program writes to. Without
// the right to mount there are none, and that is said.
func (w *world) mountDisks(home string) {
	for name, size := range map[string]string{"bus": "384m", "store": "512m", "seller": "384m"} {
		at, aside := filepath.Join(home, name), filepath.Join(w.dir, "aside-"+name)
		err := os.MkdirAll(at, 0o700)
		if err == nil {
			err = os.Rename(at, aside)
		}
		if err == nil {
			err = os.Mkdir(at, 0o700)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if err = unix.Mount("tmpfs", at, "tmpfs", 0, "mode=700,size="+size); err == nil {
			w.disks[name] = at
			err = os.CopyFS(at, os.DirFS(aside))
		} else {
			w.skip = append(w.skip, fmt.Sprintf("a full disk under the %s: a small one cannot be mounted here: %v", name, err))
			err = errors.Join(os.Remove(at), os.Rename(aside, at))
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-n):])
}
