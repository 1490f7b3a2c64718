package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Run trains until the last step is done and saved, and returns nil. It reads
// the environment through env and prints JSON lines on stdout.
//
// SIGUSR1 asks for a checkpoint at the next step boundary; training goes on. It
// is ignored when the last checkpoint of the output is of that very step.
// SIGTERM, or the end of ctx, asks for a checkpoint at the next step boundary
// and the end of training: Run then returns an *ExitError with CodeStop. A run
// that has not trained a step has nothing to save, and just ends.
//
// An error that is not an *ExitError is one of reading or writing files. Give
// any of them to ExitCode.
func Run(ctx context.Context, cfg Config, env func(string) string, stdout io.Writer) error {
	// Until Notify returns either signal kills, so nothing comes before it.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGTERM)
	defer signal.Stop(signals)
	// A reader of stdout that goes away would kill too. With a channel for the
	// signal, which nobody needs to read, the write fails instead.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	return run(ctx, cfg, env, stdout, signals, time.Now)
}

// run is Run with its signals and its clock given.
func run(ctx context.Context, cfg Config, env func(string) string, stdout io.Writer, signals <-chan os.Signal, now func() time.Time) (err error) {
	s, err := resolve(cfg, env)
	if err != nil {
		return err
	}
	text, err := loadCorpus(s.Text)
	if err != nil {
		return err
	}
	out := output{w: stdout}
	args := newArguments(s.Config, text)
	st, from, err := resumeFrom(s.Config, args, out.skipped)
	if err != nil {
		return err
	}
	if st.step > s.Steps {
		return exitf(CodeResume, "--resume: %s is of step %d, past --steps %d: raise --steps or resume from an earlier checkpoint", from, st.step, s.Steps)
	}
	if err := os.MkdirAll(s.Output, 0o755); err != nil {
		return exitf(CodeUsage, "--output: %w: give a directory that can be written", err)
	}
	l, err := newLoop(s, text, args, st, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.evidence.close()) }()
	l.out, l.signals, l.now = out, signals, now
	return l.run(ctx)
}

func newLoop(s settings, text corpus, args arguments, st *state, from string) (*loop, error) {
	var start uint64
	if s.Evidence != "" {
		var err error
		if start, err = processStart(); err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
	}
	progress, err := openProgress(s.Progress)
	if err != nil {
		return nil, err
	}
	evidence, err := openEvidence(s.Evidence)
	if err != nil {
		return nil, err
	}
	return &loop{
		settings: s, text: text, args: args, state: st, pass: newPass(args.shape()),
		progress: progress, evidence: evidence,
		savedDir: from, savedStep: st.step, pid: os.Getpid(), pidStart: start,
	}, nil
}
