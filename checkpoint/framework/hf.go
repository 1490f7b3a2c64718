package framework

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// hf is the layout of Hugging Face's Trainer, and of TRL, Axolotl, PEFT and
// LLaMA-Factory, which use it: output_dir/checkpoint-N/, where rank 0 writes
// trainer_state.json last, neither atomically nor after the other ranks. Read in
// transformers' trainer.py, _save_checkpoint.
type hf struct {
	*watch
	ranks rankFiles
}

func (*hf) Name() string { return "hf" }

// Candidates implements Adapter. A link called like a checkpoint is not one.
func (h *hf) Candidates(root *os.Root) ([]Candidate, error) {
	names, err := readNames(root, ".")
	if err != nil {
		return nil, fmt.Errorf("looking for checkpoints: %w", err)
	}
	var cs []Candidate
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "checkpoint-")
		step, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || strconv.FormatInt(step, 10) != digits || step < 0 {
			continue
		}
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			cs = append(cs, Candidate{Name: name, Step: step})
		}
	}
	newestFirst(cs)
	h.forget(cs)
	return cs, nil
}

// Complete implements Adapter.
func (h *hf) Complete(root *os.Root, c Candidate) (bool, string, error) {
	return h.complete(root, c, func(entries []entry) (string, error) {
		why, err := h.check(root, c, entries)
		if why == "" && err == nil {
			h.ranks.learn(c, entries)
		}
		return why, err
	})
}

// check applies every rule and returns the first that is broken. Those that read
// nothing come first.
func (h *hf) check(root *os.Root, c Candidate, entries []entry) (string, error) {
	if why := sentinel(root, c, entries); why != "" {
		return why, nil
	}
	if why := h.ranks.missing(c, entries); why != "" {
		return why, nil
	}
	if why, err := trainerState(root, c, entries); why != "" || err != nil {
		return why, err
	}
	for _, e := range entries {
		if !e.mode.IsRegular() {
			continue
		}
		if why, err := checkFile(root, e, entries); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// unfinishedNames are what frameworks and their extensions leave in, or call, a
// checkpoint that is being written.
var unfinishedNames = regexp.MustCompile(`^checkpoint-is-incomplete\.txt$|-unfinished$|\.tmp$|^tmp-checkpoint-|\.orbax-checkpoint-tmp`)

func sentinel(root *os.Root, c Candidate, entries []entry) string {
	for _, e := range entries {
		if unfinishedNames.MatchString(path.Base(e.path)) {
			return fmt.Sprintf("%q says that it is being written", e.path)
		}
	}
	beside := c.Name + "-unfinished" // NeMo's marker lies beside the checkpoint
	if _, err := root.Lstat(beside); err == nil {
		return fmt.Sprintf("%q says that it is being written", beside)
	}
	return ""
}

func trainerState(root *os.Root, c Candidate, entries []entry) (string, error) {
	name := c.Name + "/trainer_state.json"
	e, ok := find(entries, name)
	if !ok || !e.mode.IsRegular() {
		return fmt.Sprintf("%q is not there yet", name), nil
	}
	data, err := readFile(root, e)
	if err != nil {
		return "", err
	}
	var state struct {
		Step *int64 `json:"global_step"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Sprintf("%q does not parse: %v", name, err), nil
	}
	if state.Step == nil || *state.Step != c.Step {
		return fmt.Sprintf("%q is not of step %d", name, c.Step), nil
	}
	return "", nil
}
