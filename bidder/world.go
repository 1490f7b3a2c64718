package bidder

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// world is what a service remembers of the log: for speed only, never for
// truth. Whoever is about to act reads the aggregate anew.
type world struct {
	mu       sync.Mutex
	jobs     map[events.JobID]job
	leases   map[events.LeaseID]lease
	byJob    map[events.JobID][]events.LeaseID
	open     map[events.LeaseID]bool
	machines map[events.InstanceID]events.LeaseID
	pools    cooling
	restarts samples // control time of moves
	acquires samples // control time to acquire on-demand
	changed  map[events.JobID]chan struct{}
}

func newWorld(settle time.Duration, scale int64) *world {
	return &world{
		jobs: map[events.JobID]job{}, leases: map[events.LeaseID]lease{}, byJob: map[events.JobID][]events.LeaseID{},
		open: map[events.LeaseID]bool{}, machines: map[events.InstanceID]events.LeaseID{},
		pools: newCooling(settle, scale), changed: map[events.JobID]chan struct{}{},
	}
}

// apply folds an event, in any order across aggregates and any number of times.
func (w *world) apply(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Aggregate.Kind {
	case "job":
		id := events.JobID(e.Aggregate.ID)
		before := w.jobs[id]
		w.jobs[id] = before.apply(e)
		if f, ok := e.Fact.(events.JobFailedOver); ok && w.jobs[id].newest.ID == e.ID && before.newest.ID != e.ID {
			w.restarts.add(lostBy(f.Record))
		}
		w.wake(id)
	case "lease":
		w.applyLease(e)
	case "ops":
		w.wakeAll()
	}
}

// lostBy is the time that a move cost the job: from the first sign to the first
// step, without the wait for capacity, which is no property of moves, and with the
// work that had to be done again.
func lostBy(f events.Failover) time.Duration {
	d := f.Ended.Sub(f.Began) + time.Duration(f.LostMS)*time.Millisecond
	for _, p := range f.Phases {
		if p.Name == "wait" {
			d -= time.Duration(p.MS) * time.Millisecond
		}
	}
	return d
}

func (w *world) applyLease(e events.Event) {
	id := events.LeaseID(e.Aggregate.ID)
	before, known := w.leases[id]
	after := before.apply(e)
	if after.newest.Sequence == before.newest.Sequence {
		return
	}
	w.leases[id] = after
	if !known {
		w.byJob[id.Job()] = append(w.byJob[id.Job()], id)
	}
	delete(w.open, id)
	if after.open() {
		w.open[id] = true
	}
	if after.instance != "" {
		w.machines[after.instance] = id
	}
	w.learn(before, after, e)
	w.wake(id.Job())
}

// learn takes what a lease tells about its pool.
func (w *world) learn(before, l lease, e events.Event) {
	pool := l.intent.Offer.Pool
	switch f := e.Fact.(type) {
	case events.LeaseRefused:
		w.pools.refused(pool, provider.ParseKind(f.Kind), e.Time, l.id)
	case events.LeaseUnknown:
		w.pools.refused(pool, provider.UnknownOutcome, e.Time, l.id)
	case events.LeaseTerminating:
		if pending(before) {
			w.pools.refused(pool, provider.Invalid, e.Time, l.id) // not what was quoted
		}
	case events.LeaseLaunched:
		w.pools.pools.Launched(pool)
		if pool.Capacity == events.OnDemand && !f.Found {
			w.acquires.add(time.Duration(f.TookMS) * time.Millisecond)
		}
	case events.LeaseEnded:
		if f.EndedBy == "seller" {
			w.pools.pools.Reclaimed(l.id.Job(), f.Pool, e.Time, jitter(l.id))
		}
	}
}

// wake tells whoever waits for this job that something changed.
func (w *world) wake(id events.JobID) {
	if c, ok := w.changed[id]; ok {
		close(c)
		delete(w.changed, id)
	}
}

// wakeAll tells whoever waits for any job: what may be bought has changed.
func (w *world) wakeAll() {
	for id := range w.changed {
		w.wake(id)
	}
}

// change is closed when the next event of this job or its leases is folded.
func (w *world) change(id events.JobID) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.changed[id]
	if !ok {
		c = make(chan struct{})
		w.changed[id] = c
	}
	return c
}

func (w *world) job(id events.JobID) (job, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j, ok := w.jobs[id]
	return j, ok
}

// jobList returns the jobs that are not closed, by id.
func (w *world) jobList() []job {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []job
	for _, j := range w.jobs {
		if !j.closed {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b job) int { return cmp.Compare(a.id, b.id) })
	return out
}

// orgs returns every organisation that has jobs, in order.
func (w *world) orgs() []events.OrgID {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[events.OrgID]bool{}
	for _, j := range w.jobs {
		seen[j.org] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// leaseOf returns the lease that an instance belongs to, or false.
func (w *world) leaseOf(id events.InstanceID) (lease, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, ok := w.machines[id]
	return w.leases[l], ok
}

func (w *world) lease(id events.LeaseID) lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leases[id]
}

// leasesOf returns a job's leases, by id.
func (w *world) leasesOf(id events.JobID) []lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []lease
	for _, l := range w.byJob[id] {
		out = append(out, w.leases[l])
	}
	return sorted(out)
}

// openLeases returns the leases that match and are open, by id.
func (w *world) openLeases(match func(lease) bool) []lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []lease
	for id := range w.open {
		if l := w.leases[id]; match(l) {
			out = append(out, l)
		}
	}
	return sorted(out)
}

func sorted(l []lease) []lease {
	slices.SortFunc(l, func(a, b lease) int { return cmp.Compare(a.id, b.id) })
	return l
}

// nextN is the lowest lease number of an epoch above all that are known.
func (w *world) nextN(id events.JobID, epoch int) int {
	n := 1
	for _, l := range w.leasesOf(id) {
		if l.epoch() == epoch {
			n = max(n, l.n()+1)
		}
	}
	return n
}

// samples keeps the newest measurements of something.
type samples struct {
	newest [50]time.Duration
	n      int
}

func (s *samples) add(d time.Duration) {
	if d > 0 {
		s.newest[s.n%len(s.newest)] = d
		s.n++
	}
}

// p99 of so few is their maximum; prior until there are any.
func (s *samples) p99(prior time.Duration) time.Duration {
	if s.n == 0 {
		return prior
	}
	return slices.Max(s.newest[:min(s.n, len(s.newest))])
}
