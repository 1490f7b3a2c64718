package gateway

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

var (
	seeds = flag.Int("seeds", 100, "how many courses TestNothingLiveIsEverDeleted plays")
	first = flag.Uint64("seed", 1, "the first of them")
)

// TestNothingLiveIsEverDeleted plays a job's life with everybody who touches its
// checkpoints at once: the writers of its epochs and those who do not know that
// theirs is over, machines and people that restore, people who pin and drop, and two
// gateways that collect, at a store and a record that answer late, or not at
// all. What each may do is judged by an oracle of its own; see live_oracle_test.go.
func TestNothingLiveIsEverDeleted(t *testing.T) {
	t.Parallel()
	var tally tallies
	shards := min(runtime.GOMAXPROCS(0), *seeds)
	t.Run("courses", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				for n := uint64(shard); n < uint64(*seeds); n += uint64(shards) {
					seed := *first + n
					synctest.Test(t, func(t *testing.T) { play(t, seed, dir, &tally) })
					if err := os.RemoveAll(fmt.Sprintf("%s/%d", dir, seed)); err != nil {
						t.Fatal(err)
					}
					if t.Failed() {
						t.Fatalf("seed %d: run it again with -seeds 1 -seed %d", seed, seed)
					}
				}
			})
		}
	})
	t.Log(tally.String())
	if !t.Failed() {
		tally.every(t, *seeds)
	}
}

// tallies counts what happened over all courses: a promise that nothing ever puts to the test is none.
type tallies struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tallies) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what] += n
}

// happenings are what courses are made of.
var happenings = []string{
	"commits", "fenced commits", "commits whose answer was lost", "saves that never were committed", "checkpoints dropped by policy", "checkpoints dropped by people",
	"drops refused", "pins", "pinned checkpoints outlived the policy", "restores by machines", "restores that began at an older checkpoint", "restores by people",
	"reads within the grace", "objects deleted", "deletions that were late", "content that came back", "rounds by two at once", "epochs", "jobs ended with a result",
}

func (c *tallies) String() string {
	s := ""
	for _, what := range happenings {
		s += fmt.Sprintf("%s: %d\n", what, c.n[what])
	}
	return s
}

func (c *tallies) every(t *testing.T, seeds int) {
	for _, what := range happenings {
		if c.n[what] == 0 && seeds >= 100 {
			t.Errorf("in %d courses there were no %s", seeds, what)
		}
	}
}

func play(t *testing.T, seed uint64, dir string, tally *tallies) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := newWorld(t, seed, fmt.Sprintf("%s/%d", dir, seed), tally)
	for i := range w.gateways {
		w.go_(func(r *rand.Rand) { w.collects(ctx, r, i) })
	}
	w.go_(func(r *rand.Rand) { w.meddles(ctx, r) })
	w.go_(func(r *rand.Rand) { w.reads(ctx, r) })
	w.runs(ctx, w.chance("operator"))
	cancel()
	w.wait()
	w.settles(t.Context())
}
