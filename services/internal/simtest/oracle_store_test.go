package simtest

import (
	"context"
	"slices"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/gateway"
)

// collection is how checkpoints leave the store: often, and after a grace so short
// that whoever relies on what is going finds it gone.
var collection = gateway.Collection{Every: 2 * time.Minute, Grace: 3 * time.Minute}

// store is I-6 for a job's checkpoints, and what else the store has of it.
func (r *record) store(ctx context.Context, s *story) {
	names := map[string]bool{}
	for _, c := range s.kept {
		m, needs, err := r.w.store.needs(string(s.id), c.Checkpoint.Name)
		if err != nil {
			r.w.fail("I-6: job %s: the manifest of committed checkpoint %s: %v", s.id, c.Checkpoint.Name, err)
			continue
		}
		dropped, gone := s.dropped[c.Checkpoint.Name]
		until := time.Now()
		if gone {
			until = earlier(until, dropped.Add(collection.Grace))
		}
		if !s.rejected[c.Checkpoint.Name] || !r.w.store.isBroken(needs[len(needs)-1]) {
			r.lasts(s, c, needs, until) // what a manifest needed that is lost, nobody can know
		}
		r.reaches(m)
		if gone {
			continue
		}
		for _, o := range needs {
			names[o.Name] = true
		}
		if !slices.ContainsFunc(needs, r.w.store.isBroken) {
			r.restores(ctx, s, c)
		}
	}
	r.excuses(s)
	if s.closed {
		r.swept(s, names)
	}
}

// lasts checks that from its commit on, and for the grace after its drop, nothing that
// a checkpoint needs was ever missing.
func (r *record) lasts(s *story, c commit, needs []checkpoint.Object, until time.Time) {
	for _, o := range needs {
		if at, ok := r.w.store.missing(o.Name, c.at, until); !ok && !r.w.store.isBroken(o) {
			r.w.fail("I-6: job %s: checkpoint %s was committed at %s and needs %s, which was not there at %s",
				s.id, c.Checkpoint.Name, r.w.stampOf(c.at), o.Name, r.w.stampOf(at))
			return
		}
	}
}

// reaches notes in which ways the checkpoints of a run are stored.
func (r *record) reaches(m checkpoint.Manifest) {
	for _, f := range m.Files {
		for _, c := range f.Chunks {
			if c.Epoch > 0 {
				r.w.hits.add("store: piece of an epoch before relied on")
			}
			if c.Pack != "" && c.Size >= 1<<20 {
				r.w.hits.add("store: piece that came back has another name")
			}
		}
	}
}

// restores checks that a kept checkpoint is whole, byte by byte.
func (r *record) restores(ctx context.Context, s *story, c commit) {
	k := c.Checkpoint
	ref := checkpoint.Ref{Name: k.Name, Epoch: k.Epoch, Step: k.Step, Digest: k.Digest, Bytes: k.Bytes, Files: k.Files}
	if err := checkpoint.Verify(ctx, r.w.store.Clone(mem.Config{}), string(org), string(s.id), ref, true); err != nil {
		r.w.fail("I-6: job %s: kept checkpoint %s is not whole: %v", s.id, k.Name, err)
	}
}

// excuses checks that no restore gave up a checkpoint that nothing had damaged.
func (r *record) excuses(s *story) {
	for _, f := range s.refusals {
		_, needs, err := r.w.store.needs(string(s.id), f.name)
		if err == nil && !slices.ContainsFunc(needs, r.w.store.isBroken) {
			r.w.fail("I-6: job %s, epoch %d: checkpoint %s did not restore, and nothing had damaged it: %s", s.id, f.epoch, f.name, f.why)
		}
	}
}

// swept checks that a job that is over leaves one checkpoint, those that did not restore, and
// nothing else: once there was time for the rounds that it takes.
func (r *record) swept(s *story, names map[string]bool) {
	last := s.endedAt
	for _, at := range s.dropped {
		last = later(last, at)
	}
	if time.Since(last) < collection.Grace+r.w.timers.Silence+5*collection.Every || time.Since(r.w.calmAt) < 3*collection.Every {
		return
	}
	r.w.hits.add("store: ended job's objects counted")
	kept := slices.DeleteFunc(s.good(), func(c commit) bool { _, gone := s.dropped[c.Checkpoint.Name]; return gone })
	if len(kept) > 1 {
		r.w.fail("job %s is over and keeps %d good checkpoints, want its newest alone", s.id, len(kept))
	}
	for _, name := range r.w.store.of(string(s.id)) {
		if !names[name] {
			r.w.fail("job %s is over, and the store still has %s, which no kept checkpoint needs", s.id, name)
			return
		}
	}
}

// readDrops notes which checkpoints are given up. Nothing may be restored from them any more.
func (r *record) readDrops(s *story, e events.Event, f events.JobCheckpointsDropped) {
	for _, name := range f.Names {
		if best := s.best(); best != nil && best.Checkpoint.Name == name {
			r.w.fail("I-7: job %s: its newest checkpoint %s was dropped", s.id, name)
		}
		if _, twice := s.dropped[name]; twice || !slices.ContainsFunc(s.kept, func(c commit) bool { return c.Checkpoint.Name == name }) {
			r.w.fail("job %s: checkpoint %s was dropped twice, or never committed", s.id, name)
		}
		s.dropped[name] = e.Time
		r.w.hits.add("checkpoint dropped")
	}
}
