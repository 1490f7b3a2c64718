package rehearse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// sights are the moves in words, one line each.
func (j judge) sights() []string {
	var out []string
	for _, m := range j.moves {
		if m.First < 0 && len(m.Again) == 0 {
			continue
		}
		out = append(out, j.left(m)+": "+j.did(m)+went(m)+again(m, j.Tolerance)+".")
	}
	return out
}

func (j judge) left(m Resumption) string {
	at := m.Reached
	if m.Cause == WithNotice && m.Noticed >= 0 {
		at = m.Noticed
	}
	s := map[Cause]string{
		WithNotice: "taken away with a notice of " + span(j.Notice), WithoutNotice: "taken away without a word", ByItself: "ended by itself",
	}[m.Cause]
	if at >= 0 {
		s += fmt.Sprintf(" at step %d", at)
	}
	return s
}

// did says what it did with its notice, and begins what it did on the next machine.
func (j judge) did(m Resumption) string {
	var parts []string
	if signal := j.Spec.Policy.Checkpoint.Signal; m.Cause == WithNotice && signal != "" {
		part := "did not save on " + signal
		for _, t := range j.Taken {
			if c, ok := j.heard(t); ok && t.Notice {
				part = fmt.Sprintf("saved step %d on %s", c.Checkpoint.Step, signal)
			}
		}
		parts = append(parts, part)
	}
	if m.Cause == WithNotice && m.Noticed >= 0 && m.Reached > m.Noticed {
		parts = append(parts, fmt.Sprintf("trained on to step %d", m.Reached))
	}
	if len(parts) == 0 {
		return "it "
	}
	return "it " + strings.Join(parts, ", ") + " and "
}

func went(m Resumption) string {
	s := fmt.Sprintf("went on from its checkpoint of step %d", m.From)
	if m.Anew {
		s = "began anew"
	}
	switch {
	case m.First < 0:
		return s + ", and has told no step since"
	case m.Reached < 0:
		return s + fmt.Sprintf(", and the next it saved was of step %d", m.First)
	case m.GapMS > 0:
		return s + fmt.Sprintf(" with step %d, %s after its last", m.First, millis(m.GapMS))
	}
	return s + fmt.Sprintf(" with step %d", m.First)
}

func again(m Resumption, tolerance float64) string {
	n := len(m.Again)
	switch {
	case n == 0 && m.Reached < 0:
		return ""
	case n == 0:
		return "; no step was seen twice"
	case m.Compared == 0:
		return fmt.Sprintf("; %s seen twice, without losses", steps(n))
	case m.Exact == m.Compared:
		return fmt.Sprintf("; %s done again, with the same losses to the last digit", steps(m.Compared))
	case m.FirstOff == nil:
		return fmt.Sprintf("; %s done again, with losses within %.0e of those before (the farthest off by %.1e, at step %d)", steps(m.Compared), tolerance, m.Worst.Off, m.Worst.Step)
	}
	return fmt.Sprintf("; %s done again, and the losses differ: at step %d it was %v and is %v", steps(m.Compared), m.FirstOff.Step, *m.FirstOff.Before, *m.FirstOff.After)
}

func steps(n int) string {
	if n == 1 {
		return "1 step was"
	}
	return fmt.Sprintf("%d steps were", n)
}

// course is what was done to the job last.
func (j judge) course() string {
	for _, m := range slices.Backward(j.moves) {
		if m.Cause != ByItself {
			return j.left(m) + "."
		}
	}
	return "its machine was not taken away yet."
}

func (j judge) rejections() (out []string) {
	for _, r := range j.History.Rejected {
		out = append(out, fmt.Sprintf("the checkpoint of step %d could not be restored: %s: %s.", r.Checkpoint.Step, r.Path, r.Detail))
	}
	return out
}

// noticeOf is what is recorded of a machine's notice.
func (j judge) noticeOf(t Taken) (events.JobNoticed, bool) {
	for _, n := range j.History.Noticed {
		if n.Lease == t.Life.Lease {
			return n, true
		}
	}
	return events.JobNoticed{}, false
}

// late is how many steps a trainer may make between its notice, as we know of it,
// and its save.
const late = 2

// heard says whether a trainer saved on its notice: a checkpoint that came after
// it, of the step it was at or a later one. One that its own rhythm would have
// brought as well, some steps later, is none.
func (j judge) heard(t Taken) (Commit, bool) {
	n, ok := j.noticeOf(t)
	if !ok {
		return Commit{}, false
	}
	c, ok := j.History.committed(t.Life.Epoch)
	at := noticedAt(j.Run, j.life(t.Life.Epoch))
	if !ok || c.At.Before(n.Seen) {
		return Commit{}, false
	}
	if j.ordinal() {
		return c, true // its number says nothing of its step
	}
	if c.Checkpoint.Step < at {
		return Commit{}, false
	}
	return c, at < 0 || c.Checkpoint.Step <= at+late || !j.rhythmic(c)
}

// rhythmic says whether a checkpoint came as many steps after the one before it as
// they usually do.
func (j judge) rhythmic(c Commit) bool {
	every, last := rhythm(j.History.Commits), j.life(c.Epoch).From
	for _, have := range j.History.Commits {
		if have.Epoch != c.Epoch || have.Checkpoint.Step >= c.Checkpoint.Step {
			continue
		}
		if every == nil { // the first tells the rhythm
			d := have.Checkpoint.Step - last
			every = &d
		}
		last = max(last, have.Checkpoint.Step)
	}
	return every != nil && c.Checkpoint.Step-last == *every
}

func (j judge) life(epoch int) Life {
	i := slices.IndexFunc(j.Lives, func(l Life) bool { return l.Epoch == epoch })
	if i < 0 {
		return Life{}
	}
	return j.Lives[i]
}
