package gateway

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
)

// oracle judges by the record and the store alone, with rules of its own: what
// was committed and not dropped stays whole, and what is dropped is so by right.
type oracle struct {
	w  *world
	mu sync.Mutex

	position uint64
	epoch    int
	machine  bool // the epoch's has the job
	first    bool // the epoch has committed
	over     bool
	ended    time.Time
	order    []*saved
	byName   map[string]*saved
	began    time.Time
	contents map[string]string // by hash of a member: used to notice what comes back
}

type saved struct {
	events.Checkpoint
	objects  []string // and its manifest
	rejected time.Time
	dropped  time.Time
	pins     map[string]time.Time // by holder: until; zero: for ever
}

func newOracle(w *world) *oracle {
	return &oracle{w: w, byName: map[string]*saved{}, began: time.Now(), contents: map[string]string{}}
}

func (o *oracle) wrong(format string, args ...any) {
	o.w.t.Errorf("seed %d, after %s: %s", o.w.seed, time.Since(o.began).Round(time.Second), fmt.Sprintf(format, args...))
}

func (o *oracle) clock() string { return "after " + time.Since(o.began).Round(time.Second).String() }

// sync takes what the record has gained. It is called before anything is
// deleted: what was there at a commit is there when the oracle hears of it.
func (o *oracle) sync() {
	evs, err := o.w.log.Read(o.w.t.Context(), events.JobAggregate(org, job), o.position)
	if err != nil {
		return // the test is over
	}
	for _, e := range evs {
		o.position = e.Position
		o.take(e)
	}
}

func (o *oracle) take(e events.Event) {
	switch f := e.Fact.(type) {
	case events.JobPlaced:
		o.epoch, o.machine, o.first = f.Epoch, true, false
	case events.JobLost:
		if f.Epoch == o.epoch && f.Cause != events.CauseSilent {
			o.machine = false
		}
	case events.JobEnded:
		o.over, o.ended = true, e.Time
	case events.JobCommitted:
		o.commit(f)
	case events.JobCheckpointRejected:
		o.byName[f.Checkpoint.Name].rejected = e.Time
	case events.JobCheckpointPinned:
		if s := o.byName[f.Name]; s != nil {
			delete(s.pins, f.Holder)
			if f.Pinned {
				s.pins[f.Holder] = f.Until
			}
		}
	case events.JobCheckpointsDropped:
		for _, n := range f.Names {
			o.drop(o.byName[n], f, e.Time)
		}
	}
}

func (o *oracle) commit(f events.JobCommitted) {
	if f.Epoch != o.epoch || !o.machine || o.over {
		o.wrong("%s was committed by epoch %d, which has not got the job", f.Checkpoint.Name, f.Epoch)
		return
	}
	o.first = true
	if o.byName[f.Checkpoint.Name] != nil {
		return
	}
	s := &saved{Checkpoint: f.Checkpoint, pins: map[string]time.Time{}}
	m, err := checkpoint.ReadManifest(o.w.t.Context(), o.w.store.Store, string(org), string(job), refOf(f.Checkpoint))
	if err != nil {
		o.wrong("%s was committed without a manifest: %v", f.Checkpoint.Name, err)
	}
	there := map[string]int64{}
	list, _ := o.w.store.Store.List(o.w.t.Context(), "")
	for _, x := range list {
		there[x.Name] = x.Size
	}
	for _, x := range m.Objects() {
		if size, ok := there[x.Name]; !ok || size != x.Size {
			o.wrong("%s was committed without %s", f.Checkpoint.Name, x.Name)
		}
		s.objects = append(s.objects, x.Name)
	}
	for _, p := range m.Packs {
		for _, x := range m.Files {
			for _, c := range x.Chunks {
				if c.Pack != p.Hash {
					continue
				}
				if was, ok := o.contents[c.Hash]; ok && was != p.Hash {
					o.w.tally.add("content that came back", 1)
				}
				o.contents[c.Hash] = p.Hash
			}
		}
	}
	s.objects = append(s.objects, checkpoint.Prefix(string(org), string(job))+f.Checkpoint.Name)
	o.order = append(o.order, s)
	o.byName[f.Checkpoint.Name] = s
}

