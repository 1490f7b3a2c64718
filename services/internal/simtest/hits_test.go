package simtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// hits counts what was met, over all seeds of a test.
type hits struct {
	mu sync.Mutex
	n  map[string]int
}

func newHits() *hits { return &hits{n: map[string]int{}} }

func (h *hits) add(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n[what]++
}

func (h *hits) get(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n[what]
}

// met says whether anything was whose name begins so.
func (h *hits) met(prefix string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.n {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

func (h *hits) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, k := range slices.Sorted(maps.Keys(h.n)) {
		out = append(out, fmt.Sprintf("%6d  %s", h.n[k], k))
	}
	return out
}

// kinds are the sorts of trouble, and what came of them.
var kinds = []string{
	"agent gives up in silence", "agent learns it is fenced", "answer lost after the effect", "bus dies", "bus restarts",
	"bus: acknowledgement lost", "bus: append lost", "bus: append repeated", "bus: append unanswered, connection broken",
	"crash: " + anywhere, "feed: absurd price", "job cancelled", "job out of budget", "killed inside a save", "machine fails", "machine never boots", "machine taken after a fair warning",
	"machine's wall clock is set",
	"machine that nobody ordered", "notice withdrawn", "older checkpoint restored", "partition past the hold",
	"partition past the silence limit", "partition within the hold", "pool runs empty", "reclaim with notice", "reclaim without notice",
	"request delayed", "request lost", "request repeated", "seller answers nothing for minutes", "seller behind the bus",
	"seller: launch garbage", "seller: launch never answered", "seller: launch refused", "seller: launch refused after the effect",
	"seller: launch slow", "seller: launch throttled", "seller: launch twice", "seller: launch unanswered",
	"seller: list garbage", "seller: list partial", "seller: list refused", "seller: list slow", "seller: list twice", "seller: list unanswered",
	"seller: offers garbage", "seller: offers refused", "seller: offers unanswered",
	"seller: terminate garbage", "seller: terminate refused", "seller: terminate slow", "seller: terminate throttled", "seller: terminate unanswered",
	"steps lost in a move", "store: answer lost after a put", "store: get fails", "store: object damaged", "store: put refused",
	"store: answer lost after a delete", "store: delete refused", "store: get bent on the wire", "store: get breaks at its end", "store: list fails", "store: list late", "store: stat fails",
	"checkpoint dropped", "store: ended job's objects counted", "store: object deleted", "store: piece of an epoch before relied on", "store: piece that came back has another name",
	"storm", "trainer killed on a live machine", "trainer restarted in place", "two trainers at once",
}

// unmet lists what a run should have met by its length, in hours of all seeds, and has not.
func (h *hits) unmet(hours float64) []string {
	var out []string
	if hours < 100 { // 'make sim' has 120; every place of death is met in a test of its own
		return nil
	}
	for _, k := range kinds {
		if h.get(k) == 0 {
			out = append(out, k)
		}
	}
	return out
}

// floor is the least that must happen in an hour of a seed for it to count as a trial.
func (l load) floor(hours float64) error {
	if float64(l.placements) < hours || float64(l.machines) < hours || float64(l.commits) < 2*hours || float64(l.lost) < hours {
		return fmt.Errorf("too little happened in %v hours: %s", hours, l)
	}
	return nil
}
