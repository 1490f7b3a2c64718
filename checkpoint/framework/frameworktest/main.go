package frameworktest

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// Job is a trainer that computes nothing: it goes on from a checkpoint that it
// compares byte by byte, makes steps, and saves.
type Job struct {
	Layout Layout
	Dir    string // of checkpoints
	From   string // what to resume from, as in SPOTFERRY_RESUME_FROM
	Seed   uint64
	Steps  int64         // to make in all
	Every  int64         // steps between saves
	Pace   time.Duration // of a step
	Told   func(step int64) error
	At     func(point string) error
}

// Run trains to the last step. A checkpoint that is torn or of other content is
// an error, and never taken for none.
func (j Job) Run(ctx context.Context) error {
	if j.Every <= 0 {
		return errors.New("steps between saves: want at least 1")
	}
	from, err := j.Layout.Resume(j.Dir, j.From, j.Seed)
	if err != nil {
		return err
	}
	for step := from + 1; step <= j.Steps; step++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(j.Pace):
		}
		if j.Told != nil {
			if err := j.Told(step); err != nil {
				return err
			}
		}
		if step%j.Every != 0 && step != j.Steps {
			continue
		}
		if err := j.Layout.Write(j.Dir, step, j.Seed, j.at(ctx)); err != nil {
			return fmt.Errorf("saving step %d: %w", step, err)
		}
	}
	return nil
}

func (j Job) at(ctx context.Context) func(string) error {
	return func(point string) error {
		if j.At == nil {
			return ctx.Err()
		}
		return errors.Join(ctx.Err(), j.At(point))
	}
}

// LockStep returns an at for a child process: it writes each point as a line and
// waits for a line before it goes on.
func LockStep(in io.Reader, out io.Writer) func(point string) error {
	lines := bufio.NewReader(in)
	return func(point string) error {
		if _, err := fmt.Fprintln(out, point); err != nil {
			return err
		}
		_, err := lines.ReadString('\n')
		return err
	}
}

// Main is a program around Write, for a parent that kills it: with -lockstep it
// stops before each operation until it is told to go on, and with -pause it
// takes that long for each.
func Main(args []string, in io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet("frameworktest", flag.ContinueOnError)
	name := fs.String("layout", "hf", "one of Layouts")
	dir := fs.String("dir", ".", "where checkpoints go")
	step := fs.Int64("step", 1, "the step to write")
	seed := fs.Uint64("seed", 1, "what the bytes follow from")
	lockstep := fs.Bool("lockstep", false, "wait for a line before each operation")
	pause := fs.Duration("pause", 0, "the time before each operation")
	if err := fs.Parse(args); err != nil {
		return err
	}
	l, err := ByName(*name)
	if err != nil {
		return err
	}
	at := func(string) error { time.Sleep(*pause); return nil }
	if *lockstep {
		at = LockStep(in, out)
	}
	return l.Write(*dir, *step, *seed, at)
}
