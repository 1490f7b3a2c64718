package checkpoint_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// collected is a job over many machines whose dropped checkpoints are collected,
// by deletions that arrive as late as they like.
type collected struct {
	t     *testing.T
	dir   string
	store *mem.Store
	e     *checkpoint.Engine
	epoch int
	step  int64
	kept  []checkpoint.Ref // newest first
	trees map[checkpoint.Ref]map[string]string
	gone  []checkpoint.Ref // dropped
	late  []string         // deletions that are on their way
}

var contents = []string{large("A"), large("B"), "little a", "little b", ""}

// save uploads the next step, and perhaps commits it.
func (c *collected) save(r *rapid.T) {
	c.step++
	tree := filepath.Join(c.dir, fmt.Sprint("checkpoint-", c.step))
	files := spec{}
	files["a"] = rapid.SampledFrom(contents).Draw(r, "a")
	for _, name := range []string{"b", "d/c"} {
		files[name] = rapid.SampledFrom(contents[2:]).Draw(r, name)
	}
	writeIn(c.t, tree, files)
	defer os.RemoveAll(tree)
	ref, err := c.e.Upload(c.t.Context(), checkpoint.SaveRequest{Dir: tree, Epoch: c.epoch, Step: c.step})
	if err != nil {
		r.Fatalf("Upload = %v", err)
	}
	if rapid.Bool().Draw(r, "is committed") {
		if err := checkpoint.Verify(c.t.Context(), c.store, "acme", "job1", ref, false); err != nil {
			r.Fatalf("a commit was refused: %v", err)
		}
		c.kept, c.trees[ref] = slices.Insert(c.kept, 0, ref), snapshot(c.t, tree)
	}
}

// restart is a new process of the same epoch.
func (c *collected) restart(*rapid.T) {
	c.e = engineWith(c.t, c.store, &record{store: c.store})
}

// fail moves the job to another machine, which restores the newest.
func (c *collected) fail(r *rapid.T) {
	c.epoch++
	c.e = engineWith(c.t, c.store, &record{store: c.store})
	if len(c.kept) > 0 {
		c.restore(r)
	}
}

func (c *collected) restore(r *rapid.T) {
	dir := filepath.Join(c.dir, "restored")
	defer os.RemoveAll(dir)
	got, err := c.e.Restore(c.t.Context(), checkpoint.RestoreRequest{Refs: c.kept, Dir: dir})
	if err != nil || len(got.Rejected) > 0 {
		r.Fatalf("Restore = %v, rejected %v", err, got.Rejected)
	}
	if tree := snapshot(c.t, got.Path); !maps.Equal(tree, c.trees[got.Ref]) {
		r.Fatalf("%s restored as %q, want %q", got.Ref.Name, tree, c.trees[got.Ref])
	}
}

// drop drops all but the newest two, and sends off the deletions of what only
// they name: in closed epochs of everything nobody keeps, in the current one of
// what a dropped manifest names.
func (c *collected) drop(*rapid.T) {
	if len(c.kept) > 2 {
		c.gone = append(c.gone, c.kept[2:]...)
		c.kept = c.kept[:2]
	}
	keep := map[string]bool{}
	for _, ref := range c.kept {
		for _, o := range manifestOf(c.t, c.store, ref).Objects() {
			keep[o.Name] = true
		}
	}
	for _, ref := range c.gone {
		for _, o := range manifestOf(c.t, c.store, ref).Objects() {
			if !keep[o.Name] {
				c.late = append(c.late, o.Name)
			}
		}
	}
	for _, name := range c.store.Names() {
		current := strings.HasPrefix(name, checkpoint.EpochPrefix("acme", "job1", c.epoch))
		if strings.Contains(name, "/data/") && !current && !keep[name] {
			c.late = append(c.late, name)
		}
	}
}

// arrive lets some deletions happen. They may arrive again.
func (c *collected) arrive(r *rapid.T) {
	for _, name := range c.late {
		if rapid.Bool().Draw(r, "arrives") {
			if err := c.store.Delete(c.t.Context(), name); err != nil {
				r.Fatal(err)
			}
		}
	}
}

// every kept checkpoint can be restored at any time.
func (c *collected) check(r *rapid.T) {
	for _, ref := range c.kept {
		if err := checkpoint.Verify(c.t.Context(), c.store, "acme", "job1", ref, false); err != nil {
			r.Fatalf("a kept checkpoint lost something: %v", err)
		}
	}
}

// TestNothingKeptIsCollected runs random histories of saves with content that
// comes back, commits whose answer was lost, restarts, moves and late deletions.
func TestNothingKeptIsCollected(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	rapid.Check(t, func(r *rapid.T) {
		c := &collected{t: t, dir: dir, store: mem.New(mem.Config{}), epoch: 1, trees: map[checkpoint.Ref]map[string]string{}}
		c.restart(r)
		r.Repeat(map[string]func(*rapid.T){"save": c.save, "save more": c.save, "restart": c.restart, "fail": c.fail,
			"drop": c.drop, "arrive": c.arrive, "": c.check})
	})
}
