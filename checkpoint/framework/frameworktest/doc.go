// Package frameworktest writes checkpoints as training frameworks do, operation
// by operation and in each framework's own order, so that a test can stop or
// kill the writer between any two of them, and knows when the checkpoint was
// whole.
//
// The files are real as far as an outsider looks: safetensors with their
// headers, archives by torch.save with a pickle and an end, HDF5 with a
// superblock, JSON. Their bytes follow from layout, step and seed alone, so that
// what was restored can be compared.
//
// It needs nothing but the standard library, and Main makes a program of it that
// can be killed for real.
package frameworktest

import (
	"fmt"
	"slices"
	"strings"
)

// Complete is the point of a write from which on the checkpoint is whole: what
// is done after it, such as deleting older ones, is no part of it.
const Complete = "complete"

// Rotation says what happens to older checkpoints.
type Rotation string

// The kinds of rotation.
const (
	Kept    Rotation = "kept"    // they stay
	After   Rotation = "after"   // the oldest of three go when the new one is whole
	Before  Rotation = "before"  // all go before the new one is begun
	InPlace Rotation = "inplace" // the new one is written over the last
)

// Layout is one way a framework writes checkpoints.
type Layout struct {
	Name    string
	Adapter string // what package framework calls it
	Marker  string // what the adapter has to be told
	Ranks   int    // processes that write
	Rotates Rotation

	// Unproven says why nothing on disk shows a first checkpoint to be whole, so
	// that it takes the number of ranks or a trainer that lives; "" when something does.
	Unproven string

	// own matches the paths that belong to the checkpoint of a step, rather than
	// pointing at it; newest is how the framework finds what to resume from.
	own    func(step int64) string
	newest func(dir string) (int64, error)
	script func(p *plan)
}

// Layouts returns all there are, in a fixed order.
func Layouts() []Layout {
	return slices.Concat(huggingFace(), sharded(), single())
}

// ByName returns one of them.
func ByName(name string) (Layout, error) {
	var names []string
	for _, l := range Layouts() {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Layout{}, fmt.Errorf("no layout %q, want one of %s", name, strings.Join(names, ", "))
}

// Write writes the checkpoint of a step below dir. at is called before each
// operation on the file system with words for what comes, and once with
// Complete; when it returns an error the writer is dead: nothing more is
// written and open files are let go. One rank writes as far as it can before
// the next begins, which is as late as a slow rank can be.
func (l Layout) Write(dir string, step int64, seed uint64, at func(point string) error) error {
	return l.Interleave(dir, step, seed, inTurn, at)
}

func inTurn(int) int { return 0 }

// Interleave is Write with the ranks in any order: choose picks one of n that
// can go on.
func (l Layout) Interleave(dir string, step int64, seed uint64, choose func(n int) int, at func(point string) error) error {
	w := &writer{dir: dir, at: at, choose: choose}
	return w.run(l.plan(step, seed).ranks)
}

func (l Layout) plan(step int64, seed uint64) *plan {
	p := &plan{layout: l.Name, step: step, seed: seed}
	for range max(l.Ranks, 1) {
		p.ranks = append(p.ranks, &rank{})
	}
	l.script(p)
	return p
}

// Files returns the files of a whole checkpoint, by path below dir.
func (l Layout) Files(step int64, seed uint64) map[string][]byte {
	files := map[string][]byte{}
	ranks := l.plan(step, seed).ranks
	for i, k := range schedule(ranks, inTurn) {
		ranks[i].ops[k].imagine(files)
	}
	for name := range files {
		if !strings.HasPrefix(name, l.own(step)) {
			delete(files, name)
		}
	}
	return files
}

// Newest returns the step that the framework would resume from when it is left
// to find it by itself.
func (l Layout) Newest(dir string) (int64, error) { return l.newest(dir) }
