package agent

import (
	"cmp"
	"context"
	"time"

	"github.com/spotferry/spotferry/events"
)

// progressed takes what the trainer says between two looks at the disk.
func (a *agent) progressed(w *watcher, p progress, at time.Duration) {
	if w == a.trainer.watch && (a.stage == training || a.stage == leaving) {
		a.told(p, at)
	}
}

// mostTelling is how many renewals that tell a step may wait for their answer.
const mostTelling = 4

// tellSteps has a step told as soon as it is made, so that the record of a
// machine that vanishes says how far it had come. It does not wait for the answer
// to the step before, which a busy gateway may take its time for.
func (a *agent) tellSteps(now time.Duration) {
	if a.stage != training || a.trainer.step <= a.trainer.told || now-a.spoke < a.tellEvery() || a.telling >= mostTelling {
		return
	}
	a.trainer.told, a.spoke = a.trainer.step, now
	a.telling++
	a.spawn(func(ctx context.Context) {
		_ = a.renewOnce(ctx) // one that is lost is made up for by the next
		a.post(func() { a.telling-- })
	})
}

func (a *agent) tellEvery() time.Duration {
	return cmp.Or(a.cfg.TellEvery, a.timers.Heartbeat/25)
}

// looked takes what the watcher saw.
func (a *agent) looked(w *watcher, l look) {
	if w != a.trainer.watch || a.stage != training && a.stage != leaving {
		l.found.release(a.cfg.Log)
		return
	}
	a.trainer.looked = l.began
	a.trainer.decided = !l.undecided
	if l.progressd {
		a.told(l.progress, l.began)
	}
	a.judgeRestore(l.below, "checkpoint's step")
	if a.trainer.finding != nil {
		l.found.release(a.cfg.Log) // saved by a trainer, or on a machine, that is not to be trusted
		return
	}
	if l.found != nil {
		a.complete(l.found)
	}
	a.shipEarly(l.ready)
	a.learnSignal(l)
	a.lookFull = l.full || a.lookFull && l.found == nil
	if l.broken != nil {
		a.blame(a.hostFault("looking for checkpoints", l.broken))
	}
}

// learnSignal takes over the signal that the framework saves on, which it may
// show only in its first checkpoint. One that the job names wins.
func (a *agent) learnSignal(l look) {
	if a.signal != 0 || l.signal == "" {
		return
	}
	signal, err := parseSignal(l.signal)
	if err != nil {
		return
	}
	a.signal = signal
	a.say("on a notice the trainer is asked to save by " + l.signal + ": " + l.why)
}

// told takes the trainer's own word for where it is.
func (a *agent) told(p progress, at time.Duration) {
	if p.Step > a.trainer.step {
		a.trainer.stall.progressed(at)
	}
	a.stepped(p, at)
}

// stepped takes a step that was told, or that a checkpoint is of.
func (a *agent) stepped(p progress, at time.Duration) {
	if a.trainer.resumed && p.Step == 0 && a.trainer.from > 0 {
		return // it has loaded nothing yet
	}
	if a.judgeRestore(p.Step, "step"); a.ignored() {
		return
	}
	first := a.trainer.step < 0
	a.trainer.step = max(a.trainer.step, p.Step)
	a.beat.update(func(h *events.Heartbeat) {
		h.Step, h.Loss = a.trainer.step, p.Loss
		if first {
			h.Clock.FirstStepMS = (at - a.trainer.began).Milliseconds()
		}
	})
	if !first {
		return
	}
	if a.stage == training && !a.trainer.stopping && !a.trainer.loaded {
		a.trainer.loaded = true
		a.enter("training")
	}
	a.renewSoon()
}
