package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// TestFetchGoesOn: a fetch that is interrupted is gone on with, also by another
// process, and what lies there is believed only when its bytes are right.
func TestFetchGoesOn(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"w": chunky(10, "w"), "d/small": "0600 s", "l": "->w"})
	base := mem.New(mem.Config{})
	ref, err := variant(t, base, checkpoint.Config{}).Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
	must(t, err)
	for _, tc := range []struct {
		name  string
		spoil func(staging string) error
		gets  int // beside the manifest
	}{
		{"goes on where it was", func(string) error { return nil }, 11 - 5},
		{"reads again what was changed meanwhile", func(d string) error { return poke(d+"/w", 10, "X") }, 11 - 4},
		{"reads again what was cut off", func(d string) error { return os.Truncate(d+"/w", 2<<20) }, 11 - 3},
		{"removes what does not belong there", func(d string) error {
			return errors.Join(os.WriteFile(d+"/extra", nil, 0o600), os.MkdirAll(d+"/d/e/f", 0o700), os.Symlink("/etc", d+"/d/etc"))
		}, 11 - 5},
		{"does not follow what was put in a file's place", func(d string) error {
			return errors.Join(os.Remove(d+"/w"), os.Symlink("d/small", d+"/w"))
		}, 11 - 1},
		{"does not write to what has another name too", func(d string) error { return os.Link(d+"/w", d+"/../outside") }, 11 - 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			to := filepath.Join(scratch(t), "ckpt")
			s := base.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
				if op.Verb == mem.Get && op.N > 5 {
					return mem.Fault{Before: errDied}
				}
				return mem.Fault{}
			}})
			req := checkpoint.RestoreRequest{Refs: []checkpoint.Ref{ref}, Dir: to}
			if _, err := variant(t, s, checkpoint.Config{FetchWorkers: 1}).Fetch(t.Context(), req); !errors.Is(err, errDied) {
				t.Fatalf("Fetch = %v, want it interrupted", err)
			}
			must(t, tc.spoil(filepath.Join(to, ".incoming-"+ref.Name)))
			gets := 0
			s = base.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
				if op.Verb == mem.Get {
					gets++
				}
				return mem.Fault{}
			}})
			staged, err := variant(t, s, checkpoint.Config{FetchWorkers: 1}).Fetch(t.Context(), req)
			must(t, err)
			if gets != tc.gets+1 {
				t.Errorf("%d objects were read, want %d and the manifest", gets, tc.gets)
			}
			if _, err := os.Lstat(filepath.Join(to, "checkpoint-1")); err == nil {
				t.Error("the tree is visible before it is exposed")
			}
			got, err := staged.Expose("resume")
			must(t, err)
			same(t, snapshot(t, got.Path), snapshot(t, dir))
		})
	}
}

// TestDiscard: what was fetched in vain can be thrown away, and another fetch
// into the same directory does it by itself.
func TestDiscard(t *testing.T) {
	t.Parallel()
	s := mem.New(mem.Config{})
	e := variant(t, s, checkpoint.Config{})
	var refs []checkpoint.Ref
	for step := range int64(2) {
		ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: write(t, "checkpoint", spec{"w": fmt.Sprint(step)}), Epoch: 1, Step: step})
		must(t, err)
		refs = append(refs, ref)
	}
	to := scratch(t)
	_, err := e.Fetch(t.Context(), checkpoint.RestoreRequest{Refs: refs[:1], Dir: to})
	must(t, err)
	staged, err := e.Fetch(t.Context(), checkpoint.RestoreRequest{Refs: refs[1:], Dir: to})
	must(t, err)
	if left, err := os.ReadDir(to); err != nil || len(left) != 1 {
		t.Errorf("%v, %v are there, want the newer alone", left, err)
	}
	must(t, staged.Discard())
	if left, err := os.ReadDir(to); err != nil || len(left) != 0 {
		t.Errorf("%v, %v is left", left, err)
	}
}
