package kills

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// tenant is whose checkpoints they are in the store.
const tenant = "local"

// proveCommits looks at what was committed, in full, as it comes.
func (w *world) proveCommits() {
	for {
		select {
		case c := <-w.prove:
			w.proveCommit(c)
			w.proofs.Done()
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *world) proveCommit(c commit) {
	p := proven{Job: string(c.job), Name: c.Checkpoint.Name, Step: c.Checkpoint.Step}
	err := w.restores(c.job, c.Checkpoint)
	p.Time = time.Now().UTC()
	if err != nil {
		if j := w.rec.job(c.job); slices.ContainsFunc(j.Drops, func(d failover.Dropped) bool { return d.Name == c.Checkpoint.Name }) {
			p.Gone = true
		} else {
			p.Wrong = err.Error()
			w.fail("%s: the commit of step %d in epoch %d is not what it should be: %v", c.job, c.Checkpoint.Step, c.Epoch, err)
		}
	}
	if err := jot(w.evidence(provenFile), p); err != nil {
		w.fail("%v", err)
	}
}

// restores reads every byte of a checkpoint, restores it as an agent does, and
// compares it with what its trainer wrote.
func (w *world) restores(job events.JobID, c events.Checkpoint) error {
	s, err := w.shapeOf(job)
	if err != nil {
		return err
	}
	e, err := checkpoint.New(checkpoint.Config{Store: w.store, Tenant: tenant, Job: string(job)})
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(w.path("tmp"), "proof")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ref := checkpoint.Ref{Name: c.Name, Epoch: c.Epoch, Step: c.Step, Digest: c.Digest, Bytes: c.Bytes, Files: c.Files}
	if err := e.Verify(w.ctx, ref, true); err != nil {
		return err
	}
	got, err := e.Restore(w.ctx, checkpoint.RestoreRequest{Refs: []checkpoint.Ref{ref}, Dir: tmp})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return err
	}
	defer root.Close()
	adapter, err := framework.New(s.Adapter, framework.Config{Marker: s.Marker})
	if err != nil {
		return err
	}
	from, err := adapter.Finish(root, got.Name)
	if err != nil {
		return err
	}
	step, _, err := s.load(tmp, filepath.Join(tmp, from), w.opt.seed)
	if err == nil && step != c.Step {
		err = fmt.Errorf("it is of step %d", step)
	}
	return err
}

func (w *world) shapeOf(job events.JobID) (shape, error) {
	for _, s := range shapes() {
		if jobID(s.Name) == job {
			return s, nil
		}
	}
	return shape{}, fmt.Errorf("job %s is none of ours", job)
}

// undisturbed runs a layout's trainer to a step with nobody else there, and returns the
// state after each step.
func (w *world) undisturbed(s shape, last int64) (map[int64]string, error) {
	home := filepath.Join(w.path("undisturbed"), s.Name)
	g := ground{home}
	at := filepath.Join(home, "checkpoints")
	for _, d := range []string{at, g.evidence("")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	task := filepath.Join(home, jobFile)
	if err := put(task, work{Layout: s.Name, Seed: w.opt.seed, Last: last}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, w.exe, "trainer", task)
	c.Dir = home
	c.Env = []string{"HOME=" + filepath.Join(home, "home"), "TMPDIR=" + w.path("tmp"), "SPOTFERRY_CHECKPOINT_DIR=" + at, "SPOTFERRY_EVIDENCE_DIR=" + g.evidence(".")}
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("running %s undisturbed: %w: %s", s.Name, err, out)
	}
	all, err := rows[trained](g.evidence(trainerFile))
	digests := map[int64]string{}
	for _, row := range all {
		if row.Phase == rowStep {
			digests[row.Step] = row.Digest
		}
	}
	if err == nil && int64(len(digests)) != last {
		err = errors.New("it made another number of steps")
	}
	return digests, err
}

// judgeProofs counts what was found in the store, and looks once more at what is kept.
func (w *world) judgeProofs(v *verdict) {
	all, err := rows[proven](w.evidence(provenFile))
	if err != nil {
		w.fail("%v", err)
	}
	for _, p := range all {
		v.Commits++
		if p.Gone {
			v.Gone++
		}
	}
	for _, id := range w.rec.ids() {
		for _, c := range w.rec.job(id).Resume() {
			if err := w.restores(id, c); err != nil {
				w.fail("%s: at the end the checkpoint of step %d is not what it should be: %v", id, c.Step, err)
			}
			v.Kept++
		}
		if n := len(w.rec.job(id).Rejected); n > 0 {
			w.fail("%s: %d checkpoints were rejected by a restore", id, n)
		}
	}
}
