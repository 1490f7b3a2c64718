package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

func TestFencedSaveIsInvisible(t *testing.T) {
	t.Parallel()
	s := mem.New(mem.Config{})
	e, rec := engine(t, s)
	first := write(t, "checkpoint-10", before)
	old := save(t, e, first, 10)
	rec.epoch = 2
	_, err := e.Save(t.Context(), checkpoint.SaveRequest{Dir: write(t, "checkpoint-20", after), Epoch: 1, Step: 20})
	if !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("Save = %v, want ErrFenced", err)
	}
	if len(rec.refs) != 1 {
		t.Errorf("the record has %d checkpoints, want the old one", len(rec.refs))
	}
	got, err := restore(t, e, rec.refs)
	must(t, err)
	if got.Ref != old || got.Name != "checkpoint-10" || got.Manifest.Framework != "hf" {
		t.Errorf("restored %+v, want the one committed before", got)
	}
	same(t, snapshot(t, got.Path), snapshot(t, first))
}

func TestLostAnswerOfACommit(t *testing.T) {
	t.Parallel()
	e, rec := engine(t, mem.New(mem.Config{}))
	rec.lose = errDied
	ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: write(t, "checkpoint-10", before), Epoch: 1, Step: 10})
	must(t, err)
	if err := e.Commit(t.Context(), ref); !errors.Is(err, errDied) {
		t.Errorf("Commit = %v, want the lost answer", err)
	}
	if err := e.Commit(t.Context(), ref); err != nil || len(rec.refs) != 1 {
		t.Errorf("repeated Commit = %v, %d checkpoints; want one", err, len(rec.refs))
	}
}

// TestOnlyProofRejects: a store that does not answer, or answers with more than
// it has, must not cost the work since the previous checkpoint.
func TestOnlyProofRejects(t *testing.T) {
	t.Parallel()
	base := mem.New(mem.Config{})
	e, rec := engine(t, base)
	save(t, e, write(t, "checkpoint-10", before), 10)
	save(t, e, write(t, "checkpoint-20", after), 20)
	// Restores read in parallel, so what went before is counted under a lock:
	// all gets, and those of the same object.
	gets := func(fault func(all, same int) mem.Fault) mem.Plan {
		var mu sync.Mutex
		all, same := 0, map[string]int{}
		return func(op mem.Op) mem.Fault {
			if op.Verb != mem.Get {
				return mem.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			all++
			same[op.Name]++
			return fault(all, same[op.Name])
		}
	}
	for _, tc := range []struct {
		name string
		plan mem.Plan
		step int64 // 0: the error is returned
	}{
		{"a store without faults gives the newest", nil, 20},
		{"a store that is down gives an error, not an older checkpoint", gets(func(_, _ int) mem.Fault { return mem.Fault{Before: errDied} }), 0},
		{"so does one that goes down later", gets(func(all, _ int) mem.Fault {
			if all < 3 {
				return mem.Fault{}
			}
			return mem.Fault{After: errDied}
		}), 0},
		{"bytes bent on the wire once are read again", gets(func(_, same int) mem.Fault {
			if same == 1 {
				return mem.Fault{Bend: mem.Flipped(2)}
			}
			return mem.Fault{}
		}), 20},
		{"a list that is late decides nothing", func(op mem.Op) mem.Fault { return mem.Fault{Hide: func(string) bool { return true }} }, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := base.Clone(mem.Config{Plan: tc.plan})
			got, err := restore(t, engineWith(t, s, &record{store: s}), rec.refs)
			if len(got.Rejected) > 0 || got.Ref.Step != tc.step || (err == nil) != (tc.step > 0) {
				t.Errorf("Restore = step %d, rejected %v, %v; want step %d", got.Ref.Step, got.Rejected, err, tc.step)
			}
		})
	}
}

