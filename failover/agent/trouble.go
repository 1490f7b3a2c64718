package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// finding is something wrong that would burn money if it went on.
type finding struct {
	kind   events.Trouble
	detail string
	remedy string
	lines  []string // that tell it
}

// ofMachine reports whether the finding is about the machine and not about what
// runs on it: it stays true for whatever is started there next.
func (f finding) ofMachine() bool {
	return f.kind == events.TroubleGPUFault || f.kind == events.TroubleHostFault
}

// The most evidence that a report carries: lines, and bytes of each.
const (
	maxEvidence     = 80
	maxEvidenceLine = 1 << 10
)

// raise ends the trainer because of what was found, and tells the gateway. What
// happens to the job is decided there: nothing is started again here.
//
// A trainer that ignores its checkpoint has nothing worth keeping, and what is
// saved on a faulty machine is not to be trusted. What was complete before is
// shipped, except of the former.
func (a *agent) raise(f finding) {
	if a.stage == waiting && f.ofMachine() {
		a.reportTrouble(f) // the job need not come here
		return
	}
	if a.trainer.finding != nil || a.stage == waiting || a.stage == over || a.stage == leaving && a.trainer.done {
		return
	}
	a.trainer.finding = &f
	a.trainer.reason = string(f.kind) + ": " + f.detail
	a.say(a.trainer.reason)
	a.cfg.Log.Warn("trouble", zap.String("kind", string(f.kind)), zap.String("detail", f.detail), zap.Int64("step", a.trainer.step), zap.Int64("from", a.trainer.from))
	if f.kind == events.TroubleRestoreIgnored {
		a.ship.abandon(a.cfg.Log)
	}
	switch {
	case a.stage == preparing:
		a.trainer.stopping = true
		a.trainer.giveUp()
	case a.stage == training && !a.trainer.stopping:
		a.enter("stopping")
		p := a.trainer.process
		a.endTree(func() error { return p.Kill(context.WithoutCancel(a.ctx)) })
	}
	a.reportTrouble(f)
}

// reportTrouble tells what was found until that has been heard. A gateway that
// does not know the word is told of an end with that reason.
func (a *agent) reportTrouble(f finding) {
	req := events.TroubleRequest{Lease: a.cfg.Bootstrap.Lease, Kind: f.kind, Step: max(a.trainer.step, a.trainer.below), Detail: f.detail, Remedy: f.remedy, Lines: evidence(f.lines)}
	ctx, cancel := context.WithCancel(a.ctx)
	epoch, patience := a.epoch, a.lastWords()
	a.trainer.reported = cancel
	a.working.Go(func() {
		defer cancel()
		a.logs.flush(ctx, a.cfg.Control, patience)
		err := persist(ctx, a.timers.Hold/2, func(ctx context.Context) error { return a.cfg.Control.Trouble(ctx, req) })
		a.answered(err)
		if ctx.Err() != nil {
			return
		}
		a.post(func() {
			if a.epoch != epoch {
				return
			}
			a.trainer.heard, a.trainer.unheard = err == nil, err != nil
			if err != nil {
				a.cfg.Log.Error("the trouble was not taken", zap.Error(err))
			}
		})
	})
}

// settleTrouble ends a start that ended in trouble once the gateway knows. That
// report stands for the one of its end, unless an order waits for an answer.
func (a *agent) settleTrouble() {
	t := &a.trainer
	if t.finding == nil || a.stage != leaving || !t.done || !t.heard && !t.unheard {
		return
	}
	if t.unheard { // it must not look like a trainer that somebody killed, which is started again
		t.exit, t.unheard = Exit{Code: 1}, false
		a.reportDone()
		return
	}
	a.stage = over
	if a.wish != nil && a.wish.kind >= wishStop {
		a.reportDone()
	}
}

// evidence bounds what a report carries to the newest lines.
func evidence(lines []string) []string {
	lines = slices.Clone(lines[max(0, len(lines)-maxEvidence):])
	for i, l := range lines {
		lines[i] = bound(l, maxEvidenceLine)
	}
	return lines
}

// cudaTells are words of a trainer's output that go with a faulty GPU. Alone they
// prove nothing: most of them are also what a bug in the trainer says.
var cudaTells = regexp.MustCompile(`(?i)CUDA error|unspecified launch failure|device lost|uncorrectable ECC|ECC error|NVML|Xid|fallen off the bus|GPU is lost|NCCL.*(unhandled|remote) `)

// gpuFault is a finding with what the trainer said of it.
func (a *agent) gpuFault(detail string, lines []string) finding {
	for _, l := range a.logs.tail(50) {
		if cudaTells.MatchString(l) {
			lines = append(lines, l)
		}
	}
	return finding{kind: events.TroubleGPUFault, detail: detail, lines: lines,
		remedy: "the job goes on elsewhere; if it happens again there, look for what the jobs' own kernels do, or hold the pool"}
}

// blame has the machine at fault for as long as it lives. Nothing that is ordered
// to start on it later does.
func (a *agent) blame(f finding) {
	if a.bad != nil {
		return
	}
	a.bad = &f
	a.cfg.Log.Error("this machine is faulty", zap.String("kind", string(f.kind)), zap.String("detail", f.detail))
	a.raise(f)
}

// diskFault reports whether err means that the machine's disk is broken. A full
// one is not.
func diskFault(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) }

func (a *agent) hostFault(what string, err error) finding {
	return finding{kind: events.TroubleHostFault, detail: fmt.Sprintf("%s: %v", what, err), lines: a.kernelLines(),
		remedy: "the job goes on elsewhere; hold the pool if its machines go on like this"}
}

// bound cuts a text to a number of bytes, and repairs what is not UTF-8.
func bound(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	const more = "…"
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}

// killedForMemory reports whether the kernel ended the trainer because the
// machine had no memory left.
func (a *agent) killedForMemory(exit Exit) bool {
	return exit.Signal == "SIGKILL" && a.outOfMemory > a.trainer.began
}

// endReason is the reason of an end, with what is known of the machine.
func (a *agent) endReason(exit Exit) string {
	reason := cmp.Or(a.trainer.reason, "the trainer "+exit.String())
	if a.killedForMemory(exit) {
		reason += ": the machine was out of memory"
	}
	if exit != (Exit{}) && a.diskFull() {
		reason += "; the machine's disk is full"
	}
	return reason
}
