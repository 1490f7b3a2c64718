package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxJSON bounds the small files of a checkpoint that are read back.
const maxJSON = 64 << 20

// foreignError says that a checkpoint is whole, but of another run.
type foreignError struct{ reason string }

func (e *foreignError) Error() string { return e.reason }

// loadCheckpoint reads the checkpoint in dir, all of it, and checks that its
// files belong together and to a run with these arguments. It returns a
// *foreignError if they belong to another run; any other error means that the
// checkpoint is torn, damaged or cannot be read.
func loadCheckpoint(dir string, want arguments) (*state, error) {
	var ts trainerState
	if err := readJSON(dir, stateFile, &ts); err != nil {
		return nil, err
	}
	if n, ok := stepOf(filepath.Base(dir)); ok && n != ts.GlobalStep {
		return nil, fmt.Errorf("%s is of step %d", stateFile, ts.GlobalStep)
	}
	if ts.GlobalStep < 1 {
		return nil, fmt.Errorf("%s has global_step %d", stateFile, ts.GlobalStep)
	}
	var have arguments
	if err := readJSON(dir, argsFile, &have); err != nil {
		return nil, err
	}
	if err := have.continuedBy(want); err != nil {
		return nil, err
	}
	if err := checkPosition(dir, want.Seed, ts.GlobalStep); err != nil {
		return nil, err
	}
	return loadTensors(dir, want.shape(), ts)
}

func loadTensors(dir string, s shape, ts trainerState) (*state, error) {
	n := s.size()
	st := &state{
		step:    ts.GlobalStep,
		loss:    ts.LastLoss,
		weights: s.over(make([]float32, n)),
		m:       make([]float32, n),
		v:       make([]float32, n),
		history: ts.LogHistory,
	}
	model, moments := sections(s, st)
	for _, f := range []struct {
		name, digest string
		sections     []section
	}{
		{modelFile, ts.ModelDigest, []section{model}},
		{optimizerFile, ts.OptimizerDigest, moments},
	} {
		got, err := readTensors(filepath.Join(dir, f.name), st.step, f.sections...)
		if err != nil {
			return nil, err
		}
		if got != f.digest {
			return nil, fmt.Errorf("%s has digest %s, but %s says %s", f.name, got, stateFile, f.digest)
		}
	}
	return st, nil
}

// checkPosition checks the two files that repeat where the run stands.
func checkPosition(dir string, seed uint64, step int) error {
	var rng rngState
	if err := readJSON(dir, rngFile, &rng); err != nil {
		return err
	}
	if rng != rngAt(seed, step) {
		return fmt.Errorf("%s is not that of seed %d at step %d", rngFile, seed, step)
	}
	var sched schedulerState
	if err := readJSON(dir, schedulerFile, &sched); err != nil {
		return err
	}
	if sched.LastEpoch != step {
		return fmt.Errorf("%s is of step %d, not %d", schedulerFile, sched.LastEpoch, step)
	}
	return nil
}

// continuedBy says, as a *foreignError, why a run with arguments want must not
// continue a checkpoint with arguments a.
func (a arguments) continuedBy(want arguments) error {
	reason := ""
	switch {
	case a == want:
		return nil
	case a.Seed != want.Seed:
		reason = fmt.Sprintf("it was trained with --seed %d, not %d: resume with --seed %d", a.Seed, want.Seed, a.Seed)
	case a.TextSHA256 != want.TextSHA256:
		reason = fmt.Sprintf("it was trained on a --text with SHA-256 %.12s, not %.12s: resume with that text", a.TextSHA256, want.TextSHA256)
	case a.Hidden != want.Hidden:
		reason = fmt.Sprintf("it was trained with --hidden %d, not %d: resume with --hidden %d", a.Hidden, want.Hidden, a.Hidden)
	default:
		reason = fmt.Sprintf("its %s %+v is not this trainer's %+v: resume with the version that wrote it", argsFile, a, want)
	}
	return &foreignError{reason}
}

func readJSON(dir, name string, into any) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return err
	}
	if len(data) > maxJSON {
		return fmt.Errorf("%s is larger than %d bytes", name, maxJSON)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// stepOf returns the N of a directory named checkpoint-N.
func stepOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "checkpoint-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// resumeFrom returns the state to begin with, and the directory it came from:
// none for a run that begins at step 0. Torn checkpoints that ResumeAuto passed
// over are told to skipped.
func resumeFrom(cfg Config, args arguments, skipped func(dir string, err error)) (*state, string, error) {
	switch cfg.Resume {
	case "":
		return newState(args.shape(), args.Seed), "", nil
	case ResumeAuto:
		return resumeNewest(cfg, args, skipped)
	}
	st, err := loadCheckpoint(cfg.Resume, args)
	if err != nil {
		return nil, "", refused(cfg.Resume, err)
	}
	return st, cfg.Resume, nil
}

func resumeNewest(cfg Config, args arguments, skipped func(dir string, err error)) (*state, string, error) {
	steps, err := savedSteps(cfg.Output)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", exitf(CodeResume, "--resume auto: %w: give an --output that can be read", err)
	}
	for i := len(steps) - 1; i >= 0; i-- {
		dir := checkpointDir(cfg.Output, steps[i])
		st, err := loadCheckpoint(dir, args)
		if err == nil {
			return st, dir, nil
		}
		if _, ok := errors.AsType[*foreignError](err); ok {
			return nil, "", refused(dir, err)
		}
		skipped(dir, err)
	}
	return newState(args.shape(), args.Seed), "", nil
}

func refused(dir string, err error) error {
	if _, ok := errors.AsType[*foreignError](err); ok {
		return exitf(CodeResume, "--resume: %s is a checkpoint of another run: %w", dir, err)
	}
	return exitf(CodeResume, "--resume: %s is not a whole checkpoint: %w: give an earlier one, or --resume auto", dir, err)
}
