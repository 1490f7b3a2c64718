package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// verdicts are what the oracles found, and what they found it in.
type verdicts struct {
	wrong   []string
	print   string // of the whole history
	history map[string][]message
	notes   []string
	load    load
	closed  bool // every job has come to its end
}

// load says how much happened, so that a run of nothing is noticed.
type load struct {
	jobs, succeeded, placements, lost, machines, commits, steps, messages int
}

func (l *load) add(m load) {
	l.jobs, l.succeeded, l.placements, l.lost = l.jobs+m.jobs, l.succeeded+m.succeeded, l.placements+m.placements, l.lost+m.lost
	l.machines, l.commits, l.steps, l.messages = l.machines+m.machines, l.commits+m.commits, l.steps+m.steps, l.messages+m.messages
}

func (l load) String() string {
	return fmt.Sprintf("%d jobs (%d succeeded), %d placements, %d steps lost of %d, %d commits, %d machines, %d messages",
		l.jobs, l.succeeded, l.placements, l.lost, l.steps, l.commits, l.machines, l.messages)
}

// judge looks at everything once all is calm.
func (w *world) judge() *verdicts {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	h, err := w.history(ctx)
	if err != nil {
		w.fail("the streams cannot be read: %v", err)
	}
	r := &record{w: w, jobs: map[events.JobID]*story{}, leases: map[events.LeaseID]*purchase{}}
	r.load.messages = len(h["JOBS"]) + len(h["MONEY"])
	for _, name := range []string{"JOBS", "MONEY"} {
		r.chains(name, h[name])
	}
	for _, m := range h["DLQ"] {
		w.fail("a message was set aside: %.300s", m.text)
	}
	r.read(h["JOBS"])
	for _, id := range w.order {
		r.job(w.jobs[id], r.story(id))
		r.store(ctx, r.story(id))
	}
	r.due(h)
	r.machines()
	r.books(h["MONEY"])
	r.calls()
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := !slices.ContainsFunc(w.order, func(id events.JobID) bool { return !r.story(id).closed })
	return &verdicts{closed: closed, wrong: slices.Clone(w.wrong), print: fingerprint(h), history: h, notes: slices.Clone(w.notes), load: r.load}
}

// job checks one job's story against its trainers' own log.
func (r *record) job(j *job, s *story) {
	if taken, _ := r.w.owner(j); !taken {
		r.w.fail("job %s was never taken", j.id)
		return
	}
	r.load.jobs++
	r.load.placements += len(s.placed)
	r.ending(j, s)
	r.runs(j, s)
	r.dwell(j)
}

// ending is I-11: with the trouble over, every job comes to its end; and to which.
func (r *record) ending(j *job, s *story) {
	w := r.w
	if f, waits := s.newest.Fact.(events.JobWaiting); waits && j.tight && f.Reason != "" {
		w.hits.add("job waits for a price that its budget bears")
		return
	}
	if s.ended == nil || !s.closed {
		row, _ := events.TypeOf(s.newest.Fact)
		w.fail("I-11: job %s has neither ended nor closed; its newest event is %s: %.400v", j.id, row.Event, s.newest.Fact)
		return
	}
	newest := s.best()
	_, stopped := w.owner(j)
	switch {
	case s.ended.Outcome == events.Succeeded:
		r.load.succeeded++
		if newest == nil || newest.Checkpoint.Step != j.work.steps {
			w.fail("I-2: job %s succeeded without the checkpoint of its last step, %d: %+v", j.id, j.work.steps, newest)
		}
	case s.ended.Outcome == events.Cancelled && !stopped.IsZero():
	case r.w.ruined[j.id] && s.ended.Outcome == events.Failed && strings.Contains(s.ended.Reason, "none can be restored"):
		w.hits.add("job ended for want of a checkpoint")
	case s.ended.Outcome == events.OutOfBudget && j.tight:
		w.hits.add("job out of budget")
	default:
		w.fail("job %s ended as %s: %s", j.id, s.ended.Outcome, s.ended.Reason)
	}
}

