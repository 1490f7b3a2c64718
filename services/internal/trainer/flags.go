package trainer

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// Flags declares the trainer's flags on fs, writing into c. A command built
// with another flag package can adopt the set (pflag's AddGoFlagSet), so that
// the names are given once.
func (c *Config) Flags(fs *flag.FlagSet) {
	positive(fs, &c.Steps, "steps", defaultSteps, "train for `N` steps")
	positive(fs, &c.SaveEvery, "save-every", defaultSaveEvery, "write a checkpoint every `N` steps, and at the last")
	fs.IntVar(&c.SaveTotalLimit, "save-total-limit", 0, "keep the newest `N` checkpoints, 0 keeps all")
	positive(fs, &c.LogEvery, "log-every", defaultLogEvery, "print a line every `N` steps")
	fs.StringVar(&c.Output, "output", "", "write checkpoints into `DIR` (default $SPOTFERRY_CHECKPOINT_DIR, or output)")
	fs.StringVar(&c.Resume, "resume", "", "continue from this checkpoint-N `DIR`, or auto for the newest complete one in the output (default $SPOTFERRY_RESUME_FROM)")
	fs.BoolVar(&c.IgnoreResume, "ignore-resume", false, "start at step 0 even when told to resume, for tests of trouble")
	fs.Uint64Var(&c.Seed, "seed", 0, "`seed` of the weights and the batches")
	positive(fs, &c.Hidden, "hidden", defaultHidden, "`width` of the hidden layer")
	fs.StringVar(&c.Text, "text", "", "train on this `FILE` (default a built-in text)")
	fs.DurationVar(&c.StepInterval, "step-interval", 0, "start steps at least `DURATION` apart, 0 is as fast as possible")
	fs.BoolVar(&c.Fsync, "fsync", false, "flush every checkpoint to disk")
	fs.StringVar(&c.Evidence, "evidence", "", "append a row per step to `FILE` (default $SPOTFERRY_EVIDENCE_DIR/trainer.jsonl)")
	fs.StringVar(&c.Progress, "progress", "", "keep the newest step in `FILE` (default $SPOTFERRY_PROGRESS_FILE)")
	fs.IntVar(&c.StallAtStep, "stall-at-step", 0, "after step `N` do nothing any more, for tests of trouble, 0 never does")
	fs.Func("exit-code-at-step", "end without saving after step `N`, or CODE@N, for tests of trouble", c.setExitAtStep)
}

// positive declares an int flag that refuses anything below 1 by name: a zero
// in the field means the default, so a zero on the command line must not.
func positive(fs *flag.FlagSet, p *int, name string, value int, usage string) {
	*p = value
	fs.Func(name, fmt.Sprintf("%s (default %d)", usage, value), func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("give a whole number from 1, such as --%s %d", name, value)
		}
		*p = n
		return nil
	})
}

func (c *Config) setExitAtStep(s string) error {
	code, step, both := strings.Cut(s, "@")
	if !both {
		code, step = "1", s
	}
	n, err := strconv.Atoi(step)
	k, err2 := strconv.Atoi(code)
	if err != nil || err2 != nil || n < 1 || k < 1 || k > 255 {
		return errors.New("give a step such as --exit-code-at-step 120, or 7@120 to end with code 7")
	}
	c.ExitAtStep, c.ExitCode = n, k
	return nil
}
