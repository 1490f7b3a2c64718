package simtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// record is what the oracles make of the bare messages. It shares no fold with the services.
type record struct {
	w      *world
	jobs   map[events.JobID]*story
	leases map[events.LeaseID]*purchase
	load   load
}

// story is what the stream tells of a job.
type story struct {
	id       events.JobID
	placed   []placing
	kept     []commit
	rejected map[string]bool
	refusals []refusal
	dropped  map[string]time.Time
	notices  map[int]*events.JobNoticed // by epoch; nil once withdrawn
	ended    *events.JobEnded
	endedAt  time.Time
	closed   bool
	newest   events.Event
}

type placing struct {
	events.JobPlaced
	at     time.Time
	newest *commit  // kept and not rejected, when it was placed
	good   []commit // all of those, oldest first
}

// refusal is a checkpoint that an epoch could not restore.
type refusal struct {
	name  string
	epoch int
	why   string
}

type commit struct {
	events.JobCommitted
	at time.Time
}

// purchase is what the stream tells of a lease.
type purchase struct {
	id       events.LeaseID
	intended *events.LeaseIntended
	at       time.Time
	launched bool
	instance []events.InstanceID // every one that it ever named
	wanted   []events.InstanceID // gone
	ended    *events.LeaseEnded
}

func (r *record) story(id events.JobID) *story {
	if r.jobs[id] == nil {
		r.jobs[id] = &story{id: id, rejected: map[string]bool{}, dropped: map[string]time.Time{}, notices: map[int]*events.JobNoticed{}}
	}
	return r.jobs[id]
}

// chains checks I-9's second half: numbers without a gap, each event naming the hash of the one before.
func (r *record) chains(stream string, all []message) {
	last := map[events.Aggregate]events.Event{}
	for i, m := range all {
		if m.sequence != uint64(i+1) {
			r.w.fail("stream %s has sequence %d at place %d", stream, m.sequence, i+1)
		}
		if m.err != nil {
			r.w.fail("stream %s sequence %d is no event: %v", stream, m.sequence, m.err)
			continue
		}
		e := m.event
		prev, hash := last[e.Aggregate], ""
		if prev.Sequence > 0 {
			hash, _ = prev.Hash()
		}
		if e.Sequence != prev.Sequence+1 || e.Prev != hash || string(e.ID) != fmt.Sprintf("%s-%d", e.Aggregate.Key(), e.Sequence) {
			r.w.fail("stream %s sequence %d: %s does not follow %s", stream, m.sequence, e.ID, prev.ID)
		}
		last[e.Aggregate] = e
	}
}

func (r *record) read(all []message) {
	for _, m := range all {
		switch e := m.event; e.Aggregate.Kind {
		case "job":
			r.readJob(r.story(events.JobID(e.Aggregate.ID)), e)
		case "lease":
			r.readLease(events.LeaseID(e.Aggregate.ID), e)
		}
	}
}

func (r *record) readJob(s *story, e events.Event) {
	s.newest = e
	switch f := e.Fact.(type) {
	case events.JobPlaced:
		if n := len(s.placed); n > 0 && f.Epoch <= s.placed[n-1].Epoch {
			r.w.fail("I-1: job %s was placed under epoch %d after %d", s.id, f.Epoch, s.placed[n-1].Epoch)
		}
		s.placed = append(s.placed, placing{f, e.Time, s.best(), s.good()})
	case events.JobCommitted:
		r.readCommit(s, e, f)
	case events.JobNoticed:
		s.notices[f.Epoch] = &f
	case events.JobNoticeWithdrawn:
		s.notices[f.Epoch] = nil
	case events.JobCheckpointRejected:
		s.rejected[f.Checkpoint.Name] = true
		s.refusals = append(s.refusals, refusal{f.Checkpoint.Name, f.Epoch, f.Path + ": " + f.Detail})
	case events.JobCheckpointsDropped:
		r.readDrops(s, e, f)
	case events.JobEnded:
		if s.ended != nil {
			r.w.fail("job %s ended twice", s.id)
		}
		s.ended, s.endedAt = &f, e.Time
	case events.JobClosed:
		s.closed = true
	}
}

