package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// wrong is a store with one thing wrong.
type wrong struct {
	*mem.Store
	put    func(ctx context.Context, s *mem.Store, name string, r io.Reader, size int64) error
	get    func(r io.ReadCloser, err error) (io.ReadCloser, error)
	rng    func(ctx context.Context, s *mem.Store, name string, off, n int64) (io.ReadCloser, error)
	list   func([]checkpoint.Object) []checkpoint.Object
	delete func(err error) error
}

func (w wrong) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if w.put == nil {
		return w.Store.Put(ctx, name, r, size)
	}
	return w.put(ctx, w.Store, name, r, size)
}

func (w wrong) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := w.Store.Get(ctx, name)
	if w.get == nil {
		return r, err
	}
	return w.get(r, err)
}

func (w wrong) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if w.rng == nil {
		return w.Store.Range(ctx, name, off, n)
	}
	return w.rng(ctx, w.Store, name, off, n)
}

func (w wrong) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	found, err := w.Store.List(ctx, prefix)
	if w.list != nil {
		found = w.list(found)
	}
	return found, err
}

func (w wrong) Delete(ctx context.Context, name string) error {
	if w.delete != nil {
		return w.delete(w.Store.Delete(ctx, name))
	}
	return w.Store.Delete(ctx, name)
}

type putFunc = func(ctx context.Context, s *mem.Store, name string, r io.Reader, size int64) error

// whole puts what r gives, whatever its size was to be.
func whole(before func(ctx context.Context, s *mem.Store, name string), r func(io.Reader) io.Reader) putFunc {
	return func(ctx context.Context, s *mem.Store, name string, in io.Reader, size int64) error {
		data, err := io.ReadAll(r(in))
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		before(ctx, s, name)
		return s.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
	}
}

func asItIs(r io.Reader) io.Reader { return r }

var mutants = map[string]struct {
	store wrong
	found string // the promise that finds it
}{
	"a put overwrites": {wrong{put: whole(func(ctx context.Context, s *mem.Store, name string) { _ = s.Delete(ctx, name) }, asItIs)},
		"an object is never overwritten"},
	"a put takes what it gets": {wrong{put: whole(func(context.Context, *mem.Store, string) {}, asItIs)},
		"a put that does not get the bytes"},
	"a put rewinds": {wrong{put: func(ctx context.Context, s *mem.Store, name string, r io.Reader, size int64) error {
		if seeker, ok := r.(io.Seeker); ok {
			_, _ = seeker.Seek(0, io.SeekStart)
			r = io.LimitReader(r, size)
		}
		return s.Put(ctx, name, r, size)
	}}, "a put begins where its reader stands"},
	"a put outlives its context": {wrong{put: func(ctx context.Context, s *mem.Store, name string, r io.Reader, size int64) error {
		err := s.Put(context.WithoutCancel(ctx), name, r, size)
		return errors.Join(err, ctx.Err())
	}}, "an ended context stops a put"},
	"a get is of a byte less": {wrong{get: func(r io.ReadCloser, err error) (io.ReadCloser, error) {
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		return io.NopCloser(bytes.NewReader(data[:max(len(data)-1, 0)])), err
	}}, "what is put is got"},
	"a get outlives its context": {wrong{get: func(r io.ReadCloser, err error) (io.ReadCloser, error) {
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		return io.NopCloser(bytes.NewReader(data)), err
	}}, "an ended context stops reading"},
	"a range ends where the object does": {wrong{rng: func(ctx context.Context, s *mem.Store, name string, off, n int64) (io.ReadCloser, error) {
		size, err := s.Stat(ctx, name)
		if err != nil || off >= size {
			return io.NopCloser(strings.NewReader("")), err
		}
		return s.Range(ctx, name, off, min(n, size-off))
	}}, "a range is exactly the bytes"},
	"a list is a page": {wrong{list: func(all []checkpoint.Object) []checkpoint.Object { return all[:min(len(all), 1000)] }},
		"a flat directory of more than a thousand"},
	"a list is not sorted": {wrong{list: func(all []checkpoint.Object) []checkpoint.Object { slices.Reverse(all); return all }},
		"a list has every name"},
	"a second delete fails": {wrong{delete: func(error) error { return checkpoint.ErrNotFound }},
		"what is deleted is gone"},
}

const mutantEnv = "STORETEST_MUTANT"

// TestMutants holds stores that are wrong against the suite, each in a process
// of its own, and wants the promise that is for it to fail.
func TestMutants(t *testing.T) {
	if name := os.Getenv(mutantEnv); name != "" {
		m := mutants[name]
		storetest.Run(t, func(*testing.T) checkpoint.Store {
			m.store.Store = mem.New(mem.Config{})
			return m.store
		})
		return
	}
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			only := strings.ReplaceAll(regexp.QuoteMeta(m.found), " ", "_")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestMutants$/^promises$/^"+only)
			cmd.Env = append(os.Environ(), mutantEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "| FAILED") {
				t.Errorf("%q does not find it: %v\n%s", m.found, err, tail(out))
			}
		})
	}
}

// TestAGoodStorePasses is the control: the wrapper itself breaks no promise.
func TestAGoodStorePasses(t *testing.T) {
	storetest.Run(t, func(*testing.T) checkpoint.Store { return wrong{Store: mem.New(mem.Config{})} })
}

func tail(b []byte) string { return string(b[max(len(b)-1500, 0):]) }
