package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/trainer"
)

// reference is a job run without Spotferry.
type reference struct {
	digest string // "" when the job leaves no weights
	err    error
}

// uninterrupted runs a job's own script in a plain shell, without agent, store
// or bus, and returns the digest of the weights that it ends with.
func (d *demo) uninterrupted(ctx context.Context, j demoJob) reference {
	dir := filepath.Join(d.dir, "uninterrupted", string(j.id))
	checkpoints := filepath.Join(dir, "checkpoints")
	if err := os.MkdirAll(checkpoints, 0o700); err != nil {
		return reference{err: err}
	}
	work := dir
	if j.job.Workdir != "" {
		work = filepath.Join(dir, "work")
		if err := os.CopyFS(work, os.DirFS(j.job.Workdir)); err != nil {
			return reference{err: fmt.Errorf("copying the working directory: %w", err)}
		}
	}
	script := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(script, []byte("set -e\n"+j.job.Spec.Setup+"\n"+j.job.Spec.Run+"\n"), 0o600); err != nil {
		return reference{err: err}
	}
	c := exec.CommandContext(ctx, "bash", script)
	c.Dir = work
	c.Env = []string{"PATH=" + filepath.Join(d.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "SPOTFERRY_CHECKPOINT_DIR=" + checkpoints, "SPOTFERRY_RESUME_FROM="}
	for k, v := range j.job.Spec.Envs {
		c.Env = append(c.Env, k+"="+v)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the shell's children end with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	if out, err := c.CombinedOutput(); err != nil {
		if len(out) > 300 {
			out = out[len(out)-300:]
		}
		return reference{err: fmt.Errorf("running %s without Spotferry: %w: %s", j.job.Spec.Name, err, out)}
	}
	return newestWeights(checkpoints)
}

// newestWeights finds the last checkpoint of a finished run.
func newestWeights(dir string) reference {
	found, err := filepath.Glob(filepath.Join(dir, "checkpoint-*", "model.safetensors"))
	if err != nil || len(found) == 0 {
		return reference{err: err}
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return stepOf(a) - stepOf(b) })
	digest, err := trainer.DigestFile(newest)
	return reference{digest: digest, err: err}
}

func stepOf(path string) int {
	var n int
	_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(path)), "checkpoint-%d", &n)
	return n
}

// follower shows the events that somebody who watches cares about.
type follower struct {
	*demo
	began time.Time
	next  uint64
	names map[string]string // job id -> name
	jobs  []console.Job
}

var shown = []string{
	"job.leased", "job.placed", "job.started", "job.noticed", "job.notice-withdrawn", "job.lost", "job.exited", "job.waiting",
	"job.move-requested", "job.failed-over", "job.ended", "job.checkpoint-rejected",
	"job.troubled", "job.paused", "job.resumed",
}

// look shows what is new, and says whether every job is closed.
func (f *follower) look(ctx context.Context) (done bool, err error) {
	if f.jobs, err = console.Ask[[]console.Job](ctx, f.session.client, console.GetJobs, console.Query{}); err != nil {
		return false, err
	}
	f.names = map[string]string{}
	var step, steps int64
	done = true
	for _, j := range f.jobs {
		f.names[string(j.ID)] = j.Name
		done = done && j.Closed
		step, steps = step+max(j.Step, 0), steps+j.Steps
	}
	for {
		p, err := console.Ask[console.Page](ctx, f.session.client, console.GetEvents, console.Query{After: f.next})
		if err != nil {
			return false, err
		}
		for _, e := range p.Entries {
			f.show(e)
		}
		f.next = p.Next
		if !p.More {
			break
		}
	}
	f.e.term.Progress(step, steps, fmt.Sprintf("%d jobs", len(f.jobs)))
	return done, nil
}

func (f *follower) show(e console.Entry) {
	if !slices.Contains(shown, e.Type) {
		return
	}
	f.e.term.Note("%6.1fs  %-10.10s %-17s %s", e.Time.Sub(f.began).Seconds(), f.names[e.Subject], strings.TrimPrefix(e.Type, "job."), e.Summary)
}
