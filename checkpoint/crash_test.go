package checkpoint_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
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

var before = spec{"a.bin": "one", "b/c.bin": "0600 two", "b/d": "->../a.bin", "same": "frozen", "state.json": `{"step":10}`}

var after = spec{"a.bin": "ONE, longer", "b/c.bin": "0600 TWO", "b/d": "->c.bin", "same": "frozen", "zero": "", "state.json": `{"step":20}`}

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
			want, inBoth := "", slices.Contains(shared, name)
			for _, f := range m.Files {
				if f.Hash != "" && strings.HasSuffix(name, f.Hash) {
					want = f.Path
				}
			}
			if inBoth && want == "" || want == "zero" && how == "has lost its tail" {
				continue // only the old one needs it; nothing to lose
			}
			t.Run(fmt.Sprintf("%q %s", want, how), func(t *testing.T) {
				s := base.Clone(mem.Config{})
				s.Edit(name, change)
				fresh := engineWith(t, s, &record{store: s})
				if err := fresh.Verify(t.Context(), rec.refs[0], true); !isRejection(err, want) {
					t.Errorf("Verify = %v, want a rejection of %q", err, want)
				}
				got, err := restore(t, fresh, rec.refs)
				if len(got.Rejected) == 0 || got.Rejected[0].Ref != rec.refs[0] || got.Rejected[0].Path != want {
					t.Fatalf("rejected %v, want the newest for %q", got.Rejected, want)
				}
				if inBoth {
					if !errors.Is(err, checkpoint.ErrNoneRestorable) || len(got.Rejected) != 2 || got.Rejected[1].Path != want {
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
// checkpoint to checkpoint. The next machine notices; the same one, which has
// read or written the object, still notices another size.
func TestHealing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func([]byte) []byte
		fresh  bool
	}{
		"a flipped bit, by the next machine": {mem.Flipped(0), true},
		"a lost tail, by the next machine":   {mem.Torn(2), true},
		"a lost tail, by the same machine":   {mem.Torn(2), false},
		"a lost object, by the same machine": {func([]byte) []byte { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mem.New(mem.Config{})
			e, rec := engine(t, s)
			save(t, e, write(t, "checkpoint-10", before), 10)
			for _, f := range manifestOf(t, s, rec.refs[0]).Files {
				if f.Path == "same" {
					s.Edit("v1/acme/files/"+f.Hash[:2]+"/"+f.Hash, tc.change)
				}
			}
			if tc.fresh {
				e = engineWith(t, s, rec)
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

func manifestOf(t *testing.T, s *mem.Store, ref checkpoint.Ref) checkpoint.Manifest {
	t.Helper()
	var data []byte
	s.Clone(mem.Config{}).Edit(checkpoint.ManifestName("acme", "job1", ref), func(b []byte) []byte { data = b; return b })
	m, err := checkpoint.Decode(data)
	must(t, err)
	return m
}

func isRejection(err error, path string) bool {
	r, ok := errors.AsType[*checkpoint.Rejection](err)
	return ok && r.Path == path
}
