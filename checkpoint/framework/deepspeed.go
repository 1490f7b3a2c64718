package framework

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// deepSpeed is the layout of DeepSpeed's engine: save_dir/global_stepN/ with a
// file of model states for each model-parallel rank and, under ZeRO, one of
// optimizer states for each rank; and save_dir/latest, the name of the newest.
// Read in runtime/engine.py, save_checkpoint.
//
// Rank 0 writes latest after its own files and before the barrier, so it proves
// nothing about the others'. How many there are is in the model states.
func deepSpeed() layout {
	return layout{
		name:    "deepspeed",
		find:    findDeepSpeed,
		pointer: "latest",
		check:   func(s *sight) (string, error) { return s.zero("", "../latest") },
		once:    regexp.MustCompile(`_states\.pt$`),
		finish: func(_ *adapter, root *os.Root, name string) (string, error) {
			if err := exists(root, name); err != nil {
				return "", err
			}
			return name, writeMarker(root, "latest", name)
		},
		mute: "DeepSpeed's engine has no signal that makes it save",
	}
}

var (
	modelStates = regexp.MustCompile(`_model_states\.pt$`)
	zeroShard   = regexp.MustCompile(`(?:^|_)zero_pp_rank_(\d+)_mp_rank_(\d+)_(optim|model)_states\.pt$`)
	anyZero     = regexp.MustCompile(`^(bf16_|fp16_)?(zero_pp_rank_\d+_)?mp_rank_\d+_(optim|model)_states\.pt$`)
)

func findDeepSpeed(_ *adapter, root *os.Root, names []string) ([]Candidate, error) {
	var cs []Candidate
	for _, name := range names {
		step, ok := lastNumber(name)
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		if info, err := root.Lstat(name); err != nil || !info.IsDir() {
			continue
		}
		if !zeroTag.MatchString(name) { // a tag of the script's own
			inner, err := readNames(root, name)
			if err != nil || !slices.ContainsFunc(inner, anyZero.MatchString) {
				continue
			}
		}
		cs = append(cs, Candidate{Name: name, Step: step})
	}
	return cs, nil
}

// zero checks the files of one tag, in the candidate's own directory dir; latest
// is the file with the newest tag's name, relative to the candidate.
func (s *sight) zero(dir, latest string) (string, error) {
	in := func(e entry) bool { return path.Dir(s.rel(e)) == path.Join(".", dir) }
	models := slices.DeleteFunc(s.files(modelStates), func(e entry) bool { return !in(e) })
	if len(models) == 0 {
		return "no model states are there yet", nil
	}
	world, known := s.remembered(models[0], func() (int64, bool) {
		return pickled(pickle(s.root, models[0]), "dp_world_size")
	})
	shards := map[string]map[int64]map[int64]bool{} // by kind, model-parallel rank and data-parallel rank
	for _, e := range s.files(zeroShard) {
		if m := zeroShard.FindStringSubmatch(path.Base(e.path)); m != nil && in(e) {
			dp, mp := number(m[1]), number(m[2])
			if shards[m[3]] == nil {
				shards[m[3]] = map[int64]map[int64]bool{}
			}
			if shards[m[3]][mp] == nil {
				shards[m[3]][mp] = map[int64]bool{}
			}
			shards[m[3]][mp][dp] = true
		}
	}
	if len(shards["optim"]) == 0 {
		return s.tagged(dir, latest)
	}
	for _, kind := range []string{"model", "optim"} {
		if why := lacking(kind, shards[kind], world); why != "" {
			return why, nil
		}
	}
	if !known && s.cfg.ranks() == 0 && !s.shape.known() {
		s.doubt = "nothing says how many ranks write optimizer states"
	}
	if n := int64(s.cfg.ranks()); !known && count(shards["optim"]) < n {
		return fmt.Sprintf("%d of %d files *_optim_states.pt are there", count(shards["optim"]), n), nil
	}
	return "", nil
}

// tagged is for checkpoints without ZeRO, or those whose ranks have not begun
// with it: rank 0 has written all of its own once latest says so.
func (s *sight) tagged(dir, latest string) (string, error) {
	text, _, err := readMarker(s.root, path.Join(s.in, latest))
	if err != nil {
		return "", err
	}
	tag := path.Base(path.Join(s.in, dir))
	newest, ok := lastNumber(text)
	if own, _ := lastNumber(tag); text != tag && (!ok || newest < own) {
		return fmt.Sprintf("no optimizer states are there, and latest is %q", text), nil
	}
	return "", nil
}

// lacking names the first shard that is missing of world, or below the highest.
func lacking(kind string, shards map[int64]map[int64]bool, world int64) string {
	width := int64(len(shards))
	for mp, have := range shards {
		width = max(width, mp+1)
		for dp := range have {
			world = max(world, dp+1)
		}
	}
	if len(shards) == 0 || width > maxEntries || world > maxEntries {
		return ""
	}
	for mp := range width {
		for dp := range world {
			if !shards[mp][dp] {
				return fmt.Sprintf("zero_pp_rank_%d_mp_rank_%02d_%s_states.pt is not there yet, of %d ranks", dp, mp, kind, world)
			}
		}
	}
	return ""
}

func count(shards map[int64]map[int64]bool) int64 {
	n := 0
	for _, have := range shards {
		n += len(have)
	}
	return int64(n)
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return maxEntries
	}
	return n
}
