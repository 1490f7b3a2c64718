package kills

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/events"
)

const (
	hitWithin    = 40 * time.Second // from when a stroke is armed until it counts as having found nothing
	resumeWithin = 90 * time.Second // from a kill until the job is placed again
	commitWithin = 90 * time.Second
)

// carried is one job and its part of the plan.
type carried struct {
	w      *world
	id     events.JobID
	shape  shape
	rand   *rand.Rand // of what is drawn anew
	spare  func(string, phase) int
	last   struck
	struck bool
}

// jobID is a layout's job. An id has no dash in it.
func jobID(layout string) events.JobID {
	return events.JobID("k" + strings.ReplaceAll(layout, "-", ""))
}

// run submits the job, carries its strokes out one after the other, and sees it to its end.
func (c *carried) run(strokes []stroke) {
	w := c.w
	if err := w.submit(c.shape, c.id); err != nil {
		w.fail("submitting %s: %v", c.shape.Name, err)
		return
	}
	for len(strokes) > 0 && w.ctx.Err() == nil {
		s := strokes[0]
		strokes = strokes[1:]
		instead, ok := c.stroke(s)
		if !ok {
			return
		}
		if instead != nil {
			strokes = append([]stroke{*instead}, strokes...)
		}
	}
	c.finish()
}

// stroke carries one out. When it finds nothing to kill it returns another to try; false
// says that the job cannot go on.
func (c *carried) stroke(s stroke) (instead *stroke, ok bool) {
	w := c.w
	s.MinEpoch = c.from()
	if !s.Phase.returning() && !c.ready(s) {
		return nil, false
	}
	hit, armed := w.job(string(c.id), hitFile), w.job(string(c.id), armedFile)
	if err := put(armed, s); err != nil {
		w.fail("%v", err)
		return nil, false
	}
	var row struck
	found := w.until(hitWithin, func() bool { return exists(hit) || c.over() })
	if !exists(hit) && os.Remove(armed) == nil {
		if c.over() {
			w.fail("%s ended as %s (%s) before stroke %d of the plan\n%s", c.id, w.rec.job(c.id).Status(), w.rec.job(c.id).Reason, s.N, c.story())
			return nil, false
		}
		return c.redraw(s), w.ctx.Err() == nil
	}
	found = w.until(10*time.Second, func() bool { row, found = c.row(s); return found })
	if !found {
		w.fail("%s: stroke %d was taken and not dealt", c.id, s.N)
		return nil, false
	}
	_ = os.Remove(hit)
	if s.Victim == warned {
		w.warn(row)
	}
	c.last, c.struck = row, true
	w.mu.Lock()
	w.dealt++
	dealt := w.dealt
	w.mu.Unlock()
	w.note("%4d of %d: %-16s %-7s at %s: %s", dealt, w.opt.kills, c.shape.Name, s.Victim, s.Phase, row.Point)
	return nil, true
}

// from is the epoch from which on processes are not of those that are dead or dying.
func (c *carried) from() int {
	switch {
	case !c.struck || !c.last.fatal():
		return max(c.w.rec.job(c.id).Epoch, 1)
	case c.last.Phase == joining: // the epoch of one that never joined is given again
		return c.last.Epoch
	}
	return c.last.Epoch + 1
}

// ready waits until the job goes on after the kill before, and has made the commits
// that are to lie between.
func (c *carried) ready(s stroke) bool {
	w := c.w
	if !w.until(resumeWithin, func() bool { return w.rec.job(c.id).Epoch >= s.MinEpoch || c.over() }) || c.over() {
		w.fail("%s is %s and was not placed again %s after stroke %d, %s at %s\n%s", c.id, w.rec.job(c.id).Status(), resumeWithin, c.last.N, c.last.Victim, c.last.Phase, c.story())
		return false
	}
	base := len(w.rec.commitsOf(c.id))
	if s.After > 0 && !w.until(commitWithin, func() bool { return len(w.rec.commitsOf(c.id)) >= base+s.After || c.over() }) || c.over() {
		w.fail("%s is %s and made %d commits in %s after stroke %d, %s at %s; want %d\n%s", c.id, w.rec.job(c.id).Status(), len(w.rec.commitsOf(c.id))-base,
			commitWithin, c.last.N, c.last.Victim, c.last.Phase, s.After, c.story())
		return false
	}
	return w.ctx.Err() == nil
}