// runs checks I-2, I-7 and I-8 for the trainers of a job.
func (r *record) runs(j *job, s *story) {
	w := r.w
	mine := w.side.of(j.id)
	for i, run := range mine {
		r.load.steps += len(run.steps)
		r.honest(run)
		k := slices.IndexFunc(s.placed, func(p placing) bool { return p.Epoch == run.epoch })
		if k < 0 {
			w.fail("I-1: job %s: a trainer ran under epoch %d, which was never placed", j.id, run.epoch)
			continue
		}
		for _, other := range mine[:i] {
			if other.epoch == run.epoch {
				w.fail("I-1: job %s: two trainers ran under epoch %d: %s and %s", j.id, run.epoch, other.pid, run.pid)
			}
			r.overlap(other, run)
		}
		r.resumed(s, s.placed[k], run)
		if k > 0 {
			r.regress(j, s, s.placed[k-1], s.placed[k], run, mine)
		}
	}
}

// honest checks that a trainer made one step after the other from what it was given.
func (r *record) honest(run *run) {
	at, now := run.from, run.had
	if now != stateAfter(run.job, at) {
		r.w.fail("I-7: job %s, epoch %d: what was restored is not the state of step %d", run.job, run.epoch, at)
	}
	for _, m := range run.steps {
		at, now = at+1, now.next(at+1)
		if m.step != at || m.state != now {
			r.w.fail("job %s, epoch %d: step %d follows %d, or is of another chain", run.job, run.epoch, m.step, at-1)
			return
		}
	}
}

// overlap bounds how long the loser of two trainers lives on: until it has
// contact, its machine is taken away, or the silence limit.
func (r *record) overlap(old, newer *run) {
	if old.epoch > newer.epoch {
		old, newer = newer, old
	}
	end := old.ended
	if end.IsZero() {
		end = time.Now()
	}
	t := r.w.timers
	if both := end.Sub(newer.began); both > t.Silence+2*time.Minute {
		r.w.fail("I-2: job %s: the trainer of epoch %d lived on for %s beside that of epoch %d", old.job, old.epoch, both, newer.epoch)
	} else if both > 0 {
		r.w.hits.add("two trainers at once")
	}
}

// resumed is I-7: the newest committed checkpoint, or an older one with an event that says why.
func (r *record) resumed(s *story, p placing, run *run) {
	want := int64(0)
	if p.newest != nil {
		want = p.newest.Checkpoint.Step
	}
	named := int64(0)
	if p.Resume != nil {
		named = p.Resume.Step
	}
	if named != want {
		r.w.fail("I-7: job %s, epoch %d: placed to resume from step %d, the newest committed is %d", s.id, p.Epoch, named, want)
	}
	if len(p.good) == 0 {
		if run.from != 0 {
			r.w.fail("I-7: job %s, epoch %d: began at step %d, and nothing was committed", s.id, p.Epoch, run.from)
		}
		return
	}
	left := slices.DeleteFunc(slices.Clone(p.good), func(c commit) bool {
		return slices.ContainsFunc(s.refusals, func(f refusal) bool { return f.name == c.Checkpoint.Name && f.epoch == run.epoch })
	})
	switch is := func(c commit) bool { return c.Checkpoint.Step == run.from }; {
	case len(left) == 0, !slices.ContainsFunc(left, is):
		r.w.fail("I-7: job %s, epoch %d: began at step %d, which is none of %d committed checkpoints that were not refused", s.id, p.Epoch, run.from, len(left))
	case is(left[len(left)-1]):
	case r.w.damaged[s.id]: // that it was refused could not be told
		r.w.hits.add("older checkpoint restored without a word")
	default:
		r.w.fail("I-7: job %s, epoch %d: resumed from step %d instead of %d", s.id, p.Epoch, run.from, left[len(left)-1].Checkpoint.Step)
	}
}

