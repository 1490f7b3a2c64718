package rehearse

import (
	"fmt"
	"slices"
)

// crash is a trainer that ends with a code of its own again and again.
func (j judge) crash(code int) Verdict {
	l := j.newest()
	v := Verdict{Kind: Crashes, Lines: j.Lines, Matters: "it would end like that on any machine, and be given up at the second time."}
	switch {
	case l.First < 0 && len(l.Told) == 0 && !l.Resumed:
		v.Kind, v.Title = NotStarted, fmt.Sprintf("It ends with exit code %d before its first step.", code)
		if n := len(j.History.Exits); n > 0 {
			v.Saw = append(v.Saw, j.History.Exits[n-1].Reason+".")
		}
		v.Change = []string{"see its last lines: a package, a path or a variable may be missing on a machine that has only what setup, workdir and envs give it."}
	case l.First < 0 && len(l.Told) == 0:
		v.Title = "It cannot be started from its own checkpoint."
		v.Saw = []string{fmt.Sprintf("its checkpoint of step %d was restored, and it ended with exit code %d before a step.", l.From, code)}
		v.Change = []string{"see its last lines, and start it by hand from a checkpoint of its own: it may miss a file, or load it onto a device that is not there."}
	default:
		v.Title = "It crashes at the same step every time."
		v.Saw = j.crashes(code)
		v.Change = []string{
			"see its last lines: what is at that step will be there on every machine, such as a broken sample, a full disk, or a loss that is not a number.",
			"mend the script, or have it pass over what it cannot use, and rehearse again.",
		}
		if !j.sameStep() {
			v.Title = "It crashes again and again before it can save."
		}
	}
	return v
}

// crashes says at which step each of the last two lives ended.
func (j judge) crashes(code int) (out []string) {
	for i, l := range j.Lives {
		if i < len(j.Lives)-2 || len(l.Told) == 0 {
			continue
		}
		how := "it began at the beginning"
		if l.Resumed {
			how = fmt.Sprintf("it was started again from its checkpoint of step %d", l.From)
		}
		if i < len(j.Lives)-1 && !j.exited(l.Epoch) {
			out = append(out, fmt.Sprintf("%s, and was taken away at step %d.", how, l.Last()))
			continue
		}
		out = append(out, fmt.Sprintf("%s, and ended with exit code %d; the last step it told was %d.", how, code, l.Last()))
	}
	return out
}

func (j judge) exited(epoch int) bool {
	return slices.ContainsFunc(j.History.Exits, func(e Exit) bool { return e.Epoch == epoch })
}

// near is how far apart the last steps told may be of two trainers that end at the
// same one: the last may have been made and not told.
const near = 2

// sameStep says whether the last two lives got equally far.
func (j judge) sameStep() bool {
	n := len(j.Lives)
	if n < 2 {
		return false
	}
	far := j.Lives[n-1].Last() - j.Lives[n-2].Last()
	return -near <= far && far <= near
}

// differs is a trainer that goes on with other losses.
func (j judge) differs() (Verdict, bool) {
	for _, m := range j.moves {
		if m.FirstOff == nil || m.Cause == ByItself && len(j.Taken) > 0 && len(j.moves) > 1 {
			continue
		}
		v := Verdict{
			Kind: LossesDiffer, Title: "It goes on from its checkpoint, but not as the run before.", Saw: j.sights(),
			Matters: "each move would train something else than a run that nobody disturbs: work is lost, or done twice on the same data.",
		}
		what, look := j.diagnose(m)
		v.Saw = append(v.Saw, what)
		v.Change = look
		if drift(m) {
			v.Change = append(v.Change, fmt.Sprintf("if that is as near as its kernels come, which need not add up in the same order twice, say so: --tolerance %.0e.", 2*m.Worst.Off))
		}
		return v, true
	}
	return Verdict{}, false
}

// drift says whether losses are off by little.
func drift(m Resumption) bool { return m.Worst != nil && m.Worst.Off < 0.01 }

// diagnose says from where losses begin to differ what was not restored. The loss
// of the first step after a checkpoint is that of its weights on the next batch;
// only those of later steps depend on the optimizer and the schedule.
func (j judge) diagnose(m Resumption) (what string, look []string) {
	if m.Agreed > 0 {
		return fmt.Sprintf("%s as before, so weights and data were right; what updates the weights was not.", firstLosses(m.Agreed)),
			[]string{"restore the optimizer's state, the learning-rate schedule and the gradient scaler from the checkpoint as well as the weights.", hints(j.framework()).optimizer}
	}
	if j.untrained(m) {
		return fmt.Sprintf("its loss at step %d is again what it was at its very beginning: it counts on, and its weights are new.", m.FirstOff.Step),
			[]string{"load the model's weights from $SPOTFERRY_RESUME_FROM, not only the step; see that their names match what the model expects.", hints(j.framework()).weights}
	}
	return "the losses differ from the first step on: the weights, the batch, or what is random in a step is not what it was.",
		[]string{"save and restore the random states of all libraries, and the position in the data.", hints(j.framework()).random}
}

func firstLosses(n int) string {
	if n == 1 {
		return "the first loss after the checkpoint was"
	}
	return fmt.Sprintf("the first %d losses after the checkpoint were", n)
}

// untrained says whether the loss after a move is nearer to the very first one
// than to those right before the checkpoint, and those are clearly apart.
func (j judge) untrained(m Resumption) bool {
	if len(j.Lives) == 0 || m.FirstOff == nil {
		return false
	}
	first := ordered(j.Lives[0].Told)
	if len(first) == 0 || first[0].Loss == nil || first[0].Step > m.From/2 {
		return false
	}
	begin, was, is := *first[0].Loss, *m.FirstOff.Before, *m.FirstOff.After
	return apart(begin, was) > 0.1 && (is-was)*(begin-was) > 0 && abs(is-begin) < abs(is-was)
}

func abs(f float64) float64 { return max(f, -f) }

// deaf is a trainer that does not save on the signal that its job file names.
func (j judge) deaf() (Verdict, bool) {
	signal := j.Spec.Policy.Checkpoint.Signal
	m, moved := j.moved(WithNotice)
	if signal == "" || !moved || m.First < 0 {
		return Verdict{}, false
	}
	for _, t := range j.Taken {
		n, known := j.noticeOf(t)
		if _, heard := j.heard(t); !t.Notice || heard || !known {
			continue
		}
		v := Verdict{
			Kind: DeafToNotice, Title: "It resumes, but saves only in its own rhythm: it does not save on its notice.", Saw: j.sights(),
			Matters: fmt.Sprintf("with every notice the %d steps since its last checkpoint are lost and done again.", max(m.Reached-m.From, 0)),
		}
		if n.SignalMS < 0 {
			v.Saw = append(v.Saw, "no process of the job has a handler for "+signal+" (policy.checkpoint.on_notice), or a save was expected to take longer than the notice.")
		} else {
			v.Saw = append(v.Saw, fmt.Sprintf("%s (policy.checkpoint.on_notice) was sent to it %s after the notice, and no checkpoint of that step or a later one came before the next machine was there.", signal, millis(n.SignalMS)))
		}
		v.Change = []string{
			"handle " + signal + ": set a flag in the handler, and save at the end of the step.",
			hints(j.framework()).signal,
			"a wrapper such as bash does not pass a signal on: start the trainer with exec.",
		}
		return v, true
	}
	return Verdict{}, false
}
