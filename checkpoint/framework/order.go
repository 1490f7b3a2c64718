package framework

import (
	"path"
	"regexp"
	"strings"
)

// What Rank returns: what goes first over a link that may not carry everything.
const (
	RankState     = iota // small, and nothing resumes without it: state, scheduler, random numbers, dataloader, markers
	RankWeights          // or the adapter
	RankOptimizer        // what a resume can do without, badly
	RankDerivable        // follows from the rest, or never changes: consolidated copies, tokenizer
	RankLogs
)

// ranking is read from the top; what matches nothing is weights.
var ranking = []struct {
	rank int
	re   *regexp.Regexp
}{
	{RankLogs, regexp.MustCompile(`(^|/)(runs|wandb|tensorboard)/|(^|/)events\.out\.tfevents|(^|/)metrics\.csv$|\.log$`)},
	{RankState, regexp.MustCompile(`(^|/)(\.metadata|common\.pt|_METADATA|_CHECKPOINT_METADATA|_sharding|manifest\.ocdbt|latest)$`)},
	{RankDerivable, regexp.MustCompile(`(^|/)(zero_to_fp32\.py|tokenizer[^/]*|vocab[^/]*|merges\.txt|special_tokens_map\.json|added_tokens\.json|chat_template[^/]*|[^/]*\.md|[^/]*\.bkp)$`)},
	{RankOptimizer, regexp.MustCompile(`(^|/)(optimizer|optim|opt_state|optimizer_state)(_\d+)?(/|\.(pt|bin)$)|_optim_states\.pt$|(^|/)distrib_optim\.pt$`)},
	{RankState, regexp.MustCompile(`(^|/)(scheduler|scaler|sampler|dl_state_dict)(_\d+)?\.(pt|bin)$|(^|/)(rng_state|random_states|custom_checkpoint)[^/]*$|(^|/)training_args\.bin$|(^|/)meta\.pt$|(^|/)(train_state|dataloader)[^/]*\.pt$`)},
	{RankState, regexp.MustCompile(`\.(json|txt|yaml|yml|pkl)$`)},
}

// Rank implements Adapter.
func (a *adapter) Rank(name string) int {
	for _, r := range ranking {
		if r.re.MatchString(name) {
			return r.rank
		}
	}
	if a.derivable(name) {
		return RankDerivable
	}
	return RankWeights
}

var (
	hfWeights   = regexp.MustCompile(`^(model|pytorch_model)[^/]*\.(safetensors|bin)$`)
	legacyTwin  = regexp.MustCompile(`^(pytorch_model|adapter_model)[^/]*\.bin$`)
	zeroTag     = regexp.MustCompile(`(^|/)global_step\d+$`)
	shardedTree = regexp.MustCompile(`(^|/)pytorch_model_fsdp_\d+$`)
)

// derivable reports whether weights lie beside what they follow from: a .bin
// beside safetensors, or the consolidated copy of what DeepSpeed or FSDP have
// sharded. That takes a look at the candidate to have been had.
func (a *adapter) derivable(name string) bool {
	base := path.Base(name)
	if !hfWeights.MatchString(base) && !legacyTwin.MatchString(base) {
		return false
	}
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	for _, seen := range a.seen {
		for _, e := range seen.entries {
			if e.path != name && !strings.HasSuffix(e.path, "/"+name) {
				continue
			}
			if source(seen.entries, path.Dir(e.path), legacyTwin.MatchString(base)) {
				return true
			}
		}
	}
	return false
}

// source reports whether a directory has what weights in it follow from.
func source(entries []entry, dir string, twin bool) bool {
	for _, e := range entries {
		switch base := path.Base(e.path); {
		case path.Dir(e.path) != dir:
		case e.mode.IsDir() && (zeroTag.MatchString(base) || shardedTree.MatchString(base)),
			twin && e.mode.IsRegular() && strings.HasSuffix(base, ".safetensors"):
			return true
		}
	}
	return false
}