// regress is I-8: what a move loses is one interval and the time a checkpoint
// takes to become true, and for as long as nobody could be told, that time.
func (r *record) regress(j *job, s *story, from, to placing, next *run, all []*run) {
	i := slices.IndexFunc(all, func(x *run) bool { return x.epoch == from.Epoch })
	if i < 0 {
		return
	}
	old, reached := all[i], all[i].from
	var last time.Time
	for _, m := range old.steps {
		if m.at.After(to.at) {
			break
		}
		reached, last = m.step, m.at
	}
	lost := max(reached-next.from, 0)
	r.load.lost += int(lost)
	r.warned(s, from, to, old, next)
	away := r.w.away(old, last)
	most := j.work.saveEvery + int64((j.work.saving+time.Minute+away)/j.work.step) + 1
	if len(s.rejected) > 0 {
		most += 2 * j.work.saveEvery // what was damaged is lost on top
		r.w.hits.add("older checkpoint restored")
	}
	if lost > most {
		r.w.fail("I-8: job %s lost %d steps between epochs %d and %d, at most %d are due (nobody could be told for %s)", j.id, lost, from.Epoch, to.Epoch, most, away)
	}
	if lost > 0 {
		r.w.hits.add("steps lost in a move")
	}
}

// fair is a warning that leaves time to save and to ship.
const fair = 90 * time.Second

// warned is I-8 for a machine that was taken with fair warning and left in peace
// until then: what the trainer had done when the warning came should not be done again.
func (r *record) warned(s *story, from, to placing, old, next *run) {
	w := r.w
	n := s.notices[from.Epoch]
	if n == nil || n.Deadline.Sub(n.Seen) < fair || to.at.Before(n.Seen) || len(s.rejected) > 0 {
		return
	}
	id, _, _ := strings.Cut(old.pid, "/")
	i := slices.IndexFunc(w.fake.Intervals(), func(i providertest.Interval) bool { return string(i.Instance) == id })
	if end := w.fake.Intervals()[i].To.Control; !end.IsZero() && end.Before(n.Deadline.Add(-2*time.Second)) && end.Before(to.at) {
		return // something else took it before
	}
	if !old.ended.IsZero() && old.ended.Before(earlier(n.Deadline, to.at).Add(-2*time.Second)) || w.disturbed(id, n.Seen.Add(-time.Minute), n.Deadline) {
		return
	}
	done := old.from
	for _, m := range old.steps {
		if m.at.Before(n.Seen) {
			done = m.step
		}
	}
	w.hits.add("machine taken after a fair warning")
	if next.from < done {
		w.fail("I-8: job %s was at step %d when the seller warned of the end of epoch %d, %s ahead; nobody was away, no request and no upload went wrong, and it resumed from step %d",
			s.id, done, from.Epoch, n.Deadline.Sub(n.Seen), next.from)
	}
}

// disturbed says whether anybody was away in a stretch of time, or a request of the
// machine's or an operation of the store went wrong.
func (w *world) disturbed(machine string, from, to time.Time) bool {
	all := slices.Clone(w.outages)
	if m := w.machine(events.InstanceID(machine)); m != nil {
		m.mu.Lock()
		all = append(all, m.offline...)
		all = append(all, m.spoiled...)
		m.mu.Unlock()
	}
	all = append(all, w.spoiled...)
	return slices.ContainsFunc(all, func(o window) bool { return o.from.Before(to) && o.to.After(from) })
}

// away is for how long, during a run, its machine could not have told anybody.
func (w *world) away(old *run, until time.Time) time.Duration {
	id, _, _ := strings.Cut(old.pid, "/")
	var all []window
	all = append(all, w.outages...)
	if m := w.machine(events.InstanceID(id)); m != nil {
		m.mu.Lock()
		all = append(all, m.offline...)
		m.mu.Unlock()
	}
	var sum time.Duration
	for _, o := range all {
		// After a contact that was lost everything takes a moment to find back.
		if d := earlier(o.to, until).Sub(later(o.from, old.began)); d > 0 {
			sum += d + time.Minute
		}
	}
	return sum
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// dwell is I-13: between two moves of our own accord lies the dwell time, market time.
func (r *record) dwell(j *job) {
	var last time.Time
	for _, p := range r.leasesOf(j.id) {
		if p.intended == nil || !p.launched || !p.intended.Purpose.Voluntary() {
			continue
		}
		at := p.intended.Decision.Market
		r.w.hits.add("voluntary move")
		if !last.IsZero() && at.Sub(last) < r.w.timers.Dwell {
			r.w.fail("I-13: job %s moved of its own accord %s after the last time, market time (lease %s)", j.id, at.Sub(last), p.id)
		}
		last = at
	}
}
