package checkpoint_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// puts counts what is put into a store.
func puts(s *mem.Store) (*mem.Store, func() []string) {
	var names []string
	c := s.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
		if op.Verb == mem.Put {
			names = append(names, op.Name)
		}
		return mem.Fault{}
	}})
	return c, func() []string { n := names; names = nil; return n }
}

// TestWhatASaveReliesOn: the rules of decision 0014, one by one.
func TestWhatASaveReliesOn(t *testing.T) {
	t.Parallel()
	one, two := write(t, "checkpoint-1", spec{"a": large("a"), "b": large("b")}), write(t, "checkpoint-2", spec{"a": large("a"), "b": large("B")})
	upload := func(t *testing.T, e *checkpoint.Engine, dir string, epoch int, step int64) checkpoint.Ref {
		ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: epoch, Step: step})
		must(t, err)
		return ref
	}
	fresh := func(t *testing.T, s checkpoint.Store) *checkpoint.Engine { return engineWith(t, s, &record{store: s}) }
	data := func(names []string) (n int) {
		for _, name := range names {
			if strings.Contains(name, "/data/") {
				n++
			}
		}
		return n
	}

	t.Run("a new epoch relies on nothing that it was not told of", func(t *testing.T) {
		s, put := puts(mem.New(mem.Config{}))
		upload(t, fresh(t, s), one, 1, 1)
		put()
		upload(t, fresh(t, s), one, 2, 1)
		if n := data(put()); n != 2 {
			t.Errorf("%d objects were sent, want both", n)
		}
	})
	t.Run("it relies on what it has restored, of whatever epoch", func(t *testing.T) {
		s, put := puts(mem.New(mem.Config{}))
		ref := upload(t, fresh(t, s), one, 1, 1)
		put()
		e := fresh(t, s)
		_, err := restore(t, e, []checkpoint.Ref{ref})
		must(t, err)
		second := upload(t, e, two, 2, 2)
		if n := data(put()); n != 1 {
			t.Errorf("%d objects were sent, want the one that changed", n)
		}
		m := manifestOf(t, s, second)
		if c := m.Files[1].Chunks[0]; c.Epoch != 1 {
			t.Errorf("the unchanged chunk is said to be of epoch %d, want 1", c.Epoch)
		}
		got, err := restore(t, fresh(t, s), []checkpoint.Ref{second})
		must(t, err)
		same(t, snapshot(t, got.Path), snapshot(t, two))
	})
	t.Run("an object damaged in an earlier epoch is sent anew in this one", func(t *testing.T) {
		s := mem.New(mem.Config{})
		ref := upload(t, fresh(t, s), one, 1, 1)
		s.Edit(objectOf(t, s, ref, "a"), mem.Flipped(77))
		e := fresh(t, s)
		must(t, e.Adopt(t.Context(), ref))
		second := upload(t, e, one, 2, 2)
		if c := manifestOf(t, s, second).Files[1].Chunks[0]; c.Epoch != 0 {
			t.Errorf("the damaged chunk of epoch %d is relied on", c.Epoch)
		}
		_, err := restore(t, fresh(t, s), []checkpoint.Ref{second})
		must(t, err)
	})
	t.Run("a process of the same epoch finds what its predecessor has sent", func(t *testing.T) {
		s, put := puts(mem.New(mem.Config{}))
		upload(t, fresh(t, s), one, 1, 1)
		put()
		upload(t, fresh(t, s), two, 1, 2)
		if n := data(put()); n != 1 {
			t.Errorf("%d objects were sent, want the one that changed", n)
		}
	})
	t.Run("what comes back after a checkpoint without it is stored under another name", func(t *testing.T) {
		for how, next := range map[string]func(*checkpoint.Engine, checkpoint.Store) *checkpoint.Engine{
			"the same process": func(e *checkpoint.Engine, _ checkpoint.Store) *checkpoint.Engine { return e },
			"a new one":        func(_ *checkpoint.Engine, s checkpoint.Store) *checkpoint.Engine { return fresh(t, s) },
		} {
			s := mem.New(mem.Config{})
			e := fresh(t, s)
			first := upload(t, e, one, 1, 1)
			upload(t, e, two, 1, 2)
			s.Edit(objectOf(t, s, first, "b"), func([]byte) []byte { return nil }) // collected
			third := upload(t, next(e, s), one, 1, 3)
			if was, is := objectOf(t, s, first, "b"), objectOf(t, s, third, "b"); was == is {
				t.Errorf("%s: %s is used again, and its deletion may be on its way", how, was)
			}
			_, err := restore(t, fresh(t, s), []checkpoint.Ref{third})
			must(t, err)
		}
	})
	t.Run("a bad manifest of the epoch leaves open which names are spent, so none is used", func(t *testing.T) {
		s := mem.New(mem.Config{})
		first := upload(t, fresh(t, s), one, 1, 1)
		names := s.Names()
		s.Edit(checkpoint.ManifestName("acme", "job1", first), mem.Torn(10))
		third := upload(t, fresh(t, s), one, 1, 3)
		for _, o := range manifestOf(t, s, third).Objects() {
			if slices.Contains(names, o.Name) {
				t.Errorf("%s is used again", o.Name)
			}
		}
		_, err := restore(t, fresh(t, s), []checkpoint.Ref{third})
		must(t, err)
	})

	t.Run("a store that cannot be listed is asked by name, and spent names are remembered", func(t *testing.T) {
		s, put := puts(mem.New(mem.Config{}))
		where := t.TempDir()
		process := func() *checkpoint.Engine {
			return variant(t, unlisted{s}, checkpoint.Config{CacheDir: where})
		}
		first := upload(t, process(), one, 1, 1)
		put()
		upload(t, process(), two, 1, 2)
		if n := data(put()); n != 1 {
			t.Errorf("%d objects were sent, want the one that changed", n)
		}
		s.Edit(objectOf(t, s, first, "b"), func([]byte) []byte { return nil })
		third := upload(t, process(), one, 1, 3)
		if was, is := objectOf(t, s, first, "b"), objectOf(t, s, third, "b"); was == is {
			t.Errorf("%s is used again", was)
		}
		must(t, variant(t, unlisted{s}, checkpoint.Config{}).Verify(t.Context(), third, false))
		last := upload(t, variant(t, unlisted{s}, checkpoint.Config{}), one, 1, 4) // by a process that remembers nothing
		for _, ref := range []checkpoint.Ref{third, last} {
			_, err := restore(t, fresh(t, s), []checkpoint.Ref{ref})
			must(t, err)
		}
	})
}

// unlisted is a store as a machine sees it that holds no key.
type unlisted struct{ checkpoint.Store }

func (unlisted) List(context.Context, string) ([]checkpoint.Object, error) {
	return nil, errors.ErrUnsupported
}
