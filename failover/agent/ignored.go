package agent

import (
	"fmt"
	"os"

	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/events"
)

// judgeRestore looks at the first step after a restore, told or of the first
// checkpoint. A trainer that goes on makes step N+1, or tells N again; one that
// is below N has begun anew, and every hour of it would be paid for twice. Step 0
// is no step: some trainers tell it before they have loaded anything.
func (a *agent) judgeRestore(step int64, of string) {
	t := &a.trainer
	if !t.resumed || t.judged || step <= 0 || a.stage != training {
		return
	}
	t.judged = true
	if step >= t.from {
		return
	}
	t.below = step
	a.raise(finding{
		kind:   events.TroubleRestoreIgnored,
		detail: fmt.Sprintf("the checkpoint of step %d was restored, but the trainer's first %s is %d", t.from, of, step),
		remedy: framework.Resuming(a.frameworkName(), a.spec.Run),
		lines:  a.logs.tail(20),
	})
}

// frameworkName is the job's framework, as far as it is known.
func (a *agent) frameworkName() string {
	if w := a.trainer.watch; w != nil {
		if kind := w.kind.Load(); kind != nil {
			return *kind
		}
	}
	return a.spec.Policy.Checkpoint.Framework
}

// ignored reports whether the trainer has begun anew in spite of its checkpoint.
func (a *agent) ignored() bool {
	return a.trainer.finding != nil && a.trainer.finding.kind == events.TroubleRestoreIgnored
}

// lookBelow returns the step of a complete checkpoint that was made since the
// start and is older than the one restored, or 0: who makes that has begun anew.
// It is looked for until the first newer one is found. One whose files are older
// than the start was copied here by the job, and proves nothing.
func (w *watcher) lookBelow(cs []framework.Candidate) int64 {
	if w.from == 0 || w.newest > w.from {
		return 0
	}
	started, err := os.Lstat(w.a.place.run)
	if err != nil {
		return 0
	}
	for _, c := range cs {
		if c.Step >= w.from || c.Step == 0 || w.before[w.identity(c)] {
			continue
		}
		files := c.Files
		if files == nil {
			files = []string{c.Name}
		}
		info, err := w.root.Lstat(files[0])
		if err != nil || info.ModTime().Before(started.ModTime()) {
			continue
		}
		if ok, _, err := w.adapter.Complete(w.root, c); ok && err == nil {
			return c.Step
		}
	}
	return 0
}
