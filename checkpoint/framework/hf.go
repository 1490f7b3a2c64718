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
// transformers' trainer.py, _save_checkpoint. With FSDP there are two trees of
// torch's in it, with DeepSpeed one of DeepSpeed's and its latest.
func hf() layout {
	return layout{
		name: "hf",
		find: func(_ *adapter, root *os.Root, names []string) ([]Candidate, error) {
			return numbered(root, ".", names, hfDir), nil
		},
		check:  checkHF,
		once:   writtenOnce,
		finish: finishHF,
		signal: func(a *adapter) (string, string) {
			if on, known := a.answers(`enable_jit_checkpoint`); on && known {
				return "SIGTERM", "Trainer saves on SIGTERM, for enable_jit_checkpoint is on"
			}
			return "", "Trainer dies of SIGTERM unless TrainingArguments has enable_jit_checkpoint=True"
		},
	}
}

var (
	hfDir = regexp.MustCompile(`^checkpoint-(0|[1-9]\d*)$`)
	// writtenOnce are the large files that HF's, Accelerate's and torch's writers
	// open once.
	writtenOnce = regexp.MustCompile(`\.(safetensors|pt|pth|bin|distcp)$`)
	torchTree   = regexp.MustCompile(`^(pytorch_model_fsdp|optimizer)_\d+$`)
)

// numbered lists the directories in dir whose names match; the first group is
// the step. A link called like a checkpoint is not one.
func numbered(root *os.Root, dir string, names []string, re *regexp.Regexp) []Candidate {
	var cs []Candidate
	for _, name := range names {
		m := re.FindStringSubmatch(name)
		if m == nil || strings.HasPrefix(name, ".") {
			continue
		}
		step, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			continue
		}
		at := path.Join(dir, name)
		if info, err := root.Lstat(at); err == nil && info.IsDir() {
			c := Candidate{Name: name, Step: step}
			if at != name {
				c.Files = []string{at}
			}
			cs = append(cs, c)
		}
	}
	return cs
}

func checkHF(s *sight) (string, error) {
	staging := "tmp-" + s.c.Name // of transformers 4.36 to 4.38, whose ranks raced for the rename
	if _, err := s.root.Lstat(staging); err == nil {
		return fmt.Sprintf("%q says that it is being written", staging), nil
	}
	if _, ok := s.file("trainer_state.json"); !ok && saveState(s) {
		return checkAccelerate(s) // by a script that names its directories as Trainer does
	}
	if why, err := trainerState(s); why != "" || err != nil {
		return why, err
	}
	if why := s.torchTrees(); why != "" {
		return why, nil
	}
	for _, dir := range s.dirs(zeroTag) {
		if why, err := s.zero(dir, "latest"); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// torchTrees makes sure that what FSDP sharded has its metadata.
func (s *sight) torchTrees() string {
	for _, dir := range s.dirs(torchTree) {
		if _, ok := s.file(dir + "/.metadata"); !ok {
			return fmt.Sprintf("%q has no .metadata yet", path.Join(s.in, dir))
		}
	}
	return ""
}

func trainerState(s *sight) (string, error) {
	name := path.Join(s.in, "trainer_state.json")
	e, ok := s.file("trainer_state.json")
	if !ok {
		return fmt.Sprintf("%q is not there yet", name), nil
	}
	data, err := readFile(s.root, e)
	if err != nil {
		return "", err
	}
	var state struct {
		Step *int64 `json:"global_step"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Sprintf("%q does not parse: %v", name, err), nil
	}
	if state.Step == nil || *state.Step != s.c.Step {
		return fmt.Sprintf("%q is not of step %d", name, s.c.Step), nil
	}
	return "", nil
}

// finishHF gives a checkpoint by DeepSpeed its latest, which a save that was
// told not to write it lacks and without which nothing is loaded.
func finishHF(_ *adapter, root *os.Root, name string) (string, error) {
	names, err := readNames(root, name)
	if err != nil {
		return "", err
	}
	for _, n := range names {
		if !zeroTag.MatchString(n) {
			continue
		}
		if _, there, err := readMarker(root, name+"/latest"); err != nil || there {
			return name, err
		}
		return name, writeMarker(root, name+"/latest", n)
	}
	return name, nil
}

// unfinishedNames are what frameworks and their extensions leave in, or call, a
// checkpoint that is being written.
var unfinishedNames = regexp.MustCompile(`^checkpoint-is-incomplete\.txt$|-unfinished$|\.tmp$|^tmp-checkpoint-|\.orbax-checkpoint-tmp`)

func (s *sight) sentinel() string {
	for _, e := range s.entries {
		if unfinishedNames.MatchString(path.Base(e.path)) {
			return fmt.Sprintf("%q says that it is being written", e.path)
		}
	}
	for _, m := range members(s.c) { // NeMo's marker lies beside the checkpoint, or beside the directories of the ranks
		for _, beside := range unfinishedMarkers(m) {
			if _, err := s.root.Lstat(beside); err == nil {
				return fmt.Sprintf("%q says that it is being written", beside)
			}
		}
	}
	return ""
}
