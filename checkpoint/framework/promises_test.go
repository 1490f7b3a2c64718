package framework_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// TestPromises writes every layout, stopping before each operation.
func TestPromises(t *testing.T) {
	t.Parallel()
	tb := &table{cells: map[string]map[string]string{}, count: map[string]map[string]int{}}
	layouts := frameworktest.Layouts()
	t.Run("layouts", func(t *testing.T) {
		for _, l := range layouts {
			t.Run(l.Name, func(t *testing.T) {
				t.Parallel()
				h := &held{table: tb, Layout: l}
				h.everyPoint(t)
				h.kills(t)
				h.rotation(t)
				h.words(t)
			})
		}
	})
	if !t.Failed() {
		tb.print(t, layouts)
	}
}

const seed = 7

// held is a layout that is held to its promises.
type held struct {
	*table
	frameworktest.Layout
}

func (h *held) config() framework.Config { return framework.Config{Marker: h.Marker} }

// make returns the layout's adapter with a configuration of its own.
func (h *held) make(t testing.TB, set func(*framework.Config)) framework.Adapter {
	t.Helper()
	cfg := h.config()
	if set != nil {
		set(&cfg)
	}
	a, err := framework.New(h.Adapter, cfg)
	must(t, err)
	return a
}

// trainerStep returns the step of a candidate as the writer counts.
func (h *held) trainerStep(c framework.Candidate) int64 {
	if h.Adapter == "keras" {
		return c.Step / 1_000_000
	}
	return c.Step
}

// complete looks twice, as after any pause, and returns the candidates that are
// judged complete, newest first.
func (h *held) complete(t testing.TB, a framework.Adapter, root *os.Root) []framework.Candidate {
	t.Helper()
	cs, err := a.Candidates(root)
	must(t, err)
	var got []framework.Candidate
	for _, c := range cs {
		ok := false
		for range 2 {
			ok, _, err = a.Complete(root, c)
			if err != nil && !errors.Is(err, checkpoint.ErrVanished) {
				t.Fatalf("%s: Complete(%q) = %v", h.Name, c.Name, err)
			}
		}
		if ok {
			got = append(got, c)
		}
	}
	return got
}

// reporter is a test or one run of a property.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// early fails if one judged complete is not: its bytes differ, or it is of the
// step being written and that is not finished.
func (h *held) early(t reporter, promise, point, dir string, step int64, whole bool, got []framework.Candidate) {
	t.Helper()
	h.add(h.Name, promise, 1)
	for _, c := range got {
		at := h.trainerStep(c)
		if err := h.Verify(dir, at, seed); err != nil {
			t.Errorf("%s: before %q, step %d is judged complete: %v", h.Name, point, at, err)
		}
		if at == step && !whole {
			t.Errorf("%s: before %q, step %d is judged complete", h.Name, point, at)
		}
	}
}

func (h *held) only(got []framework.Candidate, step int64) []framework.Candidate {
	return slices.DeleteFunc(slices.Clone(got), func(c framework.Candidate) bool {
		return h.trainerStep(c) != step && h.Rotates != frameworktest.InPlace
	})
}

// everyPoint writes a first and a second checkpoint and judges at each point, and
// a third, after which the first may be deleted.
func (h *held) everyPoint(t *testing.T) {
	j := newJob(t)
	var open []string // as it is at a point
	seeing := func(c *framework.Config) {
		c.Writing = func(*os.Root) ([]string, error) { return open, nil }
	}
	patient, blind := h.make(t, seeing), h.make(t, nil)
	whole, ready := false, map[string]string{}
	for _, step := range []int64{1, 2, 3} {
		whole = false
		must(t, h.Write(j.dir, step, seed, func(point string) error {
			whole = whole || point == frameworktest.Complete
			if step == 3 && !whole {
				return nil
			}
			var err error
			open, err = frameworktest.Writing(j.dir)
			must(t, err)
			if step == 1 {
				h.first(t, j, point, whole, seeing)
				h.aheadOf(t, h.make(t, seeing), j, step, whole, ready)
				return nil
			}
			for _, a := range []framework.Adapter{patient, blind} {
				h.early(t, "never early", point, j.dir, step, whole, h.complete(t, a, j.root))
			}
			h.aheadOf(t, patient, j, step, whole, ready)
			return nil
		}))
		open = nil
		for _, a := range []framework.Adapter{patient, blind, h.make(t, nil)} {
			got := h.complete(t, a, j.root)
			if len(got) == 0 || h.trainerStep(got[0]) != step {
				cs := j.candidates(a)
				_, why, err := a.Complete(j.root, cs[0])
				t.Fatalf("%s: step %d is written and not complete: %v, %q, %v", h.Name, step, got, why, err)
			}
			h.add(h.Name, "complete after", 1)
		}
		h.detected(t, j, h.Adapter)
		for name, was := range ready {
			if now, err := os.ReadFile(filepath.Join(j.dir, name)); err == nil && string(now) != was {
				t.Errorf("%s: %s was ready and changed", h.Name, name)
			}
			h.add(h.Name, "ready", 1)
		}
		clear(ready)
	}
	if why := notAhead[h.Name]; why != "" {
		h.na(h.Name, "ready", why)
	}
}

