package rehearse

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// unfinished is a rehearsal whose time was over too soon.
func (j judge) unfinished() (Verdict, bool) {
	if j.Complete {
		return Verdict{}, false
	}
	l := j.newest()
	if quiet, limit, is := j.quiet(l); is {
		return j.stalled(fmt.Sprintf("no step since step %d for %s; %s", l.Last(), span(quiet), limit)), true
	}
	if _, saved := j.firstCommit(); !saved && !j.Look.Trainer.IsZero() {
		return j.noCheckpoint(l), true
	}
	v := Verdict{Kind: TooSlow, Title: fmt.Sprintf("It is too slow to be rehearsed in %s.", span(j.Limit)), Saw: append([]string{j.where(l)}, j.sights()...)}
	if j.Reached != Starting {
		v.Saw = append(v.Saw, "what was left to see: "+string(j.Reached)+".")
	}
	if j.Look.Trainer.IsZero() {
		v.Change = []string{"give --for " + j.suggest() + ". Inputs and setup are fetched and run anew on every machine, so their time is part of every move."}
		return v, true
	}
	v.Change = []string{"give --for " + j.suggest() + ", or let it save more often while it is rehearsed ($" + Variable + " is 1 then)."}
	return v, true
}

// quiet says whether a trainer has told no step for much longer than it usually takes.
func (j judge) quiet(l Life) (quiet time.Duration, limit string, is bool) {
	usual, known := l.rhythm()
	if !known || j.gone(l) {
		return 0, "", false
	}
	quiet = j.Ended.Sub(l.lastWord())
	return quiet, "it told one every " + span(usual) + " before", quiet > max(l.patience(), j.Limit/4)
}

// gone says whether a life's machine has been taken from under it.
func (j judge) gone(l Life) bool {
	return slices.ContainsFunc(j.Taken, func(t Taken) bool {
		return t.Life.Lease == l.Lease && (!t.Notice || j.Ended.Sub(t.At) > j.Notice)
	})
}

// where says how far it came.
func (j judge) where(l Life) string {
	switch {
	case l.Epoch == 0 && j.History.Waiting != "":
		return "it has no machine: " + j.History.Waiting + "."
	case l.Epoch == 0:
		return "its machine has not started yet."
	case j.Look.Trainer.IsZero():
		return "its setup and inputs are not done after " + span(j.Ended.Sub(l.Placed)) + "."
	case l.First < 0 && len(l.Told) == 0:
		return fmt.Sprintf("its script has run for %s and made no step that is known.", span(j.Ended.Sub(j.Look.Trainer)))
	}
	return fmt.Sprintf("it was at step %d when time was over.", l.Last())
}

// suggest is a time in which it may come to an end.
func (j judge) suggest() string {
	need := 3 * j.Limit
	if c, ok := j.firstCommit(); ok {
		need = max(4*c.At.Sub(j.Began), 2*j.Limit)
	}
	return (need + time.Minute - 1).Truncate(time.Minute).String()
}

func (j judge) noCheckpoint(l Life) Verdict {
	v := Verdict{
		Kind: NoCheckpoint, Title: fmt.Sprintf("It has written no checkpoint in %s.", span(j.Ended.Sub(j.Look.Trainer))),
		Saw:     []string{j.where(l), j.Look.words()},
		Matters: "whatever it has done since its last checkpoint is lost with its machine.",
	}
	switch {
	case len(j.Look.Elsewhere) > 0:
		v.Change = []string{"write checkpoints into $SPOTFERRY_CHECKPOINT_DIR, or name their directory, below the job's own, in policy.checkpoint.dir" + j.Look.suggestDir() + "."}
	case len(j.Look.Candidates) > 0:
		v.Change = []string{"see why it is never whole. If its layout is your own, write a file last that says so, and name it: policy.checkpoint {framework: plain, marker: DONE}."}
	case len(j.Look.Names) > 0:
		v.Change = []string{"nothing there is called like a checkpoint of a framework that is known: name it in policy.checkpoint.framework; for a layout of your own write a file last that says that it is whole, and name it: {framework: plain, marker: DONE}. The last number in a directory's name is its step."}
	default:
		v.Change = []string{"write checkpoints into $SPOTFERRY_CHECKPOINT_DIR, and at least one in " + span(j.Limit/3) + "; or give --for more time than its interval, such as " + j.suggest() + "."}
	}
	if strings.TrimSpace(j.Look.Framework) != "" && len(j.Look.Elsewhere) == 0 && len(j.Look.Candidates) == 0 {
		v.Saw = append(v.Saw, "its framework was taken for "+j.Look.Framework+".")
	}
	return v
}
