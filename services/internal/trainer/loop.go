package trainer

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"
)

// maxHistory bounds the loss history in a checkpoint: its newest entries stay.
const maxHistory = 10_000

// loop trains from step to step. Between two steps is a boundary: the only
// place where it looks at signals, and where it saves.
type loop struct {
	settings
	text     corpus
	args     arguments
	state    *state
	pass     *pass
	out      output
	progress *progressFile
	evidence *evidenceLog
	signals  <-chan os.Signal
	now      func() time.Time

	pid      int
	pidStart uint64

	digested  int // the step sum is of, 0 for none
	sum       string
	scratch   []byte
	savedDir  string // newest checkpoint this process wrote or resumed from
	savedStep int
	wanted    bool // a save was asked for before there was a step
	due       time.Time
	noticed   bool
}

func (l *loop) run(ctx context.Context) error {
	started := l.now()
	l.due = started
	if l.savedDir != "" {
		l.out.event("resumed", l.state.step, l.savedDir)
	} else {
		l.out.event("started", 0, "")
	}
	for l.state.step < l.Steps {
		stop, err := l.boundary(ctx)
		if err != nil {
			return err
		}
		if stop {
			return l.stop()
		}
		if err := l.trainStep(started); err != nil {
			return err
		}
		if l.state.step == l.StallAtStep {
			if err := l.report(); err != nil {
				return err
			}
			l.out.event("stalled", l.state.step, "")
			for { // not even SIGTERM ends it, as with a hang in a driver
				time.Sleep(time.Hour)
			}
		}
	}
	if err := l.save(); err != nil {
		return err
	}
	l.out.event("finished", l.state.step, l.savedDir)
	return nil
}

// stop saves and says that it was told to.
func (l *loop) stop() error {
	if l.state.step > 0 {
		if err := l.save(); err != nil {
			return err
		}
	}
	l.out.event("stopped", l.state.step, l.savedDir)
	return exitf(CodeStop, "told to stop at step %d", l.state.step)
}

// trainStep trains one step, and leaves its traces.
func (l *loop) trainStep(started time.Time) error {
	l.state.advance(l.pass, l.text, l.Seed)
	step := l.state.step
	if x := float64(l.state.loss); math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("loss is %v at step %d: training has diverged", x, step)
	}
	if err := l.record(PhaseStep); err != nil {
		return err
	}
	if step%l.LogEvery == 0 || step == l.Steps {
		l.logLoss(l.now().Sub(started))
	}
	if step == l.ExitAtStep {
		return exitf(l.ExitCode, "--exit-code-at-step: ending at step %d as asked", step)
	}
	// Before a save, too: whoever is killed in it has made the step.
	if l.progress.due(l.now()) {
		if err := l.report(); err != nil {
			return err
		}
	}
	if l.wanted || step%l.SaveEvery == 0 || step == l.Steps {
		l.wanted = false
		return l.save()
	}
	return nil
}

func (l *loop) logLoss(took time.Duration) {
	epoch := l.textsRead()
	l.out.loss(l.state.step, l.state.loss, epoch, took)
	h := append(l.state.history, logEntry{epoch, rate(l.state.step), l.state.loss, l.state.step})
	l.state.history = h[max(0, len(h)-maxHistory):]
}

// textsRead is how many times the text's length has been drawn in examples,
// which is what Hugging Face calls an epoch.
func (l *loop) textsRead() float64 {
	return float64(l.state.step*batchSize) / float64(len(l.text.text))
}

// save writes the checkpoint of this step, unless it is there already from this
// process or from the one it resumed: writing it again would only put the one
// good copy at risk.
func (l *loop) save() error {
	dir := checkpointDir(l.Output, l.state.step)
	if l.savedStep == l.state.step && sameDir(l.savedDir, dir) {
		return l.report()
	}
	begun := l.now()
	l.out.event("saving", l.state.step, dir)
	if err := l.record(PhaseSaveBegin); err != nil {
		return err
	}
	if err := saveCheckpoint(l.Config, l.args, l.state, l.textsRead()); err != nil {
		return fmt.Errorf("saving %s: %w", dir, err)
	}
	l.savedDir, l.savedStep = dir, l.state.step
	if err := l.record(PhaseSaveEnd); err != nil {
		return err
	}
	l.out.saved(l.state.step, dir, l.now().Sub(begun))
	if err := rotate(l.Output, l.state.step, l.SaveTotalLimit); err != nil {
		return fmt.Errorf("deleting old checkpoints: %w", err)
	}
	return l.report()
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// digest is that of the weights now, computed once per step and only for steps
// that are told to somebody.
func (l *loop) digest() string {
	if l.digested != l.state.step || l.sum == "" {
		l.sum, l.scratch = digest(l.state.weights.flat, l.scratch)
		l.digested = l.state.step
	}
	return l.sum
}

func (l *loop) record(phase string) error {
	if l.Evidence == "" {
		return nil
	}
	return l.evidence.add(Evidence{
		Job: l.job, Epoch: l.epoch, PID: l.pid, PIDStart: l.pidStart,
		Step: l.state.step, Loss: l.state.loss, Digest: l.digest(), Time: l.now().UTC(), Phase: phase,
	})
}

// report writes the progress file.
func (l *loop) report() error {
	if l.Progress == "" {
		return nil
	}
	return l.progress.write(Progress{
		Step: l.state.step, Loss: l.state.loss, Digest: l.digest(), SavedStep: l.savedStep,
	}, l.now())
}
