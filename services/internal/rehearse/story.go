package rehearse

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Act is what a rehearsal does next.
type Act string

// The acts.
const (
	Watch        Act = "watch"
	TakeNoticed  Act = "take-with-notice"
	TakeSuddenly Act = "take-without-notice"
	Finish       Act = "finish"
)

// Stage is how far a rehearsal is.
type Stage string

// The stages, in their order.
const (
	Starting Stage = "until the first checkpoint"
	Passing  Stage = "training past its checkpoint"
	Noticed  Stage = "taken away with a notice"
	Passing2 Stage = "training past its checkpoint again"
	Sudden   Stage = "taken away without a word"
	Finished Stage = "done"
)

// enough is how many steps are trained past a checkpoint before the machine is
// taken, and how many of those that are trained again are compared.
const enough = 10

// Seen is what is known when something is to be decided.
type Seen struct {
	History History
	Lives   []Life // of the history, with what was told
	Listed  []int  // exit codes after which the job is always started again
}

// Story is the course of a rehearsal. It does no I/O and reads no clock.
type Story struct {
	Until    time.Time // when it ends, whatever is known
	Stage    Stage
	Reached  Stage // the last before Finished
	Complete bool  // it came to its end with all that it was to see
	Taken    []Taken

	since time.Time // when the stage began
}

// NewStory begins a rehearsal.
func NewStory(now time.Time, limit time.Duration) *Story {
	return &Story{Until: now.Add(limit), Stage: Starting, since: now}
}

// Next says what to do. An act is carried out before it is asked again.
func (s *Story) Next(v Seen, now time.Time) Act {
	if s.Stage == Finished || v.History.Over() || crashedAgain(v) || !now.Before(s.Until) {
		return s.finish(now)
	}
	switch s.Stage {
	case Starting:
		if len(v.History.Commits) > 0 {
			s.enter(Passing, now)
		}
	case Passing:
		if s.passed(v, now) {
			return s.take(v, true, now)
		}
	case Noticed:
		if s.resumed(v) {
			s.enter(Passing2, now)
		}
	case Passing2:
		if s.savedAgain(v, now) && s.passed(v, now) {
			return s.take(v, false, now)
		}
	case Sudden:
		if s.resumed(v) {
			s.Complete = true
			return s.finish(now)
		}
	}
	return Watch
}

func (s *Story) finish(now time.Time) Act {
	if s.Stage != Finished {
		s.Reached = s.Stage
		s.enter(Finished, now)
	}
	return Finish
}

func (s *Story) enter(next Stage, now time.Time) { s.Stage, s.since = next, now }

func (s *Story) take(v Seen, notice bool, now time.Time) Act {
	s.Taken = append(s.Taken, Taken{Life: newest(v), Notice: notice, At: now})
	if notice {
		s.enter(Noticed, now)
		return TakeNoticed
	}
	s.enter(Sudden, now)
	return TakeSuddenly
}

// newest is the life that goes on now; the zero life if none has begun.
func newest(v Seen) Life {
	if len(v.Lives) == 0 {
		return Life{}
	}
	return v.Lives[len(v.Lives)-1]
}

// passed says whether the trainer has gone far enough beyond its newest
// checkpoint. With every checkpoint that comes before that, half as far is
// enough, and in the end none: a trainer that saves every fourth step is never ten
// steps past a save.
func (s *Story) passed(v Seen, now time.Time) bool {
	l := newest(v)
	var saves []Commit
	saved := l.From
	for _, c := range v.History.Commits {
		saved = max(saved, c.Checkpoint.Step)
		if c.Epoch == l.Epoch {
			saves = append(saves, c)
		}
	}
	if len(l.Told) == 0 {
		return s.longPast(l, saves, now)
	}
	if _, known := l.rhythm(); known && now.Sub(l.lastWord()) > l.patience() {
		return false // it may hang, which a move would hide
	}
	return l.past(saved) >= enough>>max(len(saves)-1, 0)
}

