package simtest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

const (
	org   = events.OrgID("acme")
	scale = 4 // market seconds in a second
)

// options are what a run is made of besides its seed.
type options struct {
	hours   float64
	jobs    int
	trouble trouble
	log     *zap.Logger
	trace   bool // print what happens, as it happens
}

// trouble says how much of what; the zero value is a quiet world. Probabilities
// are of one call, durations are mean times between.
type trouble struct {
	seller    float64       // a call goes wrong
	request   float64       // an agent's request goes wrong
	append    float64       // an append goes wrong on its way
	ack       float64       // an acknowledgement is lost: the event comes twice
	noBoot    float64       // a machine never boots
	object    float64       // an operation of the checkpoint store goes wrong
	reclaim   time.Duration // of one machine
	partition time.Duration // of one machine
	trainer   time.Duration // a trainer's death on one machine
	storm     time.Duration
	crash     time.Duration // of the control plane
	bus       time.Duration // the bus restarts
	closed    time.Duration // the seller answers nothing
	lies      time.Duration // the seller's feed is absurd about a pool
	rot       time.Duration // an object of the checkpoint store is damaged
	cancels   bool
}

const never = 1000000 * time.Hour

// rough is the world of TestSeeds.
var rough = trouble{
	seller: 0.08, request: 0.01, append: 0.01, ack: 0.01, noBoot: 0.04, object: 0.01,
	reclaim: 35 * time.Minute, partition: 35 * time.Minute, trainer: 2 * time.Hour, storm: 90 * time.Minute,
	crash: 12 * time.Minute, bus: 70 * time.Minute, closed: 100 * time.Minute, lies: 40 * time.Minute, rot: 50 * time.Minute, cancels: true,
}

// quiet is a world in which nothing goes wrong.
var quiet = trouble{reclaim: never, partition: never, trainer: never, storm: never, crash: never, bus: never, closed: never, lies: never, rot: never}

// world is everything of one run.
type world struct {
	t      testing.TB
	opt    options
	chance chance
	dir    string
	log    *zap.Logger
	hits   *hits
	ctx    context.Context
	cancel context.CancelFunc
	alive  sync.WaitGroup // everything that ends with ctx or with its machine
	began  time.Time
	calmAt time.Time
	clock  trace.Clock
	timers events.Timers

	market  *trace.Model
	fake    *providertest.Fake
	journal *journal
	foreign []events.InstanceID
	shut    atomic.Bool // the seller answers nothing
	store   *mem.Store
	side    sideLog
	jobs    map[events.JobID]*job
	order   []events.JobID

	mu       sync.Mutex
	bus      *natsbus.Embedded
	life     *life
	machines map[events.InstanceID]*machine
	armed    map[string]time.Time // places where the control plane is to die, and until when
	outages  []window // the bus or the control plane was away
	wrong    []string
	notes    []string
}

// newWorld is called inside the bubble.
func newWorld(t testing.TB, seed uint64, dir string, h *hits, o options) *world {
	w := &world{
		t: t, opt: o, chance: chance(seed), dir: dir, log: o.log, hits: h, began: time.Now(), timers: events.DefaultTimers(),
		jobs: map[events.JobID]*job{}, machines: map[events.InstanceID]*machine{}, armed: map[string]time.Time{},
	}
	if w.log == nil {
		w.log = zap.NewNop()
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.clock = trace.NewClock(w.began, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), scale)
	w.calmAt = w.began.Add(w.hours(0.62))
	w.store = mem.New(mem.Config{Plan: w.objects})
	w.newSeller()
	w.journal = &journal{Provider: w.fake, w: w}
	w.drawJobs()
	return w
}

func (w *world) hours(share float64) time.Duration {
	return time.Duration(share * w.opt.hours * float64(time.Hour)).Truncate(time.Second)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) now() events.Moment { return w.clock.Moment(time.Now()) }

// chaotic says whether trouble is still made.
func (w *world) chaotic() bool { return time.Now().Before(w.calmAt) }

func (w *world) current() *natsbus.Embedded {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bus
}

func (w *world) machine(id events.InstanceID) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[id]
}

// fail notes a violation.
func (w *world) fail(format string, args ...any) {
	text := fmt.Sprintf("%s %s", w.stamp(), fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, text)
}

// trace notes what happens to the world, for the report of a failure.
func (w *world) trace(format string, args ...any) {
	text := fmt.Sprintf("%s %s", w.stamp(), fmt.Sprintf(format, args...))
	if w.opt.trace {
		fmt.Println(text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, text)
}

// stamp is the time since the beginning.
func (w *world) stamp() string {
	d := time.Since(w.began)
	return fmt.Sprintf("%02d:%02d:%06.3f", int(d.Hours()), int(d.Minutes())%60, (d % time.Minute).Seconds())
}

// bootBus starts the bus from its directory.
func (w *world) bootBus() {
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: w.path("operator"), Entropy: w.chance.entropy("keys"), Now: time.Now})
	if err != nil {
		w.t.Fatal(err)
	}
	bus, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: w.path("bus"), Operator: op, Log: w.log.Named("server")})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bus = bus
}

func (w *world) haltBus() {
	w.mu.Lock()
	bus := w.bus
	w.bus = nil
	w.mu.Unlock()
	bus.Shutdown()
}

// crashBus leaves the directory as it is at this moment, as a kill would: what the
// server still writes when it stops goes elsewhere.
func (w *world) crashBus() {
	image, grave := w.path("bus-image"), w.path(fmt.Sprint("bus-grave-", time.Now().UnixNano()))
	if err := os.CopyFS(image, os.DirFS(w.path("bus"))); err != nil {
		w.fail("the bus's directory cannot be copied: %v", err)
	}
	w.haltBus()
	for _, move := range [][2]string{{w.path("bus"), grave}, {image, w.path("bus")}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			w.fail("the bus's directory cannot be replaced: %v", err)
		}
	}
	_ = os.RemoveAll(grave)
}

