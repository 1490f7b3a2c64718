package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// verified is what verify prints.
type verified struct {
	Name  string `json:"name"`
	Step  int64  `json:"step"`
	Good  bool   `json:"good"`
	Deep  bool   `json:"deep"` // every byte was read
	Path  string `json:"path,omitempty"`
	Error string `json:"error,omitempty"`
}

func checkpointVerifyCommand(e *environment) *cobra.Command {
	var deep bool
	cmd := &cobra.Command{
		Use: "verify JOB [CHECKPOINT]", Short: "Make sure that a checkpoint can be restored", Args: args(1, 2),
		Long: `Verify reads a checkpoint's manifest and looks at every object that it needs. With --deep it also reads
and checks every byte, which takes as long as a restore.`,
		Example:           "  spotferry checkpoint verify llama-7b\n  spotferry checkpoint verify llama-7b 1200 --deep",
		ValidArgsFunction: e.completeCheckpoints,
	}
	cmd.Flags().BoolVar(&deep, "deep", false, "read every byte")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		which := "newest"
		if len(args) == 2 {
			which = args[1]
		}
		return e.verify(cmd.Context(), args[0], which, deep)
	}
	return cmd
}

func (e *environment) verify(ctx context.Context, job, which string, deep bool) error {
	l, err := e.connect(ctx, true)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := picked(ctx, l, job, which)
	if err != nil {
		return err
	}
	if c.Dropped != nil {
		return dropped(c)
	}
	r, err := e.openReader(ctx, l, job)
	if err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	stop := e.watching(ctx, l, r, job, c, "verifying "+c.Name)
	err = r.engine.Verify(ctx, refOf(c.Checkpoint), deep)
	stop()
	v := verified{Name: c.Name, Step: c.Step, Good: err == nil, Deep: deep}
	bad, isBad := errors.AsType[*checkpoint.Rejection](err)
	if err != nil && !isBad {
		return err
	}
	if isBad {
		v.Path, v.Error = bad.Path, bad.Err.Error()
	}
	shown := e.show(view{doc: v, names: []string{v.Name}, page: func(p *page) {
		switch {
		case v.Good && deep:
			p.line("%s is whole: every byte of %s was read.", v.Name, size(c.Bytes))
		case v.Good:
			p.line("%s has everything it needs. '%s' also reads it.", v.Name, e.hint("checkpoint", "verify", shellWord(job), v.Name, "--deep"))
		}
	}})
	if shown != nil || v.Good {
		return shown
	}
	return &failure{exit: exitFailed, What: terminal.Safe(bad.Error()) + "; it cannot be restored",
		Remedy: fmt.Sprintf("'%s' shows the older ones; a restore by the system passes over this one", e.hint("checkpoint", "ls", shellWord(job)))}
}

func dropped(c console.Checkpoint) error {
	return &failure{exit: exitConflict, What: fmt.Sprintf("checkpoint %s was dropped%s", c.Name, labelled(": ", c.Why())), Remedy: "take one that is kept: 'spotferry checkpoint ls' lists them"}
}

// restored is what restore prints.
type restored struct {
	Name     string   `json:"name"`
	Step     int64    `json:"step"`
	Path     string   `json:"path"`
	Bytes    int64    `json:"bytes"`
	Files    int      `json:"files"`
	Rejected []string `json:"rejected,omitempty"` // checkpoints that are bad, and why
}

func checkpointRestoreCommand(e *environment) *cobra.Command {
	var fallback bool
	cmd := &cobra.Command{
		Use: "restore JOB CHECKPOINT DIR", Short: "Restore a checkpoint into a directory of this machine", Args: args(3, 3),
		Long: `Restore puts a checkpoint into DIR, under the name that the trainer gave it. Every byte is verified before
anything appears there. The checkpoint is pinned meanwhile. One that is bad is named with its bad
file; with --fallback the next older one is restored instead.`,
		Example:           "  spotferry checkpoint restore llama-7b newest ./result\n  spotferry checkpoint restore llama-7b 1200 /data/run7 --fallback",
		ValidArgsFunction: e.completeCheckpoints,
	}
	cmd.Flags().BoolVar(&fallback, "fallback", false, "restore the next older one if it is bad")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return e.restore(cmd.Context(), args[0], args[1], args[2], fallback)
	}
	return cmd
}

