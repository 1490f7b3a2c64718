package checkpoint_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

var errDied = errors.New("the machine is gone")

// dies makes a store answer nothing from operation n on; how says what becomes
// of that operation itself.
func dies(n int, how mem.Fault) mem.Plan {
	return func(op mem.Op) mem.Fault {
		switch {
		case op.N < n:
			return mem.Fault{}
		case op.N == n:
			return how
		}
		return mem.Fault{Before: errDied}
	}
}

// large is content that is stored as an object of its own.
func large(what string) string { return what + string(storetest.Content(1<<20)) }

var before = spec{"a.bin": large("one"), "b/c.bin": "0600 two", "b/d": "->../a.bin", "same": large("frozen"), "little": "also frozen", "state.json": `{"step":10}`}

var after = spec{"a.bin": large("ONE, longer"), "b/c.bin": "0600 TWO", "b/d": "->c.bin", "same": large("frozen"), "little": "also frozen", "zero": "", "state.json": `{"step":20}`}

// TestDeathAtEveryOperation lets a machine die in every operation of a save,
// before it, after it and with an object torn at each kind of place, as no
// decent store would. What is restored is always what was committed, bit for
// bit, and the next machine can save the same tree.
func TestDeathAtEveryOperation(t *testing.T) {
	t.Parallel()
	first, second := write(t, "checkpoint-10", before), write(t, "checkpoint-20", after)
	base := mem.New(mem.Config{})
	e, rec := engine(t, base)
	old := save(t, e, first, 10)
	ops := 0
	{
		s := base.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault { ops = op.N + 1; return mem.Fault{} }})
		save(t, engineWith(t, s, &record{store: s, epoch: 1}), second, 20)
	}
	for n := range ops {
		for name, how := range map[string]mem.Fault{
			"died before operation %d":             {Before: errDied},
			"died after operation %d":              {After: errDied},
			"left nothing of operation %d's bytes": {Bend: mem.Torn(0), After: errDied},
			"left a byte of operation %d's":        {Bend: mem.Torn(1), After: errDied},
			"left some of operation %d's bytes":    {Bend: mem.Torn(4), After: errDied},
			"bent operation %d's bytes":            {Bend: mem.Flipped(9), After: errDied},
		} {
			t.Run(fmt.Sprintf(name, n), func(t *testing.T) {
				dying := base.Clone(mem.Config{Plan: dies(n, how)})
				now := &record{store: dying, epoch: 1, refs: rec.refs}
				_, err := engineWith(t, dying, now).Save(t.Context(), checkpoint.SaveRequest{Dir: second, Epoch: 1, Step: 20})
				if err == nil {
					return // the last operation is a Stat, which has no effect to fail after
				}
				healthy := dying.Clone(mem.Config{})
				now.store = healthy
				if len(now.refs) > 1 || now.refs[0] != old {
					t.Fatalf("%d commits, newest %s: a save that failed was committed", len(now.refs), now.refs[0].Name)
				}
				next := engineWith(t, healthy, now)
				got, err := restore(t, next, now.refs)
				must(t, err)
				same(t, snapshot(t, got.Path), snapshot(t, first))

				now.refs = rec.refs
				save(t, next, second, 20)
				got, err = restore(t, engineWith(t, healthy, now), now.refs)
				must(t, err)
				if got.Ref.Step != 20 || len(got.Rejected) > 0 {
					t.Errorf("restored step %d, rejected %v; want the repeated save", got.Ref.Step, got.Rejected)
				}
				same(t, snapshot(t, got.Path), snapshot(t, second))
			})
		}
	}
}

// TestBadObjects spoils each object in each way. The previous checkpoint is
// used, and the report names the file; an object both need leaves none.
func TestBadObjects(t *testing.T) {
	t.Parallel()
	first, second := write(t, "checkpoint-10", before), write(t, "checkpoint-20", after)
	base := mem.New(mem.Config{})
	e, rec := engine(t, base)
	save(t, e, first, 10)
	shared := base.Names()
	save(t, e, second, 20)
	m := manifestOf(t, base, rec.refs[0])
	for how, change := range map[string]func([]byte) []byte{
		"has a flipped bit":      mem.Flipped(3),
		"has a flipped last bit": func(b []byte) []byte { return mem.Flipped(8*max(len(b), 1) - 1)(b) },
		"has lost its tail":      func(b []byte) []byte { return append([]byte{}, b[:len(b)/2]...) },
		"has bytes after it":     func(b []byte) []byte { return append(b, 'x') },
		"is missing":             func([]byte) []byte { return nil },
	} {
		for _, name := range base.Names() {
			wants, inBoth := filesIn(m, name), slices.Contains(shared, name)
			if inBoth && wants == nil {
				continue // only the old one needs it
			}
			t.Run(fmt.Sprintf("%q %s", wants, how), func(t *testing.T) {
				s := base.Clone(mem.Config{})
				s.Edit(name, change)
				fresh := engineWith(t, s, &record{store: s})
				verr := fresh.Verify(t.Context(), rec.refs[0], true)
				got, err := restore(t, fresh, rec.refs)
				if packed(m, name) && len(got.Rejected) == 0 && (how == "has bytes after it" || inBoth) { // every byte that is needed is there
					must(t, err)
					same(t, snapshot(t, got.Path), snapshot(t, second))
					return
				}
				if !rejects(verr, wants) {
					t.Errorf("Verify = %v, want a rejection of one of %q", verr, wants)
				}
				if len(got.Rejected) == 0 || got.Rejected[0].Ref != rec.refs[0] || !rejects(&got.Rejected[0], wants) {
					t.Fatalf("rejected %v, want the newest for one of %q", got.Rejected, wants)
				}
				if inBoth {
					if !errors.Is(err, checkpoint.ErrNoneRestorable) || len(got.Rejected) != 2 {
						t.Errorf("Restore = %v, rejected %v; want ErrNoneRestorable and both", err, got.Rejected)
					}
					return
				}
				must(t, err)
				same(t, snapshot(t, got.Path), snapshot(t, first))
			})
		}
	}
}