// busRestarts take the bus away and bring it back from the disk.
func (w *world) busRestarts() {
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.bus, "bus", n)); n++ {
		turn("bus")
		if !w.chaotic() {
			return
		}
		from := time.Now()
		if w.chance.hits(0.5, "bus dies", n) {
			w.hits.add("bus dies")
			w.trace("the bus dies")
			w.crashBus()
		} else {
			w.hits.add("bus restarts")
			w.trace("the bus stops")
			w.haltBus()
		}
		time.Sleep(w.chance.between(time.Second, 2*time.Minute, "bus away", n))
		turn("bus-back")
		w.bootBus()
		w.trace("the bus is back")
		w.outage(from)
	}
}

func (w *world) outage(from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outages = append(w.outages, window{from, time.Now()})
}

// objects draws what happens to an operation of the checkpoint store.
func (w *world) objects(op mem.Op) mem.Fault {
	f := mem.Fault{}
	if op.Verb == mem.Put {
		f.Delay = w.chance.between(200*time.Millisecond, 1500*time.Millisecond, "put", op.Name)
	}
	if !w.chaotic() || !w.chance.hits(w.opt.trouble.object, "object", op.Verb, op.Name, time.Now().UnixNano()) {
		return f
	}
	about := []any{"object fault", op.Verb, op.Name}
	switch {
	case op.Verb == mem.Put && w.chance.hits(0.4, about...):
		w.hits.add("store: answer lost after a put")
		f.After = errLost
	case op.Verb == mem.Put:
		w.hits.add("store: put refused")
		f.Before = errLost
	case op.Verb == mem.Get:
		w.hits.add("store: get fails")
		f.Before = errLost
	}
	return f
}

// rot damages an object of a job's newest checkpoint, once a job: an older one is
// still good, and the job has to find that.
func (w *world) rot() {
	done := map[events.JobID]bool{}
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.rot, "rot", n)); n++ {
		turn("rot")
		if !w.chaotic() {
			return
		}
		id := w.order[w.chance.below(len(w.order), "rotten job", n)]
		name := w.newest(id, w.chance.hits(0.3, "rotten manifest", n))
		if name == "" || done[id] {
			continue
		}
		done[id] = true
		w.hits.add("store: object damaged")
		w.trace("of job %s object %s is damaged", id, name)
		w.store.Edit(name, mem.Flipped(w.chance.below(1000, "bit", n)))
	}
}

// newest names an object of a job's newest checkpoint, its manifest or its
// weights; "" if there are not two older ones.
func (w *world) newest(id events.JobID, manifest bool) string {
	prefix := checkpoint.Prefix(string(org), string(id))
	names := slices.DeleteFunc(w.store.Names(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	if len(names) < 3 {
		return ""
	}
	name := slices.Max(names)
	if manifest {
		return name
	}
	r, err := w.store.Clone(mem.Config{}).Get(w.ctx, name)
	if err != nil {
		return ""
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return ""
	}
	m, err := checkpoint.Decode(data)
	if err != nil {
		return ""
	}
	for _, f := range m.Files {
		if strings.HasSuffix(f.Path, weightsName) {
			return fmt.Sprintf("v1/%s/files/%s/%s", org, f.Hash[:2], f.Hash)
		}
	}
	return ""
}

// run lets the world go on for its hours: trouble, then calm, then judgement.
func (w *world) run() *verdicts {
	w.bootBus()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); w.planes(stop) }()
	for _, part := range []func(){w.clockwork, w.prices, w.shortages, w.storms, w.busRestarts, w.crashes, w.closures, w.lies, w.rot} {
		w.alive.Go(part)
	}
	for _, id := range w.order {
		w.alive.Go(func() { w.submit(w.jobs[id]) })
	}
	time.Sleep(time.Until(w.began.Add(w.hours(1))))
	turn("end")
	v := w.judge()
	close(stop)
	<-stopped
	w.cancel()
	w.alive.Wait()
	w.haltBus()
	return v
}

func (w *world) clockwork() { _ = w.fake.Run(w.ctx) }

// crashes draw where the control plane dies next: one place after the other, from
// where the seed begins, so that every place has its turn within a few seeds. A
// place that is not reached in time gives way.
func (w *world) crashes() {
	names := crashPoints()
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.crash, "crash", n)); n++ {
		turn("crashes")
		if !w.chaotic() {
			return
		}
		w.arm(names[(int(w.chance)*perSeed+n)%len(names)])
	}
}

// perSeed is about how many places a seed gets to.
const perSeed = 17

func (w *world) arm(name string) {
	if name != anywhere {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.armed[name] = time.Now().Add(45 * time.Minute)
		return
	}
	w.mu.Lock()
	l := w.life
	w.mu.Unlock()
	if l != nil {
		w.hits.add("crash: " + anywhere)
		w.trace("control plane %d dies", l.n)
		l.die()
	}
}

// due takes the crash that is drawn for a place, once.
func (w *world) due(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, armed := w.armed[name]
	if !armed || !w.chaotic() {
		return false
	}
	delete(w.armed, name)
	return time.Now().Before(until)
}

// hits counts what was met, over all seeds of a test.
type hits struct {
	mu sync.Mutex
	n  map[string]int
}

func newHits() *hits { return &hits{n: map[string]int{}} }

func (h *hits) add(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n[what]++
}

func (h *hits) get(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n[what]
}

func (h *hits) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, k := range slices.Sorted(maps.Keys(h.n)) {
		out = append(out, fmt.Sprintf("%6d  %s", h.n[k], k))
	}
	return out
}
