package trainer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// savedSteps lists the N of every checkpoint-N directory in output, torn ones
// too, in rising order.
func savedSteps(output string) ([]int, error) {
	entries, err := os.ReadDir(output)
	if err != nil {
		return nil, err
	}
	var steps []int
	for _, e := range entries {
		if n, ok := stepOf(e.Name()); ok && e.IsDir() {
			steps = append(steps, n)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// rotate deletes the checkpoints with the lowest steps until keep are left. The
// one just saved always stays: after a resume from an older checkpoint it need
// not be the highest. Steps decide, not file times, which a copy changes. Zero
// keeps all.
func rotate(output string, saved, keep int) error {
	if keep == 0 {
		return nil
	}
	steps, err := savedSteps(output)
	if err != nil {
		return err
	}
	left := len(steps)
	for _, n := range steps {
		if left <= keep {
			break
		}
		if n == saved {
			continue
		}
		if err := removeCheckpoint(checkpointDir(output, n)); err != nil {
			return err
		}
		left--
	}
	return nil
}

// removeCheckpoint deletes a checkpoint, whole or torn, if it is there. The
// state file goes first, so that at no moment it vouches for files that are gone.
func removeCheckpoint(dir string) error {
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}