func (s *story) good() []commit {
	return slices.DeleteFunc(slices.Clone(s.kept), func(c commit) bool { return s.rejected[c.Checkpoint.Name] })
}

func (s *story) best() *commit {
	for _, c := range slices.Backward(s.kept) {
		if !s.rejected[c.Checkpoint.Name] {
			return &c
		}
	}
	return nil
}

// readCommit keeps a commit of the epoch in force, and checks I-1 and what was committed.
func (r *record) readCommit(s *story, e events.Event, f events.JobCommitted) {
	if n := len(s.placed); n == 0 || s.placed[n-1].Epoch != f.Epoch || s.placed[n-1].Lease != f.Lease {
		r.w.fail("I-1: job %s: a commit of step %d under epoch %d was appended when that was over", s.id, f.Checkpoint.Step, f.Epoch)
		return
	}
	if n := len(s.kept); n > 0 && s.kept[n-1].Epoch > f.Epoch {
		r.w.fail("I-1: job %s: a commit of epoch %d stands behind one of %d", s.id, f.Epoch, s.kept[n-1].Epoch)
	}
	if want := weightsDigest(stateAfter(s.id, f.Checkpoint.Step)); f.Checkpoint.Weights != want {
		r.w.fail("I-2: job %s: the checkpoint of step %d, epoch %d, holds another state than that step's", s.id, f.Checkpoint.Step, f.Epoch)
	}
	r.load.commits++
	s.kept = append(s.kept, commit{f, e.Time})
}

func (r *record) readLease(id events.LeaseID, e events.Event) {
	p := r.leases[id]
	if p == nil {
		p = &purchase{id: id}
		r.leases[id] = p
	}
	switch f := e.Fact.(type) {
	case events.LeaseIntended:
		p.intended, p.at = &f, e.Time
		r.believable(id, f.Offer)
	case events.LeaseLaunched:
		p.launched = true
		p.instance = append(p.instance, f.Instance)
	case events.LeaseTerminating:
		if f.Instance != "" {
			p.instance = append(p.instance, f.Instance)
		}
		p.wanted = slices.Clone(p.instance)
	case events.LeaseEnded:
		if p.ended != nil {
			r.w.fail("lease %s ended twice", id)
		}
		p.ended = &f
		p.instance = append(p.instance, f.Instance)
	}
}

// believable is I-14: no purchase rests on an absurd quote. The model's prices stay
// within a fifth of a pool's level.
func (r *record) believable(id events.LeaseID, o events.Offer) {
	truth := r.w.market.Price(o.Pool, r.w.clock.Market(o.Seen)).Price
	if o.Price > truth/2 && o.Price < truth*2 {
		return
	}
	for _, l := range r.w.lied {
		for _, t := range r.w.forgot {
			// Offers are in memory: after a restart of the bus nobody knows what a
			// pool cost before, and the first quote is believed.
			if !o.Seen.Before(l.from) && !o.Seen.After(l.to) && t.Before(o.Seen) && t.After(l.from.Add(-time.Minute)) {
				r.w.hits.add("absurd price believed after the bus forgot the true one")
				return
			}
		}
	}
	r.w.fail("I-14: lease %s was intended at %s in %s, where the price is %s", id, o.Price, o.Pool, truth)
}

func (r *record) leasesOf(id events.JobID) []*purchase {
	var out []*purchase
	for _, l := range slices.Sorted(maps.Keys(r.leases)) {
		if l.Job() == id {
			out = append(out, r.leases[l])
		}
	}
	slices.SortFunc(out, func(a, b *purchase) int { return a.at.Compare(b.at) })
	return out
}
