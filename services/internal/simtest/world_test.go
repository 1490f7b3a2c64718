package simtest

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

const (
	org   = events.OrgID("acme")
	scale = 4 // market seconds in a second
)

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
	far     bool        // the seller is a program of its own
	store   *shelf
	side    sideLog
	flaw    func(*trainer)                 // of every trainer that has restored; nil: none
	asked   map[string]int                 // calls of the seller, by what they are about
	wished  map[events.LeaseID][]time.Time // launches that the control plane wanted
	jobs    map[events.JobID]*job
	order   []events.JobID

	mu       sync.Mutex
	bus      *natsbus.Embedded
	lives    []*life // by replica
	machines map[events.InstanceID]*machine
	armed    map[string]bool       // places where the control plane is to die
	outages  []window              // the bus, the control plane or the seller was away
	lied     []window              // the feed was absurd about a pool
	damaged  map[events.JobID]bool // an object of a checkpoint was
	ruined   map[events.JobID]bool // every checkpoint was
	spoiled  []window              // operations of the store that went wrong
	forgot   []time.Time           // the bus lost what it held in memory
	wrong    []string
	notes    []string
}

// newWorld is called inside the bubble.
func newWorld(t testing.TB, seed uint64, dir string, h *hits, o options) *world {
	w := &world{
		t: t, opt: o, chance: chance(seed), dir: dir, log: o.log, hits: h, began: time.Now(), timers: events.DefaultTimers(),
		jobs: map[events.JobID]*job{}, machines: map[events.InstanceID]*machine{}, armed: map[string]bool{}, asked: map[string]int{}, wished: map[events.LeaseID][]time.Time{}, damaged: map[events.JobID]bool{}, ruined: map[events.JobID]bool{},
	}
	if w.log == nil {
		w.log = zap.NewNop()
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.clock = trace.NewClock(w.began, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), scale)
	w.calmAt = w.began.Add(w.hours(0.62))
	w.far = uint64(w.chance)%2 == 0
	w.lives = make([]*life, max(o.replicas, 1))
	w.store = w.newShelf(w.objects)
	if o.trouble.everywhere {
		for _, name := range crashPoints() {
			w.armed[name] = name != anywhere
		}
	}
	w.newSeller()
	w.journal = &journal{Provider: w.fake, w: w}
	w.drawJobs()
	if o.plant != nil {
		o.plant(w)
	}
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
func (w *world) stamp() string { return w.stampOf(time.Now()) }

func (w *world) stampOf(at time.Time) string {
	d := at.Sub(w.began)
	return fmt.Sprintf("%02d:%02d:%06.3f", int(d.Hours()), int(d.Minutes())%60, (d % time.Minute).Seconds())
}

// run lets the world go on for its hours: trouble, then calm, then judgement.
func (w *world) run() *verdicts {
	w.bootBus()
	if w.far {
		w.hits.add("seller behind the bus")
		w.alive.Go(w.sells)
	}
	halt := w.startPlanes()
	for _, part := range []func(){w.clockwork, w.prices, w.shortages, w.storms, w.busRestarts, w.crashes, w.closures, w.lies, w.rot, w.ruin} {
		w.alive.Go(part)
	}
	for _, id := range w.order {
		w.alive.Go(func() { w.submit(w.jobs[id]) })
	}
	time.Sleep(time.Until(w.began.Add(w.hours(1))))
	turn("end")
	v := w.judge()
	w.bills(v)
	before := w.answers("before")
	halt()
	halt = w.startPlanes()
	if after := w.answers("after"); after != before && v.closed {
		v.wrong = append(v.wrong, fmt.Sprintf("I-19: a control plane that was started anew answers otherwise:\n%s\n%s", before, after))
	}
	halt()
	w.cancel()
	w.alive.Wait()
	w.haltBus()
	return v
}

// startPlanes keeps every replica running until the returned function is called.
func (w *world) startPlanes() (halt func()) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	for k := range max(w.opt.replicas, 1) {
		running.Go(func() { w.planes(k, stop) })
	}
	return func() { close(stop); running.Wait() }
}

func (w *world) clockwork() { _ = w.fake.Run(w.ctx) }