// good lists what can be restored, newest first.
func (o *oracle) good() []*saved {
	var out []*saved
	for _, s := range slices.Backward(o.order) {
		if s.rejected.IsZero() && s.dropped.IsZero() {
			out = append(out, s)
		}
	}
	return out
}

func (o *oracle) drop(s *saved, f events.JobCheckpointsDropped, at time.Time) {
	rank := slices.Index(o.good(), s)
	policy := f.By == ""
	for holder, until := range s.pins {
		if until.IsZero() || at.Before(until) {
			o.wrong("%s was dropped although %q has pinned it", s.Name, holder)
		}
	}
	keep := 3
	if o.w.seed%4 != 0 {
		keep = max(2, []int{0, 1, 2, 4}[o.w.seed%4])
	}
	switch {
	case !s.dropped.IsZero():
		o.wrong("%s was dropped twice", s.Name)
	case o.over && policy && rank == 0:
		o.wrong("%s was dropped although it is the job's result", s.Name)
	case !o.over && rank >= 0 && rank < 2, !o.over && policy && rank >= 0 && rank < keep:
		o.wrong("%s was dropped although it is number %d from the newest", s.Name, rank+1)
	case !o.over && o.machine && !o.first:
		o.wrong("%s was dropped while epoch %d may be restoring it", s.Name, o.epoch)
	case policy && !s.rejected.IsZero() && at.Before(s.rejected.Add(worldEvidence)):
		o.wrong("%s was dropped although it is evidence still", s.Name)
	}
	if policy {
		o.w.tally.add("checkpoints dropped by policy", 1)
	}
	for _, x := range o.good() {
		if i := slices.Index(o.good(), x); i >= keep && len(x.pins) > 0 {
			o.w.tally.add("pinned checkpoints outlived the policy", 1)
			break
		}
	}
	s.dropped = at
}

// alive says whether a checkpoint must be whole.
func (s *saved) alive(now time.Time) bool {
	return s.dropped.IsZero() || now.Before(s.dropped.Add(worldGrace))
}

// deletes judges a deletion at the moment at which it takes effect.
func (o *oracle) deletes(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sync()
	for _, s := range o.order {
		if s.alive(time.Now()) && slices.Contains(s.objects, name) {
			o.wrong("%s is deleted, which %s needs (dropped %v)", name, s.Name, !s.dropped.IsZero())
		}
	}
}

// committed is told of an answer, so that the record is looked at now and then.
func (o *oracle) committed(events.Checkpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sync()
}

// has says whether an epoch has the job.
func (o *oracle) has(epoch int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sync()
	return o.epoch == epoch && o.machine && !o.over
}

// readable says whether a checkpoint's grace is not over.
func (o *oracle) readable(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sync()
	return o.byName[name].alive(time.Now())
}

// unneeded lists what is in the store although no kept checkpoint needs it.
func (o *oracle) unneeded() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sync()
	needed := map[string]bool{}
	for _, s := range o.order {
		if s.dropped.IsZero() {
			for _, n := range s.objects {
				needed[n] = true
			}
		}
	}
	return slices.DeleteFunc(o.w.store.Names(), func(n string) bool { return needed[n] })
}

// final makes sure that the result is there and whole.
func (o *oracle) final() {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := strings.Join(o.w.store.Names(), "\n")
	for _, s := range o.order {
		if !s.dropped.IsZero() {
			continue
		}
		for _, n := range s.objects {
			if !strings.Contains(names, n) {
				o.wrong("of kept %s %s is missing", s.Name, n)
			}
		}
		if err := checkpoint.Verify(o.w.t.Context(), o.w.store.Store, string(org), string(job), refOf(s.Checkpoint), true); err != nil {
			o.wrong("%s is kept and not whole: %v", s.Name, err)
		}
	}
	if good := o.good(); len(o.order) > 0 && len(good) == 0 && !slices.ContainsFunc(o.order, func(s *saved) bool { return s.rejected.IsZero() && !s.dropped.IsZero() }) {
		o.wrong("nothing is left of %d checkpoints", len(o.order))
	}
}
