package framework_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// restore puts a held tree into a directory as an engine does.
func restore(t testing.TB, root *os.Root, heldAt, name string) {
	t.Helper()
	must(t, root.RemoveAll(name))
	must(t, root.MkdirAll(path.Dir(name), 0o755))
	must(t, root.Rename(heldAt, name))
}

var errKilled = errors.New("killed")

// kills kills the second save at many points; the job goes on from the first, in
// the same directory.
func (h *held) kills(t *testing.T) {
	points := 0
	must(t, h.Write(t.TempDir(), 2, seed, func(string) error { points++; return nil }))
	for k := 1; k <= points; k += max(1, points/8) {
		j := newJob(t)
		must(t, h.Write(j.dir, 1, seed, func(string) error { return nil }))
		a := h.make(t, nil)
		c := h.complete(t, a, j.root)[0]
		must(t, a.Hold(j.root, c, ".own/held"))
		n := 0
		err := h.Write(j.dir, 2, seed, func(string) error {
			if n++; n == k {
				return errKilled
			}
			return nil
		})
		if !errors.Is(err, errKilled) {
			t.Fatalf("%s: killed at %d of %d: %v", h.Name, k, points, err)
		}
		restore(t, j.root, ".own/held", c.Name)
		h.resumes(t, j, c.Name, 1, fmt.Sprintf("killed at %d of %d", k, points))
		h.add(h.Name, "resumes after kill", 1)
	}
}

// resumes finishes a restore and makes sure that the framework finds it.
func (h *held) resumes(t *testing.T, j *job, name string, step int64, when string) {
	t.Helper()
	a := h.make(t, nil)
	_, err := framework.SetAside(j.root, a, name, ".own/aside")
	must(t, err)
	from := ""
	for range 2 { // the second time has nothing to do
		resume, err := a.Finish(j.root, name)
		must(t, err)
		from = filepath.Join(j.dir, resume)
	}
	if _, err := os.Stat(from); err != nil {
		t.Errorf("%s, %s: to resume from: %v", h.Name, when, err)
	}
	if got, err := h.Resume(j.dir, from, seed); err != nil || got != step {
		t.Errorf("%s, %s: the framework finds step %d, %v; want %d", h.Name, when, got, err, step)
	}
}

// rotation holds a checkpoint while later ones replace it, and restores it into
// an empty directory.
func (h *held) rotation(t *testing.T) {
	j := newJob(t)
	must(t, h.Write(j.dir, 1, seed, func(string) error { return nil }))
	a := h.make(t, nil)
	c := h.complete(t, a, j.root)[0]
	must(t, a.Hold(j.root, c, ".own/held"))
	for step := int64(2); step <= 4; step++ {
		must(t, h.Write(j.dir, step, seed, func(string) error { return nil }))
	}
	if err := h.Verify(j.dir, 1, seed); (err == nil) != (h.Rotates == frameworktest.Kept) {
		t.Errorf("%s: the original after three more saves: %v", h.Name, err)
	}
	fresh := newJob(t)
	must(t, os.Rename(filepath.Join(j.dir, ".own/held"), filepath.Join(fresh.dir, "held")))
	h.add(h.Name, "held", 1)
	restore(t, fresh.root, "held", c.Name)
	h.resumes(t, fresh, c.Name, 1, "on a new machine")
	h.add(h.Name, "finished", 3)
	got := h.complete(t, h.make(t, nil), fresh.root)
	if len(got) != 1 && h.Name != "plain-files" {
		t.Errorf("%s: complete after the restore: %v", h.Name, got)
	}
}

// words checks what people are told.
func (h *held) words(t *testing.T) {
	a := h.make(t, nil)
	name, why := a.Signal()
	want := map[string]string{"megatron": "SIGTERM", "orbax": "SIGTERM"}[h.Adapter]
	if name != want || why == "" {
		t.Errorf("%s: Signal = %q, %q; want %q", h.Name, name, why, want)
	}
	h.add(h.Name, "signal", 1)
	if said := framework.Resuming(h.Adapter, ""); !strings.Contains(said, "SPOTFERRY_") || strings.HasPrefix(said, " ") {
		t.Errorf("%s: Resuming = %q", h.Name, said)
	}
	h.add(h.Name, "told", 1)
}
