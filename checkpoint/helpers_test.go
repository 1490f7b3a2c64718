package checkpoint_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spotferry/spotferry/checkpoint"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(childEnv); where != "" {
		child(where) // never returns
	}
	goleak.VerifyTestMain(m)
}

var epochStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// record is a job's record, with the gateway's rules: a checkpoint of an old
// epoch is refused, one whose manifest or sizes are wrong is too, and a repeat is
// not a second one.
type record struct {
	store checkpoint.Store

	mu    sync.Mutex
	epoch int
	refs  []checkpoint.Ref // newest first
	lose  error            // returned once, after the commit was recorded
}

func (r *record) Commit(ctx context.Context, ref checkpoint.Ref) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref.Epoch != r.epoch {
		return checkpoint.ErrFenced
	}
	// One worker, so that the order of operations depends on the test alone.
	e, err := checkpoint.New(checkpoint.Config{Store: r.store, Tenant: "acme", Job: "job1", Workers: 1})
	if err == nil {
		err = e.Verify(ctx, ref, false)
	}
	if err != nil {
		return err
	}
	if !slices.Contains(r.refs, ref) {
		r.refs = slices.Insert(r.refs, 0, ref)
	}
	err, r.lose = r.lose, nil
	return err
}

// engine returns an engine on store with a record of its own.
func engine(t testing.TB, store checkpoint.Store) (*checkpoint.Engine, *record) {
	t.Helper()
	rec := &record{store: store, epoch: 1}
	return engineWith(t, store, rec), rec
}

func engineWith(t testing.TB, store checkpoint.Store, rec *record) *checkpoint.Engine {
	t.Helper()
	e, err := checkpoint.New(checkpoint.Config{Store: store, Tenant: "acme", Job: "job1", Committer: rec,
		Now: func() time.Time { return epochStart }, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// spec is a tree: content by path. A path ending in "/" is a directory, a value
// beginning with "->" a link, and "0640 …" content with a mode.
type spec map[string]string

// scratch returns a new directory, in memory where there is such a place: a
// restore syncs every file, which on a busy disk is most of a test's time.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "checkpoint-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// write makes a tree in a new directory called name.
func write(t testing.TB, name string, s spec) string {
	t.Helper()
	dir := filepath.Join(scratch(t), name)
	writeIn(t, dir, s)
	return dir
}

func writeIn(t testing.TB, dir string, s spec) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for _, p := range slices.Sorted(maps.Keys(s)) {
		full, content := filepath.Join(dir, p), s[p]
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		link, isLink := strings.CutPrefix(content, "->")
		switch {
		case strings.HasSuffix(p, "/"):
			must(t, os.MkdirAll(full, 0o755))
		case isLink:
			must(t, os.Symlink(link, full))
		default:
			mode := fs.FileMode(0o644)
			if first, rest, ok := strings.Cut(content, " "); ok && len(first) == 4 && first[0] == '0' {
				n, err := strconv.ParseUint(first, 8, 32)
				must(t, err)
				mode, content = fs.FileMode(n), rest
			}
			must(t, os.WriteFile(full, []byte(content), 0o600))
			must(t, os.Chmod(full, mode))
		}
	}
}

// snapshot describes everything a checkpoint promises to keep of a tree.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch {
		case d.Type() == fs.ModeSymlink:
			text, err := os.Readlink(p)
			out[rel] = "->" + text
			return err
		case d.IsDir():
			out[rel] = fmt.Sprintf("dir %v", info.Mode().Perm())
			return nil
		}
		data, err := os.ReadFile(p)
		out[rel] = fmt.Sprintf("%v %d %x", info.Mode().Perm(), info.Size(), sha256.Sum256(data))
		return err
	}))
	return out
}

func same(t testing.TB, got, want map[string]string) {
	t.Helper()
	for p := range want {
		if got[p] != want[p] {
			t.Errorf("%q is %q, want %q", p, got[p], want[p])
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%q should not be there", p)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save saves and commits a tree and fails the test if that fails.
func save(t testing.TB, e *checkpoint.Engine, dir string, step int64) checkpoint.Ref {
	t.Helper()
	ref, err := e.Save(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: step, Framework: "hf"})
	must(t, err)
	return ref
}

// restore restores the newest good one into a new directory, and makes sure that
// nothing else is in that directory afterwards.
func restore(t testing.TB, e *checkpoint.Engine, refs []checkpoint.Ref) (checkpoint.Restored, error) {
	t.Helper()
	dir := filepath.Join(scratch(t), "restored")
	got, err := e.Restore(t.Context(), checkpoint.RestoreRequest{Refs: refs, Dir: dir})
	entries, rerr := os.ReadDir(dir)
	if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		t.Error(rerr)
	}
	for _, d := range entries {
		unfinished := err != nil && strings.HasPrefix(d.Name(), ".incoming-") // for the next try
		if d.Name() != got.Name && !unfinished {
			t.Errorf("%q was left behind", d.Name())
		}
	}
	return got, err
}
