package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/spotferry/spotferry/checkpoint"
)

func oneWinner(t *testing.T, s checkpoint.Store) {
	const writers = 8
	var wins atomic.Int32
	var winner []byte
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			data := bytes.Repeat([]byte{byte(i)}, 100_000)
			switch err := s.Put(t.Context(), "v1/race", bytes.NewReader(data), int64(len(data))); {
			case err == nil:
				wins.Add(1)
				winner = data
			case !errors.Is(err, checkpoint.ErrExists):
				t.Errorf("a loser got %v, want ErrExists", err)
			}
		})
	}
	wg.Wait()
	if n := wins.Load(); n != 1 {
		t.Fatalf("%d writers won", n)
	}
	if got := get(t, s, "v1/race"); !bytes.Equal(got, winner) {
		t.Errorf("the object is not what the winner put")
	}
}

func manyAtOnce(t *testing.T, s checkpoint.Store) {
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			name := fmt.Sprintf("v1/many/%d/%d", i%4, i)
			if err := s.Put(t.Context(), name, strings.NewReader(name), int64(len(name))); err != nil {
				t.Errorf("Put(%s) = %v", name, err)
			}
		})
	}
	wg.Wait()
	names, err := list(t.Context(), s, "v1/many/")
	if err != nil || len(names) != 32 {
		t.Fatalf("List = %d names, %v; want 32", len(names), err)
	}
	for _, name := range names {
		if got := get(t, s, name); string(got) != name {
			t.Errorf("%s has %q", name, got)
		}
	}
}

var errBroken = errors.New("the reader broke")

func leavesNothing(t *testing.T, s checkpoint.Store) {
	data := Content(100_000)
	for _, tc := range []struct {
		name string
		r    io.Reader
		size int64
		want error
	}{
		{"short", bytes.NewReader(data), int64(len(data)) + 1, checkpoint.ErrSize},
		{"long", bytes.NewReader(data), int64(len(data)) - 1, checkpoint.ErrSize},
		{"empty", strings.NewReader(""), 1, checkpoint.ErrSize},
		{"notempty", strings.NewReader("x"), 0, checkpoint.ErrSize},
		{"atonce", iotest.ErrReader(errBroken), 10, errBroken},
		{"midway", io.MultiReader(bytes.NewReader(data[:50_000]), iotest.ErrReader(errBroken)), int64(len(data)), errBroken},
		{"attheend", io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errBroken)), int64(len(data)), errBroken},
	} {
		if err := s.Put(t.Context(), "v1/"+tc.name, tc.r, tc.size); !errors.Is(err, tc.want) {
			t.Errorf("Put of a reader that is %s = %v, want %v", tc.name, err, tc.want)
		}
		absent(t, s, "v1/"+tc.name)
	}
}

func canBeRepeated(t *testing.T, s checkpoint.Store) {
	if err := s.Put(t.Context(), "v1/a", iotest.ErrReader(errBroken), 3); err == nil {
		t.Error("Put of a broken reader succeeded")
	}
	put(t, s, "v1/a", []byte("now"))
}

// ending ends a context once it has been read from.
type ending struct {
	r   io.Reader
	end func()
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.r.Read(p[:min(len(p), 10_000)])
	e.end()
	return n, err
}

func stopsPut(t *testing.T, s checkpoint.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	data := Content(1 << 20)
	err := s.Put(ctx, "v1/midway", ending{bytes.NewReader(data), cancel}, int64(len(data)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	absent(t, s, "v1/midway")
	if err := s.Put(ctx, "v1/before", strings.NewReader("x"), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	absent(t, s, "v1/before")
}

func stopsGet(t *testing.T, s checkpoint.Store) {
	put(t, s, "v1/a", Content(1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Get(ctx, "v1/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("reading on = %v, want context.Canceled", err)
	}
	if _, err := s.Get(ctx, "v1/a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want context.Canceled", err)
	}
}
