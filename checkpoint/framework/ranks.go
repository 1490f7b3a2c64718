package framework

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rankFiles knows how many files the ranks of a job write. Rank 0 does not wait
// for the others, so a checkpoint may be whole but for their files, and nothing
// in it says how many there should be. The first complete one teaches it.
type rankFiles struct {
	mu      sync.Mutex
	learned map[string]int // how many files of each kind
}

// rankKinds are the files of which each rank writes its own: random states of
// Trainer and Accelerate, DeepSpeed's ZeRO shards, shards of torch's
// distributed checkpoints.
var rankKinds = map[string]*regexp.Regexp{
	"rng_state_*.pth":   regexp.MustCompile(`(^|/)rng_state_\d+\.pth$`),
	"random_states_*":   regexp.MustCompile(`(^|/)random_states_\d+\.pkl$`),
	"*_optim_states.pt": regexp.MustCompile(`_optim_states\.pt$`),
	"*_model_states.pt": regexp.MustCompile(`_model_states\.pt$`),
	"__*_*.distcp":      regexp.MustCompile(`(^|/)__\d+_\d+\.distcp$`),
}

func countRanks(c Candidate, entries []entry) map[string]int {
	n := map[string]int{}
	for _, e := range entries {
		for kind, re := range rankKinds {
			if e.mode.IsRegular() && re.MatchString(strings.TrimPrefix(e.path, c.Name+"/")) {
				n[kind]++
			}
		}
	}
	return n
}

func (r *rankFiles) missing(c Candidate, entries []entry) string {
	n := countRanks(c, entries)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(r.learned)) {
		if want := r.learned[kind]; n[kind] < want {
			return fmt.Sprintf("%d of %d files %s are there", n[kind], want, kind)
		}
	}
	return ""
}

func (r *rankFiles) learn(c Candidate, entries []entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learned = countRanks(c, entries)
}