// longPast stands in for passed where no step is told: half of the time that the
// checkpoint took, at most a quarter of what is left.
func (s *Story) longPast(l Life, saves []Commit, now time.Time) bool {
	if len(saves) == 0 {
		return false
	}
	took := saves[0].At.Sub(l.Placed)
	return now.Sub(saves[0].At) >= min(took/2, s.Until.Sub(saves[0].At)/4)
}

// savedAgain says whether the resumed trainer has saved, so that the second move
// starts from a checkpoint of a run that was resumed itself. Half of the time
// that is left is spent on that.
func (s *Story) savedAgain(v Seen, now time.Time) bool {
	_, ok := v.History.committed(newest(v).Epoch)
	return ok || now.Sub(s.since) >= s.Until.Sub(s.since)/2
}

// resumed says whether the life after the last move has told enough to be judged.
func (s *Story) resumed(v Seen) bool {
	l, taken := newest(v), s.Taken[len(s.Taken)-1]
	if l.Epoch <= taken.Life.Epoch || l.Lease == taken.Life.Lease || l.Started.IsZero() {
		return false
	}
	before := v.Lives[:len(v.Lives)-1]
	again, highest := 0, int64(-1)
	for _, b := range before {
		for _, t := range b.Told {
			if t.Step > l.From {
				highest = max(highest, t.Step)
			}
		}
	}
	for _, t := range l.Told {
		if _, ok := lastTold(before, t.Step); ok && t.Step > l.From {
			again++
		}
	}
	if len(l.Told) == 0 { // only its next checkpoint can tell
		_, saved := v.History.committed(l.Epoch)
		return saved
	}
	return again >= enough || l.Last() > l.From && l.Last() >= highest
}

// crashedAgain says whether the trainer ended by itself with the same code twice,
// three times with a code that the job lists, and saved nothing between.
func crashedAgain(v Seen) bool {
	exits := v.History.Exits
	if len(exits) == 0 {
		return false
	}
	last, same := exits[len(exits)-1], 0
	for _, e := range slices.Backward(exits) {
		if e.Signal != "" || e.Code != last.Code || savedBetween(v.History.Commits, e.At, last.At) {
			break
		}
		same++
	}
	if slices.Contains(v.Listed, last.Code) {
		return same >= 3
	}
	return same >= 2
}

func savedBetween(commits []Commit, from, to time.Time) bool {
	return slices.ContainsFunc(commits, func(c Commit) bool { return c.At.After(from) && c.At.Before(to) })
}

// ordered sorts what was told by its steps.
func ordered(told []Telling) []Telling {
	return slices.SortedFunc(slices.Values(told), func(a, b Telling) int { return cmp.Compare(a.Step, b.Step) })
}

// Spec is what a job's spec is for its rehearsal: the script, its inputs and its
// way of saving as they are; any machine will do, and neither money nor time ends it.
func Spec(spec events.JobSpec) events.JobSpec {
	p := spec.Policy
	spec.Resources = events.Resources{Accelerators: spec.Resources.Accelerators[:min(1, len(spec.Resources.Accelerators))]}
	spec.Policy = events.Policy{
		Budget: budget, Checkpoint: p.Checkpoint, Spot: events.SpotPolicy{Mode: events.SpotOnly}, Work: events.Work{Steps: p.Work.Steps},
		ProgressTimeoutS: p.ProgressTimeoutS, RestartOnExit: p.RestartOnExit, MaxRestarts: p.MaxRestarts,
	}
	envs := map[string]string{Variable: "1"}
	for k, v := range spec.Envs {
		envs[k] = v
	}
	spec.Envs = envs
	return spec
}

// Variable is set in the environment of a job that is only rehearsed, so that it
// can leave alone what others see.
const Variable = "SPOTFERRY_REHEARSAL"

const budget = 1000 * events.Dollar