func (e *environment) restore(ctx context.Context, job, which, to string, fallback bool) error {
	l, err := e.connect(ctx, true)
	if err != nil {
		return err
	}
	defer l.Close()
	list, err := ask[[]console.Checkpoint](ctx, l, console.GetCheckpoints, console.Query{Job: job})
	if err != nil {
		return err
	}
	candidates, err := toRestore(list, job, which, fallback)
	if err != nil {
		return err
	}
	r, err := e.openReader(ctx, l, job)
	if err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	var out restored
	for _, c := range candidates {
		got, err := e.restoreOne(ctx, l, r, job, c, to)
		bad, isBad := errors.AsType[*checkpoint.Rejection](err)
		switch {
		case err == nil:
			out.Name, out.Step, out.Path, out.Bytes, out.Files = c.Name, c.Step, got.Path, c.Bytes, c.Files
			return e.show(view{doc: out, names: []string{out.Path}, page: func(p *page) {
				p.line("Step %d is in %s: %s in %s.", out.Step, out.Path, size(out.Bytes), count(out.Files, "file"))
			}})
		case !isBad:
			return err
		}
		e.term.Note("%s", "bad: "+bad.Error())
		out.Rejected = append(out.Rejected, bad.Error())
	}
	f := &failure{exit: exitFailed, What: terminal.Safe(out.Rejected[0]) + "; it cannot be restored",
		Remedy: "give --fallback to restore the next older one"}
	if fallback {
		f.What, f.Remedy = fmt.Sprintf("none of %s can be restored: %s", count(len(candidates), "checkpoint"), terminal.Safe(out.Rejected[0])), "see what happened to the store; nothing was written"
	}
	return f
}

// toRestore is the checkpoint that is meant and, for a fallback, those before it.
func toRestore(list []console.Checkpoint, job, which string, fallback bool) ([]console.Checkpoint, error) {
	c, err := pick(list, job, which)
	if err != nil {
		return nil, err
	}
	if c.Dropped != nil {
		return nil, dropped(c)
	}
	out := []console.Checkpoint{c}
	for i := len(list) - 1; fallback && i >= 0; i-- {
		if o := list[i]; o.Dropped == nil && o.Rejected == "" && o.Committed.Before(c.Committed) {
			out = append(out, o)
		}
	}
	return out, nil
}

// restoreOne restores one checkpoint under a pin. A bad one is a *checkpoint.Rejection.
func (e *environment) restoreOne(ctx context.Context, l *link, r *reader, job string, c console.Checkpoint, to string) (checkpoint.Restored, error) {
	unpin, err := e.pinned(ctx, l, job, c.Name)
	if err != nil {
		return checkpoint.Restored{}, err
	}
	defer unpin()
	if in, err := ask[gateway.Contents](ctx, l, console.GetCheckpoint, console.CheckpointQuery{Job: job, Name: c.Name}); err == nil {
		if at := filepath.Join(to, in.Dir); occupied(at) {
			return checkpoint.Restored{}, &failure{exit: exitConflict, What: at + " is there already", Remedy: "give a directory without it"}
		}
	}
	r.read.Store(0)
	stop := e.watching(ctx, l, r, job, c, "restoring "+c.Name)
	got, err := r.engine.Restore(ctx, checkpoint.RestoreRequest{Refs: []checkpoint.Ref{refOf(c.Checkpoint)}, Dir: to})
	stop()
	if errors.Is(err, checkpoint.ErrNoneRestorable) && len(got.Rejected) > 0 {
		err = &got.Rejected[0]
	}
	return got, err
}

func occupied(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// A restore's pin ends by itself if nobody renews it.
const (
	pinFor   = time.Hour
	pinAgain = 20 * time.Minute
)

// pinned keeps a checkpoint from being dropped until the function it returns is
// called. On a state on which nothing runs nobody drops anything.
func (e *environment) pinned(ctx context.Context, l *link, job, name string) (func(), error) {
	if l.readOnly {
		return func() {}, nil
	}
	r := console.CheckpointRequest{Job: job, Names: []string{name}, Holder: "restore-" + string(e.mint()), ForS: int64(pinFor / time.Second), Reason: "restoring it to a directory"}
	pin := func(ctx context.Context, v console.Verb) error {
		_, err := ask[[]console.Checkpoint](ctx, l, v, r)
		return err
	}
	if err := pin(ctx, console.DoPin); err != nil {
		return nil, err
	}
	renewing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(renewing, pinAgain) == nil {
			if err := pin(renewing, console.DoPin); err != nil && renewing.Err() == nil {
				e.term.Note("the pin of %s could not be renewed: %v", name, err)
			}
		}
	}()
	return func() {
		stop()
		<-done
		last, end := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // an interrupted restore takes its pin off as well
		defer end()
		r.ForS = 0
		_ = pin(last, console.DoUnpin) // it ends by itself otherwise
	}, nil
}
