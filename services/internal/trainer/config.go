package trainer

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// ResumeAuto as Config.Resume picks the newest complete checkpoint in the
// output directory, and starts at step 0 when there is none.
const ResumeAuto = "auto"

const (
	defaultSteps     = 1000
	defaultSaveEvery = 100
	defaultLogEvery  = 20
	defaultHidden    = 1280

	// maxHidden keeps a mistyped size from asking for more memory than a
	// machine has: at this size weights and moments are about 250 MB.
	maxHidden = 1 << 16
)

// Config says what to train and where to keep it. The zero value of a field
// means the default given beside it; those that name a variable take it from
// the environment handed to Run, and the field wins over the variable.
type Config struct {
	Steps          int           // optimizer steps in the whole run; 1000
	SaveEvery      int           // steps between checkpoints; 100. The last step is always saved
	SaveTotalLimit int           // checkpoints kept after a save; 0 keeps all
	LogEvery       int           // steps between lines on standard output; 20
	Output         string        // where checkpoint-N is written; $SPOTFERRY_CHECKPOINT_DIR, or ./output
	Resume         string        // a checkpoint-N directory or "auto"; $SPOTFERRY_RESUME_FROM, or start at 0
	IgnoreResume   bool          // start at 0 whatever Resume and the variable say: plays a job that forgets
	Seed           uint64        // of the initial weights and the batches
	Hidden         int           // width of the hidden layer, which sets the size of the model; 1280
	Text           string        // file to train on; a built-in text
	StepInterval   time.Duration // least time between starts of steps; 0 is as fast as possible
	Fsync          bool          // flush each file and directory of a checkpoint to disk
	Evidence       string        // file to append a row per step to; $SPOTFERRY_EVIDENCE_DIR/trainer.jsonl, or none
	Progress       string        // file to keep the newest step in; $SPOTFERRY_PROGRESS_FILE, or none
	StallAtStep    int           // do nothing any more after this step, and hear no signal: plays a hang; 0 never
	ExitAtStep     int           // end without saving after this step: plays a crash; 0 never
	ExitCode       int           // code to end with at ExitAtStep; 1
}

// Validate reports every field that cannot be used, by the name of its flag and
// with what to give instead. Files are looked at by Run.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Steps < 0, "--steps is %d: give the number of steps to train, such as --steps %d", c.Steps, defaultSteps)
	refuse(c.SaveEvery < 0, "--save-every is %d: give the steps between checkpoints, such as --save-every %d", c.SaveEvery, defaultSaveEvery)
	refuse(c.SaveTotalLimit < 0, "--save-total-limit is %d: give how many checkpoints to keep, or 0 to keep all", c.SaveTotalLimit)
	refuse(c.LogEvery < 0, "--log-every is %d: give the steps between lines, such as --log-every %d", c.LogEvery, defaultLogEvery)
	refuse(c.Hidden < 0 || c.Hidden > maxHidden, "--hidden is %d: give a width from 1 to %d, such as --hidden %d", c.Hidden, maxHidden, defaultHidden)
	refuse(c.StepInterval < 0, "--step-interval is %v: give a time such as 50ms, or 0 to run as fast as possible", c.StepInterval)
	refuse(c.StallAtStep < 0, "--stall-at-step is %d: give a step to stall at such as 120", c.StallAtStep)
	refuse(c.ExitAtStep < 0, "--exit-code-at-step is at step %d: give a step to crash at such as 120, or 7@120 for code 7", c.ExitAtStep)
	refuse(c.ExitCode < 0 || c.ExitCode > 255, "--exit-code-at-step has code %d: give a code from 0 to 255, such as 7@120", c.ExitCode)
	return errors.Join(errs...)
}

// settings is a Config with every default filled in, and what the environment
// says besides.
type settings struct {
	Config
	job    string
	epoch  int
	notice string
}

func resolve(c Config, env func(string) string) (settings, error) {
	if err := c.Validate(); err != nil {
		return settings{}, &ExitError{Code: CodeUsage, Err: err}
	}
	for _, d := range []struct {
		field *int
		value int
	}{
		{&c.Steps, defaultSteps},
		{&c.SaveEvery, defaultSaveEvery},
		{&c.LogEvery, defaultLogEvery},
		{&c.Hidden, defaultHidden},
		{&c.ExitCode, 1},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	c.Output = first(c.Output, env("SPOTFERRY_CHECKPOINT_DIR"), "output")
	c.Resume = first(c.Resume, env("SPOTFERRY_RESUME_FROM"))
	c.Progress = first(c.Progress, env("SPOTFERRY_PROGRESS_FILE"))
	if dir := env("SPOTFERRY_EVIDENCE_DIR"); dir != "" {
		c.Evidence = first(c.Evidence, filepath.Join(dir, "trainer.jsonl"))
	}
	if c.IgnoreResume {
		c.Resume = ""
	}

	s := settings{Config: c, job: env("SPOTFERRY_JOB_ID"), notice: env("SPOTFERRY_NOTICE_FILE")}
	if v := env("SPOTFERRY_EPOCH"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return settings{}, exitf(CodeUsage, "SPOTFERRY_EPOCH is %q: set it to a whole number, or leave it unset", v)
		}
		s.epoch = n
	}
	return s, nil
}

// first returns the first of its arguments that is not empty.
func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
