package kills

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// life is one trainer process, by its own record.
type life struct {
	epoch   int
	pid     int
	start   uint64
	resumed int64   // step; 0: it began with nothing
	known   bool    // that is known
	last    int64   // step made
	saved   []int64 // steps of saves that were complete
	began   time.Time
	end     time.Time
}

// judge looks at everything that was left.
func (w *world) judge() verdict {
	w.proofs.Wait()
	v := verdict{Seed: w.opt.seed, Asked: w.opt.kills, Phases: map[phase]int{}, Victims: map[victim]int{}, Took: time.Since(w.began).Seconds()}
	w.judgeKills(&v)
	all, err := rows[trained](w.evidence(trainerFile))
	if err != nil {
		w.fail("%v", err)
	}
	by := map[string][]trained{}
	for _, r := range all {
		by[r.Job] = append(by[r.Job], r)
	}
	for _, id := range w.rec.ids() {
		v.Jobs++
		w.judgeJob(&v, id, by[string(id)])
	}
	w.judgeProofs(&v)
	w.rec.mu.Lock()
	for _, s := range w.rec.wrong {
		w.fail("%s", s)
	}
	w.rec.mu.Unlock()
	w.mu.Lock()
	v.Redrawn, v.Wrong = w.redrew, append([]string{}, w.wrong...)
	w.mu.Unlock()
	return v
}

func (w *world) judgeKills(v *verdict) {
	all, err := rows[struck](w.evidence(struckFile))
	if err != nil {
		w.fail("%v", err)
	}
	w.dealtTo = map[events.JobID][]struck{}
	for _, s := range all {
		w.dealtTo[events.JobID(s.Job)] = append(w.dealtTo[events.JobID(s.Job)], s)
		v.Kills++
		v.Phases[s.Phase]++
		v.Victims[s.Victim]++
		if s.Phase.inside() && s.Victim != warned { // a warned machine dies later
			v.Inside++
		}
	}
	if v.Kills != w.opt.kills {
		w.fail("%d kills were carried out, want %d", v.Kills, w.opt.kills)
	}
	if v.Inside*10 < v.Kills*7 && *drill == "" {
		w.fail("%d of %d kills were inside a save, an upload or a commit: want 70 in a hundred", v.Inside, v.Kills)
	}
}

// lives are a job's trainers in the order in which they began.
func lives(all []trained) (out []life) {
	for _, row := range all {
		i := slices.IndexFunc(out, func(l life) bool { return l.pid == row.PID && l.start == row.PIDStart })
		if i < 0 {
			i = len(out)
			out = append(out, life{epoch: row.Epoch, pid: row.PID, start: row.PIDStart, began: row.Time})
		}
		l := &out[i]
		l.end = row.Time
		switch row.Phase {
		case rowResumed:
			l.resumed, l.known = row.Step, true
		case rowFresh:
			l.known = true
		case rowStep:
			l.last = row.Step
		case rowSaveEnd:
			l.saved = append(l.saved, row.Step)
		}
	}
	slices.SortStableFunc(out, func(a, b life) int { return cmp.Or(a.epoch-b.epoch, a.began.Compare(b.began)) })
	return out
}

// judgeJob wants each resume right, little lost, and every step as it should be.
func (w *world) judgeJob(v *verdict, id events.JobID, all []trained) {
	j := w.rec.job(id)
	for _, row := range all {
		if row.Phase == rowTorn {
			v.Torn++
			w.fail("%s: in epoch %d a trainer was started from a torn checkpoint: %s", id, row.Epoch, row.Detail)
		}
	}
	if j.Outcome != events.Succeeded || !j.Closed {
		w.fail("%s is %s: %s", id, j.Status(), j.Reason)
	}
	w.judgeDigests(v, id, j, all)
	commits := w.rec.commitsOf(id)
	ls := lives(all)
	v.Trainers += len(ls)
	for i, l := range ls {
		if i > 0 && !w.killedBetween(id, ls[i-1], l) {
			v.Unasked = append(v.Unasked, fmt.Sprintf("%s, epoch %d: %s", id, l.epoch, w.rec.moves(id, l.epoch)))
		}
		if i == 0 || !l.known { // it was killed before it had read its checkpoint
			continue
		}
		v.Resumes++
		w.judgeResume(v, id, ls[:i], l, commits)
	}
}

// killedBetween says whether something of ours ended a trainer, or its machine, before
// the next one began.
func (w *world) killedBetween(id events.JobID, a, b life) bool {
	return slices.ContainsFunc(w.dealtTo[id], func(s struck) bool {
		return s.fatal() && s.Epoch >= a.epoch && s.Time.Before(b.began)
	})
}

// judgeResume compares where a trainer went on with what had been committed and with
// what those before it had made.
func (w *world) judgeResume(v *verdict, id events.JobID, before []life, l life, commits []commit) {
	var had int64 // committed when the one before it ended
	prev := before[len(before)-1]
	for _, c := range commits {
		if c.Epoch < l.epoch && c.at.Before(prev.end) {
			had = max(had, c.Checkpoint.Step)
		}
	}
	if l.resumed < had {
		w.fail("%s: epoch %d goes on from step %d, and step %d was committed before the kill", id, l.epoch, l.resumed, had)
	}
	made, complete := l.resumed, int64(0)
	for _, b := range before {
		made = max(made, b.last)
	}
	for _, s := range prev.saved {
		if s > l.resumed {
			complete++
		}
	}
	// The farthest step ever made may be of an earlier life, whose loss was counted then.
	lost := max(prev.last, l.resumed) - l.resumed
	v.Lost += lost
	if complete > 0 {
		v.MostFlying = max(v.MostFlying, lost)
	} else {
		v.MostLost = max(v.MostLost, lost)
	}
	v.MostBehind = max(v.MostBehind, made-l.resumed)
	allowed := int64(every)
	if complete > 0 {
		allowed += every // the one that was complete and under way
	}
	if lost > allowed || complete > 1 {
		w.fail("%s: epoch %d goes on from step %d and loses %d steps of epoch %d, which had %d saves complete and not committed; want at most %d", id, l.epoch, l.resumed, lost, prev.epoch, complete, allowed)
	}
}

// judgeDigests compares every step that was ever made with an undisturbed run's.
func (w *world) judgeDigests(v *verdict, id events.JobID, j failover.Job, all []trained) {
	final := j.Step()
	s, err := w.shapeOf(id)
	if err != nil || final == 0 {
		w.fail("%s: %v, final step %d", id, err, final)
		return
	}
	farthest := final // a life that was killed may have come farther
	for _, row := range all {
		farthest = max(farthest, row.Step)
	}
	if farthest > 1_000_000 {
		w.fail("%s: step %d is none that a trainer made", id, farthest)
		return
	}
	want, err := w.undisturbed(s, farthest)
	if err != nil {
		w.fail("%v", err)
		return
	}
	seen := map[int64]bool{}
	for _, row := range all {
		if row.Phase != rowStep && row.Phase != rowResumed || row.Step == 0 {
			continue
		}
		seen[row.Step] = true
		v.Steps++
		if d := want[row.Step]; d != row.Digest {
			w.fail("%s: epoch %d, step %d has state %.12s, an undisturbed run %.12s", id, row.Epoch, row.Step, row.Digest, d)
			return
		}
	}
	for n := int64(1); n <= final; n++ {
		if !seen[n] {
			w.fail("%s: nobody made step %d of %d", id, n, final)
			return
		}
	}
	v.Equal++
}