// TestHealing: a file that never changes must not carry a flipped bit from
// checkpoint to checkpoint. The next machine notices when it adopts the last
// one; the same one, which has written the object, learns it from a commit that
// is refused.
func TestHealing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file   string
		change func([]byte) []byte
		fresh  bool
	}{
		"a flipped bit, by the next machine":     {"same", mem.Flipped(0), true},
		"a lost tail, by the next machine":       {"same", mem.Torn(2), true},
		"a lost object, by the next machine":     {"same", func([]byte) []byte { return nil }, true},
		"a lost tail, by the same machine":       {"same", mem.Torn(2), false},
		"a lost object, by the same machine":     {"same", func([]byte) []byte { return nil }, false},
		"a flipped bit in a pack, by the next":   {"little", mem.Flipped(0), true},
		"a lost pack, by the same machine":       {"little", func([]byte) []byte { return nil }, false},
		"a lost tail of a pack, by the next one": {"little", mem.Torn(2), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mem.New(mem.Config{})
			e, rec := engine(t, s)
			save(t, e, write(t, "checkpoint-10", before), 10)
			first := rec.refs[0]
			s.Edit(objectOf(t, s, first, tc.file), tc.change)
			if tc.fresh {
				e = engineWith(t, s, rec)
				must(t, e.Adopt(t.Context(), first))
			} else if _, err := e.Save(t.Context(), checkpoint.SaveRequest{Dir: write(t, "checkpoint-15", after), Epoch: 1, Step: 15}); !isRejection(err, tc.file) {
				t.Fatalf("Save on a lost object = %v, want the record's refusal", err)
			}
			save(t, e, write(t, "checkpoint-20", after), 20)
			got, err := restore(t, engineWith(t, s, rec), rec.refs)
			must(t, err)
			if got.Ref.Step != 20 {
				t.Errorf("restored step %d, rejected %v; want 20", got.Ref.Step, got.Rejected)
			}
		})
	}
}

// objectOf names the object that has the first bytes of a file.
func objectOf(t *testing.T, s *mem.Store, ref checkpoint.Ref, file string) string {
	t.Helper()
	for _, f := range manifestOf(t, s, ref).Files {
		if f.Path == file {
			c := f.Chunks[0]
			return checkpoint.EpochPrefix("acme", "job1", cmp.Or(c.Epoch, ref.Epoch)) + cmp.Or(c.Pack, c.Hash)
		}
	}
	t.Fatalf("no file %s", file)
	return ""
}

// filesIn returns the files of which an object has bytes; nil if it is not one
// of the manifest's, and "" alone if it is the manifest.
func filesIn(m checkpoint.Manifest, object string) (files []string) {
	if strings.HasSuffix(object, ".manifest") {
		if strings.Contains(object, fmt.Sprintf("-%020d-", m.Step)) {
			return []string{""}
		}
		return nil
	}
	for _, f := range m.Files {
		for _, c := range f.Chunks {
			if strings.HasSuffix(object, cmp.Or(c.Pack, c.Hash)) {
				files = append(files, f.Path)
			}
		}
	}
	return files
}

func packed(m checkpoint.Manifest, object string) bool {
	return slices.ContainsFunc(m.Packs, func(p checkpoint.Pack) bool { return strings.HasSuffix(object, p.Hash) })
}

func manifestOf(t *testing.T, s *mem.Store, ref checkpoint.Ref) checkpoint.Manifest {
	t.Helper()
	var data []byte
	s.Clone(mem.Config{}).Edit(checkpoint.ManifestName("acme", "job1", ref), func(b []byte) []byte { data = b; return b })
	m, err := checkpoint.Decode(data)
	must(t, err)
	return m
}

func rejects(err error, paths []string) bool {
	r, ok := errors.AsType[*checkpoint.Rejection](err)
	return ok && slices.Contains(paths, r.Path)
}

func isRejection(err error, path string) bool {
	r, ok := errors.AsType[*checkpoint.Rejection](err)
	return ok && r.Path == path
}
