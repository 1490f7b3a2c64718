package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/dev"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/rehearse"
)

// private is an environment in which every command means the rehearsal's own
// system, whatever flags and variables say of another.
func (r *rehearsal) private(dir string) *environment {
	p := *r.e
	p.state, p.bus, p.creds = dir, "", ""
	p.getenv = func(name string) string {
		switch name {
		case "SPOTFERRY_STATE", "SPOTFERRY_BUS_URL", "SPOTFERRY_CREDS":
			return ""
		}
		return r.e.getenv(name)
	}
	p.pack, p.keep, p.open = p.packWorkdir, p.keepArchive, p.openSystem
	return &p
}

// play runs a system, has the job rehearsed in it, and takes both down.
func (r *rehearsal) play(ctx context.Context, dir string, job jobfile.Job) (rehearse.Run, error) {
	logger, err := fileLogger(filepath.Join(dir, "dev.log"))
	if err != nil {
		return rehearse.Run{}, err
	}
	defer func() { _ = logger.Sync() }()
	p := r.private(dir)
	cfg := dev.Config{
		Dir: dir, Version: p.version, Now: p.now, Logger: logger, Scale: 1, Divide: rehearse.Divide(r.limit), Market: rehearse.Market(job.Spec),
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	cfg.Ready = func() { close(ready) }
	system, stop := context.WithCancel(context.WithoutCancel(ctx)) // an interrupt takes the job down first
	go func() { ended <- dev.Run(system, cfg) }()
	defer func() { stop(); <-ended }()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		return rehearse.Run{}, fmt.Errorf("starting the rehearsal's system: %w", err)
	case <-ctx.Done():
		return rehearse.Run{}, ctx.Err()
	}
	return r.rehearse(ctx, p, dir, job, ended)
}

func (r *rehearsal) rehearse(ctx context.Context, p *environment, dir string, read jobfile.Job, ended chan error) (seen rehearse.Run, err error) {
	l, err := p.connect(ctx, false)
	if err != nil {
		return seen, err
	}
	defer l.Close()
	job := prepared{workdir: read.Workdir, repository: read.Repository, mounts: read.Mounts, secrets: read.Secrets, request: console.SubmitRequest{
		ID: p.mint(), Spec: rehearse.Spec(read.Spec),
	}}
	for _, step := range []func() error{
		func() error { return p.bring(ctx, &job) },
		func() error { return p.seal(ctx, l, &job) },
		func() error { _, err := p.submit(ctx, l, job.request); return err },
	} {
		if err := step(); err != nil {
			return seen, err
		}
	}
	seller := filepath.Join(dir, "seller")
	defer func() { err = errors.Join(err, r.clear(ctx, l, seller, job.request.ID)) }()
	own := make(chan error, 1)
	watch, done := context.WithCancel(ctx)
	defer done()
	go func() {
		select {
		case err := <-ended:
			ended <- err // for whoever waits for the system's end
			own <- err
		case <-watch.Done():
		}
	}()
	return rehearse.Play(ctx, rehearse.Config{
		Client: l.client, Seller: seller, Job: job.request.ID, Spec: job.request.Spec, Limit: r.limit, Notice: r.notice, Tolerance: r.tolerance,
		Poll: 50 * time.Millisecond, Now: p.now, Ended: own, Show: r.show,
	})
}

// taking down is what the machines of a rehearsal get to end in.
const takingDown = 10 * time.Second

// clear ends the job and takes its machines away. An interrupt does not stop it.
func (r *rehearsal) clear(ctx context.Context, l *link, seller string, job events.JobID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takingDown)
	defer cancel()
	_, err := ask[console.Job](ctx, l, console.DoCancel, console.CancelRequest{Job: string(job), Reason: "the rehearsal is over"})
	var refused *console.Problem
	if err != nil && !errors.As(err, &refused) { // one that has ended cannot be cancelled
		return fmt.Errorf("ending the rehearsal: %w", err)
	}
	for {
		j, err := ask[console.Job](ctx, l, console.GetJob, console.Query{Job: string(job)})
		if err != nil {
			return fmt.Errorf("ending the rehearsal: %w", err)
		}
		if err := rehearse.Clear(ctx, seller, job, j.OpenLeases); err != nil {
			return err
		}
		if j.Over && len(j.OpenLeases) == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("ending the rehearsal: its machines are still there after %s", short(takingDown))
		}
	}
}

// show says what goes on.
func (r *rehearsal) show(s rehearse.Sign) {
	if s.Line != "" {
		at := ""
		if s.Step >= 0 {
			at = fmt.Sprintf(", at step %d", s.Step)
		}
		r.e.term.Note("%6.1fs  %s%s", s.Elapsed.Seconds(), s.Line, at)
	}
	text := string(s.Stage)
	if s.Step >= 0 {
		text = fmt.Sprintf("step %d, %s", s.Step, text)
	}
	r.e.term.Progress(int64(s.Elapsed), int64(r.limit), text)
}
