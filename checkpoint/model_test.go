package checkpoint_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// world is one job over many machines, and what must be true of it: by the
// record, which tree each commit had.
type world struct {
	t     *testing.T
	dir   string
	store *mem.Store
	rec   *record
	trees map[checkpoint.Ref]map[string]string
	step  int64
	fault func(op mem.Op) mem.Fault
}

// save trains to the next step and saves, perhaps dying of a fault.
func (w *world) save(r *rapid.T) {
	w.step++
	tree := filepath.Join(w.dir, fmt.Sprintf("checkpoint-%d", w.step))
	files := spec{}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c/d", "c/e", "f/"}), 0, 4).Draw(r, "names") {
		files[name] = rapid.SampledFrom([]string{"", "frozen", "0600 secret", fmt.Sprint("state ", w.step)}).Draw(r, "content")
	}
	writeIn(w.t, tree, files)
	defer os.RemoveAll(tree)
	want := snapshot(w.t, tree)

	n, how := rapid.IntRange(0, 60).Draw(r, "fault at"), rapid.SampledFrom([]mem.Fault{
		{Before: errDied}, {After: errDied}, {Bend: mem.Torn(1), After: errDied}, {Bend: mem.Flipped(5), After: errDied},
		{Before: checkpoint.ErrNoSpace},
	}).Draw(r, "fault")
	seen := 0
	w.fault = func(mem.Op) mem.Fault {
		seen++
		if seen-1 == n {
			return how
		}
		if seen-1 > n && !errors.Is(how.Before, checkpoint.ErrNoSpace) {
			return mem.Fault{Before: errDied}
		}
		return mem.Fault{}
	}
	w.rec.epoch++
	ref, err := engineWith(w.t, w.store, w.rec).Save(w.t.Context(), checkpoint.SaveRequest{Dir: tree, Epoch: w.rec.epoch, Step: w.step})
	w.fault = nil
	if err == nil {
		w.trees[ref] = want
	}
	if committed := len(w.rec.refs) > 0 && w.rec.refs[0].Step == w.step; committed != (err == nil) {
		r.Fatalf("Save = %v, but committed is %v", err, committed)
	}
}

// zombie is a machine of an old epoch that comes back: it may upload, not commit.
func (w *world) zombie(r *rapid.T) {
	tree := filepath.Join(w.dir, "zombie")
	writeIn(w.t, tree, spec{"a": "of the dead"})
	defer os.RemoveAll(tree)
	_, err := engineWith(w.t, w.store, w.rec).Save(w.t.Context(), checkpoint.SaveRequest{Dir: tree, Epoch: w.rec.epoch - 1, Step: 1 << 40})
	if !errors.Is(err, checkpoint.ErrFenced) && !errors.Is(err, checkpoint.ErrManifest) {
		r.Fatalf("Save of an old epoch = %v", err)
	}
}

// restore is what the next machine does.
func (w *world) restore(r *rapid.T) {
	dir := filepath.Join(w.dir, "restored")
	defer os.RemoveAll(dir)
	got, err := engineWith(w.t, w.store, w.rec).Restore(w.t.Context(), checkpoint.RestoreRequest{Refs: w.rec.refs, Dir: dir})
	if len(w.rec.refs) == 0 {
		if !errors.Is(err, checkpoint.ErrNoRefs) {
			r.Fatalf("Restore of nothing = %v", err)
		}
		return
	}
	if err != nil || got.Ref != w.rec.refs[0] {
		r.Fatalf("Restore = %v, rejected %v, %v; want %v", got.Ref.Name, got.Rejected, err, w.rec.refs[0].Name)
	}
	if tree := snapshot(w.t, got.Path); !maps.Equal(tree, w.trees[got.Ref]) {
		r.Fatalf("checkpoint %s restored as %q, want %q", got.Ref.Name, tree, w.trees[got.Ref])
	}
}

// TestAnyHistory runs random histories of saves that die, zombies and restores.
// The newest commit always restores, bit for bit, on a machine that knows
// nothing but the record.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	rapid.Check(t, func(r *rapid.T) {
		w := &world{t: t, dir: dir, trees: map[checkpoint.Ref]map[string]string{}}
		w.store = mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
			if w.fault != nil {
				return w.fault(op)
			}
			return mem.Fault{}
		}})
		w.rec = &record{store: w.store}
		r.Repeat(map[string]func(*rapid.T){"save": w.save, "zombie": w.zombie, "restore": w.restore})
	})
}
