package framework

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// keras is the backup of Keras 3's BackupAndRestore: latest.weights.h5 and then
// training_metadata.json, both written over in place, with double_checkpoint
// after copies of them ending in .bkp. Read in keras/src/callbacks/
// backup_and_restore.py.
//
// A candidate is named by epoch and batch, so each save is one of its own. It
// is held by a copy, since a link would change with the next save.
func keras() layout {
	return layout{
		name: "keras",
		find: findKeras,
		claims: func(_ *os.Root, names []string, _ []Candidate) bool {
			for _, n := range names {
				if n == kerasWeights {
					return true
				}
			}
			return false
		},
		check:  checkKeras,
		reused: regexp.MustCompile(`^(latest\.weights\.h5|training_metadata\.json)$`),
		finish: finishKeras,
		mute:   "Keras 3 has no signal that makes it save",
	}
}

const (
	kerasWeights = "latest.weights.h5"
	kerasState   = "training_metadata.json"
)

// epochs are what separates the numbers of an epoch and of a batch in it.
const epochs = 1_000_000

func findKeras(a *adapter, root *os.Root, _ []string) ([]Candidate, error) {
	e, err := stat(root, kerasState)
	if err == nil {
		_, err = stat(root, kerasWeights)
	}
	if errors.Is(err, checkpoint.ErrVanished) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at, ok := a.remembered(e, func() (int64, bool) {
		data, err := readFile(root, e)
		var state struct{ Epoch, Batch *int64 }
		if err != nil || json.Unmarshal(data, &state) != nil || state.Epoch == nil || *state.Epoch < 0 || *state.Epoch > 1<<32 {
			return 0, false // it is being written
		}
		batch := int64(0)
		if state.Batch != nil {
			batch = min(max(*state.Batch, 0), epochs-1)
		}
		return *state.Epoch*epochs + batch, true
	})
	if !ok {
		return nil, nil
	}
	name := fmt.Sprintf("backup-%d-%d", at/epochs, at%epochs)
	return []Candidate{{Name: name, Step: at, Ordinal: true, Files: []string{kerasWeights, kerasState}}}, nil
}

// checkKeras: the weights of a save are there before its metadata, so newer
// weights are those of a save that was cut off.
func checkKeras(s *sight) (string, error) {
	weights, ok := find(s.entries, kerasWeights)
	state, there := find(s.entries, kerasState)
	switch {
	case !ok || !there:
		return "it lacks its weights or its metadata", nil
	case weights.mtime > state.mtime:
		return fmt.Sprintf("%q is older than the weights", kerasState), nil
	}
	return "", nil
}

func finishKeras(_ *adapter, root *os.Root, name string) (string, error) {
	if _, err := unwrap(root, name, regexp.MustCompile(`^$`)); err != nil {
		return "", err
	}
	if err := errors.Join(exists(root, kerasWeights), exists(root, kerasState)); err != nil {
		return "", err
	}
	info, err := root.Stat(kerasWeights)
	if err != nil {
		return "", err
	}
	at := info.ModTime().Add(time.Millisecond) // in the order Keras writes them
	return ".", root.Chtimes(kerasState, at, at)
}