func TestNothingToRestore(t *testing.T) {
	t.Parallel()
	e, rec := engine(t, mem.New(mem.Config{}))
	if _, err := restore(t, e, nil); !errors.Is(err, checkpoint.ErrNoRefs) || errors.Is(err, checkpoint.ErrNoneRestorable) {
		t.Errorf("Restore of nothing = %v, want ErrNoRefs", err)
	}
	save(t, e, write(t, "checkpoint-10", before), 10)
	empty, _ := engine(t, mem.New(mem.Config{}))
	got, err := restore(t, empty, rec.refs)
	if !errors.Is(err, checkpoint.ErrNoneRestorable) || len(got.Rejected) != 1 || !errors.Is(&got.Rejected[0], checkpoint.ErrNotFound) {
		t.Errorf("Restore from an empty store = %v, rejected %v; want ErrNoneRestorable", err, got.Rejected)
	}
}

// TestForgedRefs: a ref that is not the name of its manifest is rejected, and
// the next one used.
func TestForgedRefs(t *testing.T) {
	t.Parallel()
	s := mem.New(mem.Config{})
	e, _ := engine(t, s)
	good := save(t, e, write(t, "checkpoint-10", before), 10)
	other, err := checkpoint.New(checkpoint.Config{Store: s, Tenant: "acme", Job: "job2"})
	must(t, err)
	theirs, err := other.Upload(t.Context(), checkpoint.SaveRequest{Dir: write(t, "checkpoint-10", after), Epoch: 1, Step: 10})
	must(t, err)
	manifest := ""
	s.Edit(checkpoint.ManifestName("acme", "job2", theirs), func(b []byte) []byte { manifest = string(b); return b })
	must(t, s.Put(t.Context(), checkpoint.ManifestName("acme", "job1", theirs), strings.NewReader(manifest), int64(len(manifest))))
	for name, forge := range map[string]func(*checkpoint.Ref){
		"another step":                   func(r *checkpoint.Ref) { r.Step++ },
		"another epoch":                  func(r *checkpoint.Ref) { r.Epoch++ },
		"fewer bytes":                    func(r *checkpoint.Ref) { r.Bytes-- },
		"more files":                     func(r *checkpoint.Ref) { r.Files++ },
		"a name that is a path":          func(r *checkpoint.Ref) { r.Name = "../" + r.Name },
		"no digest":                      func(r *checkpoint.Ref) { r.Digest = "" },
		"the manifest of another job":    func(r *checkpoint.Ref) { *r = theirs },
		"nothing at all":                 func(r *checkpoint.Ref) { *r = checkpoint.Ref{} },
		"a digest of the same beginning": func(r *checkpoint.Ref) { r.Digest = r.Digest[:32] + strings.Repeat("0", 32) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forged := good
			forge(&forged)
			if err := checkpoint.Verify(t.Context(), s, "acme", "job1", forged, false); !isRejection(err, "") {
				t.Errorf("Verify = %v, want a rejection", err)
			}
			got, err := restore(t, e, []checkpoint.Ref{forged, good})
			if err != nil || got.Ref != good || len(got.Rejected) != 1 {
				t.Errorf("Restore = %v, rejected %v, %v; want the good one", got.Ref, got.Rejected, err)
			}
		})
	}
}

func TestWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	e, rec := engine(t, mem.New(mem.Config{}))
	tree := write(t, "checkpoint-10", before)
	save(t, e, tree, 10)
	for _, tc := range []struct {
		name string
		spec spec
		as   string
	}{
		{"nothing", spec{}, ""},
		{"a torn tree of that name is replaced whole", spec{"checkpoint-10/a.bin": "torn", "checkpoint-10/extra": "x"}, ""},
		{"a link of that name is replaced, not followed", spec{"checkpoint-10": "->/etc"}, ""},
		{"a file of that name", spec{"checkpoint-10": "x"}, ""},
		{"what a killed restore left is cleared", spec{".incoming-" + rec.refs[0].Name + "/a": "x", ".incoming-zzz": "->/", ".replaced-q/ro/f": "x"}, ""},
		{"another name, as asked for", spec{"checkpoint-10/a.bin": "mine"}, "resume"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, "ckpt", tc.spec)
			if info, err := os.Stat(dir + "/.replaced-q/ro"); err == nil {
				must(t, os.Chmod(dir+"/.replaced-q/ro", info.Mode()&^0o222))
			}
			got, err := e.Restore(t.Context(), checkpoint.RestoreRequest{Refs: rec.refs, Dir: dir, As: tc.as})
			must(t, err)
			same(t, snapshot(t, got.Path), snapshot(t, tree))
			entries, err := os.ReadDir(dir)
			must(t, err)
			for _, d := range entries {
				if strings.HasPrefix(d.Name(), ".") {
					t.Errorf("%q was left", d.Name())
				}
			}
			if tc.as != "" && (got.Path != filepath.Join(dir, tc.as) || len(entries) != 2) {
				t.Errorf("restored as %q beside %d others", got.Path, len(entries)-1)
			}
		})
	}
}

func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	base := mem.New(mem.Config{})
	e, rec := engine(t, base)
	first, second := write(t, "checkpoint-10", before), write(t, "checkpoint-20", after)
	save(t, e, first, 10)
	fullNow := true
	s := base.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
		if op.Verb == mem.Put && fullNow {
			return mem.Fault{Before: checkpoint.ErrNoSpace}
		}
		return mem.Fault{}
	}})
	rec.store = s
	e = engineWith(t, s, rec)
	if _, err := e.Save(t.Context(), checkpoint.SaveRequest{Dir: second, Epoch: 1, Step: 20}); !errors.Is(err, checkpoint.ErrNoSpace) {
		t.Errorf("Save = %v, want ErrNoSpace", err)
	}
	got, err := restore(t, e, rec.refs)
	must(t, err)
	same(t, snapshot(t, got.Path), snapshot(t, first))
	fullNow = false
	save(t, e, second, 20) // the same engine goes on once there is space
}

// TestSlowStore runs against a store that takes a minute for each operation: it
// costs no real time, and a deadline is kept.
func TestSlowStore(t *testing.T) {
	dir := write(t, "checkpoint-10", before)
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Config{Plan: func(mem.Op) mem.Fault { return mem.Fault{Delay: time.Minute} }})
		rec := &record{store: s, epoch: 1}
		e, err := checkpoint.New(checkpoint.Config{Store: s, Tenant: "acme", Job: "job1", Committer: rec})
		must(t, err)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		_, err = e.Save(ctx, checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 10})
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 90*time.Second {
			t.Errorf("Save = %v after %v, want the deadline after 90 s", err, took)
		}
		save(t, e, dir, 10)
		if len(rec.refs) != 1 {
			t.Errorf("%d checkpoints", len(rec.refs))
		}
	})
}

func TestUnchangedFilesAreSentOnce(t *testing.T) {
	t.Parallel()
	puts := 0
	s := mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
		if op.Verb == mem.Put {
			puts++
		}
		return mem.Fault{}
	}})
	e, _ := engine(t, s)
	dir := write(t, "checkpoint-10", before)
	save(t, e, dir, 10)
	if want := 4; puts != want {
		t.Errorf("%d puts for two large files, a pack of the others and a manifest, want %d", puts, want)
	}
	must(t, os.WriteFile(dir+"/a.bin", []byte(large("new")), 0o644))
	save(t, e, dir, 20)
	if want := 6; puts != want {
		t.Errorf("%d puts after one large file changed, want %d", puts, want)
	}
	must(t, os.WriteFile(dir+"/state.json", []byte("{}"), 0o644))
	save(t, e, dir, 30)
	if want := 8; puts != want {
		t.Errorf("%d puts after one small file changed, want %d", puts, want)
	}
}