func (c *carried) over() bool {
	j := c.w.rec.job(c.id)
	return j.Over() || j.Phase == "paused"
}

// row is what was written down of a stroke.
func (c *carried) row(s stroke) (struck, bool) {
	all, err := rows[struck](c.w.evidence(struckFile))
	if err != nil {
		c.w.fail("%v", err)
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].N == s.N && all[i].Again == s.Again {
			return all[i], true
		}
	}
	return struck{}, false
}

// redraw draws another stroke of the same kind for one that found nothing, and says so.
func (c *carried) redraw(s stroke) *stroke {
	w := c.w
	n := draw(c.rand, s.Layout, c.spare)
	for n.Phase.returning() || n.Phase.inside() != s.Phase.inside() {
		n = draw(c.rand, s.Layout, c.spare)
	}
	n.N, n.Again, n.After = s.N, s.Again+1, 0
	w.mu.Lock()
	w.redrew++
	w.mu.Unlock()
	w.note("stroke %d found no %s at %s of %s; instead: %s at %s", s.N, s.Victim, s.Phase, c.id, n.Victim, n.Phase)
	if err := jot(w.evidence(missedFile), missed{s, string(c.id), n, time.Now().UTC()}); err != nil {
		w.fail("%v", err)
	}
	return &n
}

// finish lets the job end once it has resumed after the last kill.
func (c *carried) finish() {
	w := c.w
	if !c.ready(stroke{MinEpoch: c.from()}) {
		return
	}
	if err := put(w.job(string(c.id), finishFile), true); err != nil {
		w.fail("%v", err)
	}
	if !w.until(2*time.Minute, func() bool { return w.rec.job(c.id).Closed || w.rec.job(c.id).Phase == "paused" }) || w.rec.job(c.id).Outcome != events.Succeeded {
		w.fail("%s is %s (%s) after the last kill\n%s", c.id, w.rec.job(c.id).Status(), w.rec.job(c.id).Reason, c.story())
		return
	}
	w.note("%s is done: step %d", c.id, w.rec.job(c.id).Step())
}

// story is the end of a job's record and of what its trainers say.
func (c *carried) story() string {
	return "  " + strings.Join(c.w.rec.history(c.id, 25), "\n  ")
}

// drilled is a warning that a machine is to be given.
type drilled struct {
	local.Reclaim
	at time.Time
}

// warn has a machine warned, and taken at the end of the warning.
func (w *world) warn(row struck) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drills = append(w.drills, drilled{local.Reclaim{ID: string(row.Job) + "-" + row.Lease, Token: row.Lease, NoticeS: row.Notice}, time.Now()})
	for len(w.drills) > 0 && time.Since(w.drills[0].at) > time.Minute {
		w.drills = w.drills[1:]
	}
	var d local.Drill
	for _, r := range w.drills {
		d.Reclaim = append(d.Reclaim, r.Reclaim)
	}
	if err := local.WriteDrill(filepath.Join(w.state(), "seller"), d); err != nil {
		w.wrong = append(w.wrong, err.Error())
	}
}

// commits takes what was committed: the trainer may go on to its next save, and what
// is in the store is looked at.
func (w *world) commits(c commit) {
	if err := put(w.job(string(c.job), committedFile), c.Checkpoint.Step); err != nil {
		w.fail("%v", err)
	}
	w.proofs.Add(1)
	w.prove <- c
}
