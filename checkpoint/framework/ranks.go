package framework

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// shape knows which files a checkpoint of this job has. Rank 0 does not wait for
// the others, so a checkpoint may be whole but for their files, and seldom does
// anything in it say how many there should be. The first complete one teaches it.
type shape struct {
	mu      sync.Mutex
	learned map[string]int // how many files of each kind; nil before the first
}

// kinds are the files that, once a checkpoint has had them, every later one has:
// those that each rank writes for itself, and what is written late.
var kinds = map[string]*regexp.Regexp{
	"rng_state_*.pth":         perRank["rng_state_*.pth"],
	"random_states_*":         perRank["random_states_*"],
	"*_optim_states.pt":       regexp.MustCompile(`_optim_states\.pt$`),
	"*_model_states.pt":       regexp.MustCompile(`_model_states\.pt$`),
	"__*_*.distcp":            regexp.MustCompile(`(^|/)__\d+_\d+\.distcp$`),
	".metadata":               regexp.MustCompile(`(^|/)\.metadata$`),
	"mp_rank_*":               regexp.MustCompile(`(^|/)(mp|tp)_rank_\d+[^/]*/[^/]+$`),
	"custom_checkpoint_*.pkl": regexp.MustCompile(`(^|/)custom_checkpoint_\d+\.pkl$`),
	"optimizer":               regexp.MustCompile(`(^|/)optimizer(_\d+)?\.(pt|bin)$`),
	"scheduler":               regexp.MustCompile(`(^|/)scheduler(_\d+)?\.(pt|bin)$`),
	"commit_success.txt":      regexp.MustCompile(`(^|/)commit_success\.txt$`),
}

// perRank are those of which there is one for each rank, numbered from 0.
var perRank = map[string]*regexp.Regexp{
	"rng_state_*.pth": regexp.MustCompile(`(^|/)rng_state_(\d+)\.pth$`),
	"random_states_*": regexp.MustCompile(`(^|/)random_states_(\d+)\.pkl$`),
}

func countKinds(s *sight) map[string]int {
	n := map[string]int{}
	for kind, re := range kinds {
		if got := len(s.files(re)); got > 0 {
			n[kind] = got
		}
	}
	return n
}

// missing compares with what was learned.
func (h *shape) missing(s *sight) string {
	n := countKinds(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(h.learned)) {
		if want := h.learned[kind]; n[kind] < want {
			return fmt.Sprintf("%d of %d files %s are there", n[kind], want, kind)
		}
	}
	return ""
}

func (h *shape) learn(s *sight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.learned = countKinds(s)
}

func (h *shape) known() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.learned != nil
}

// ranks makes sure that no rank's file is missing, as far as that can be told:
// there is no gap, and there are as many as the trainer has processes.
func (h *shape) ranks(s *sight) string {
	for _, kind := range slices.Sorted(maps.Keys(perRank)) {
		got := s.files(perRank[kind])
		if len(got) == 0 {
			continue
		}
		want := 1
		for _, e := range got {
			n, _ := strconv.Atoi(perRank[kind].FindStringSubmatch(path.Base(e.path))[2])
			want = max(want, n+1)
		}
		world := s.cfg.ranks()
		if want = max(want, world); len(got) < want {
			return fmt.Sprintf("%d of %d files %s are there", len(got), want, kind)
		}
		if world == 0 && !h.known() {
			s.doubt = fmt.Sprintf("nothing says how many ranks write files %s", kind)
		}
	}
	return ""
}