// notAhead says why nothing of a layout can be uploaded before it is complete.
var notAhead = map[string]string{
	"hf-staging": "nothing has its final name before all of it is complete", "orbax": "nothing has its final name before all of it is complete",
	"lightning": "the one file is the checkpoint", "lightning-nested": "the one file is the checkpoint",
	"lightning-unnumbered": "the one file is the checkpoint", "lightning-last": "the one file is the checkpoint",
	"keras": "its files are written over in place", "plain": "nothing is known of the files", "plain-files": "nothing is known of the files",
}

// first judges a first checkpoint, of which nothing was learned.
func (h *held) first(t *testing.T, j *job, point string, whole bool, seeing func(*framework.Config)) {
	killed := h.make(t, func(c *framework.Config) { c.Cut = func() bool { return true } })
	h.early(t, "killed first", point, j.dir, 1, whole, h.complete(t, killed, j.root))
	told := h.make(t, func(c *framework.Config) {
		c.Ranks = func() int { return h.Ranks }
		seeing(c)
	})
	if h.Adapter == "accelerate" {
		h.na(h.Name, "paused first", "save_state marks no end, so a trainer that stops for long between two files of its first looks finished")
	} else {
		h.early(t, "paused first", point, j.dir, 1, whole, h.complete(t, told, j.root))
	}
	if len(point)%3 == 0 { // it looks for every framework there is
		h.detected(t, j, "")
	}
}

// detected makes sure that Detect names the framework, or nothing yet.
func (h *held) detected(t *testing.T, j *job, must string) {
	a, err := framework.Detect(j.root, h.config())
	if h.Adapter == "orbax" { // a marker would mean the user's own rule
		a, err = framework.Detect(j.root, framework.Config{})
	}
	got := ""
	if a != nil {
		got = a.Name()
	}
	// Until more than weights are there, save_state called by a script that uses
	// Trainer's names is Trainer; that adapter knows it as well.
	same := got == h.Adapter || h.Name == "accelerate-named" && got == "hf"
	if err != nil || must == "" && got != "" && !same || must != "" && got != must {
		t.Errorf("%s: Detect = %q, %v", h.Name, got, err)
	}
	h.add(h.Name, "detected", 1)
}

// aheadOf collects what is ready of a checkpoint that is not complete.
func (h *held) aheadOf(t *testing.T, a framework.Adapter, j *job, step int64, whole bool, ready map[string]string) {
	for _, c := range j.candidates(a) {
		if h.trainerStep(c) != step || whole || h.Name == "accelerate-named" && notAhead[h.Name] != "" {
			continue
		}
		var names []string
		for range 2 {
			var err error
			names, err = a.Ready(j.root, c)
			must(t, err)
		}
		if !slices.IsSortedFunc(names, func(x, y string) int { return a.Rank(x) - a.Rank(y) }) {
			t.Errorf("%s: ready in the wrong order: %q", h.Name, names)
		}
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join(j.dir, name))
			must(t, err)
			if was, ok := ready[name]; ok && was != string(b) {
				t.Errorf("%s: %s was ready and changed", h.Name, name)
			}
			ready[name] = string(b)
		}
	}
}
