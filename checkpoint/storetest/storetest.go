// Package storetest is the conformance suite of checkpoint.Store: what every
// store promises, and what the engine relies on.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
)

// Run tests the store that open returns: an empty one each time, closed with the
// test. Lists are expected to be up to date in the absence of faults.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, checkpoint.Store)
	}{
		{"what is put is got, with its size, at every size around a buffer's", roundTrips},
		{"an object is never overwritten, and its reader may stay unread", neverOverwrites},
		{"of many who put one name at once exactly one wins, and it is whole", oneWinner},
		{"many names at once all arrive", manyAtOnce},
		{"a put that does not get the bytes it was promised leaves nothing", leavesNothing},
		{"a put that failed can be repeated", canBeRepeated},
		{"an ended context stops a put, also in the middle, and leaves nothing", stopsPut},
		{"an ended context stops reading", stopsGet},
		{"a range is exactly the bytes asked for, and never fewer", ranges},
		{"what is missing is ErrNotFound, and no error to delete", missing},
		{"a list has every name with the prefix, sorted, and no other", lists},
		{"a directory is not an object", directories},
		{"names that could leave the store or hide in it are refused", badNames},
		{"two readers of one object do not disturb each other", twoReaders},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, open(t))
		})
	}
}

// Content returns n bytes that differ from place to place.
func Content(n int) []byte {
	b := make([]byte, n)
	x := uint32(n) + 1
	for i := range b {
		x = x*1664525 + 1013904223 // Numerical Recipes' generator: any would do
		b[i] = byte(x >> 24)
	}
	return b
}

func put(t *testing.T, s checkpoint.Store, name string, data []byte) {
	t.Helper()
	if err := s.Put(t.Context(), name, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatalf("Put(%s) = %v", name, err)
	}
}

func get(t *testing.T, s checkpoint.Store, name string) []byte {
	t.Helper()
	r, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatalf("Get(%s) = %v", name, err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatalf("reading %s: %v", name, err)
	}
	return data
}

func list(ctx context.Context, s checkpoint.Store, prefix string) ([]string, error) {
	found, err := s.List(ctx, prefix)
	var names []string
	for _, o := range found {
		names = append(names, o.Name)
	}
	return names, err
}

// absent fails the test unless nothing whatever is visible of an object.
func absent(t *testing.T, s checkpoint.Store, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if _, err := s.Stat(ctx, name); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Stat(%s) = %v, want ErrNotFound", name, err)
	}
	if _, err := s.Get(ctx, name); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Get(%s) = %v, want ErrNotFound", name, err)
	}
	if names, err := list(ctx, s, ""); err != nil || slices.Contains(names, name) {
		t.Errorf("List = %q, %v: has %s", names, err, name)
	}
}

func roundTrips(t *testing.T, s checkpoint.Store) {
	for _, n := range []int{0, 1, 511, 32<<10 - 1, 32 << 10, 32<<10 + 1, 1 << 20, 3<<20 + 7} {
		name, data := fmt.Sprintf("v1/size/%d", n), Content(n)
		put(t, s, name, data)
		if got := get(t, s, name); !bytes.Equal(got, data) {
			t.Errorf("got %d bytes that are not the %d put", len(got), n)
		}
		if size, err := s.Stat(t.Context(), name); err != nil || size != int64(n) {
			t.Errorf("Stat = %d, %v; want %d", size, err, n)
		}
	}
}

func neverOverwrites(t *testing.T, s checkpoint.Store) {
	put(t, s, "v1/a", []byte("first"))
	err := s.Put(t.Context(), "v1/a", strings.NewReader("second"), 6)
	if !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("second Put = %v, want ErrExists", err)
	}
	if got := get(t, s, "v1/a"); string(got) != "first" {
		t.Errorf("got %q, want the first", got)
	}
}

func ranges(t *testing.T, s checkpoint.Store) {
	data := Content(100_000)
	put(t, s, "v1/a", data)
	for _, r := range [][2]int64{{0, 1}, {0, 100_000}, {99_999, 1}, {1, 65_536}, {65_535, 34_465}} {
		in, err := s.Range(t.Context(), "v1/a", r[0], r[1])
		if err != nil {
			t.Fatalf("Range(%v) = %v", r, err)
		}
		got, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil || !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
			t.Errorf("range %v gave %d bytes, %v", r, len(got), err)
		}
	}
	for _, r := range [][2]int64{{0, 100_001}, {100_000, 1}, {99_999, 2}, {1 << 40, 1}} {
		in, err := s.Range(t.Context(), "v1/a", r[0], r[1])
		if err == nil {
			_, err = io.ReadAll(in)
			err = errors.Join(err, in.Close())
		}
		if !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("range %v of 100,000 bytes = %v, want ErrCorrupt", r, err)
		}
	}
	if _, err := s.Range(t.Context(), "v1/none", 0, 1); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("range of nothing = %v, want ErrNotFound", err)
	}
}

func missing(t *testing.T, s checkpoint.Store) {
	absent(t, s, "v1/none")
	if err := s.Delete(t.Context(), "v1/none"); err != nil {
		t.Errorf("Delete of nothing = %v", err)
	}
	put(t, s, "v1/some", []byte("x"))
	if err := s.Delete(t.Context(), "v1/some"); err != nil {
		t.Errorf("Delete = %v", err)
	}
	absent(t, s, "v1/some")
	put(t, s, "v1/some", []byte("y")) // the name is free again
}

func lists(t *testing.T, s checkpoint.Store) {
	all := []string{"v1/a/1", "v1/a/10", "v1/a/2", "v1/ab", "v1/b/c/d", "v2"}
	for _, name := range all {
		put(t, s, name, []byte(name))
	}
	for prefix, want := range map[string][]string{
		"": all, "v": all, "v1/a": all[:4], "v1/a/": all[:3], "v1/a/1": all[:2], "v1/b/": all[4:5], "v2": all[5:],
		"v1/a/1/": nil, "w": nil, "v1/none/at/all": nil, "../": nil, "/": nil,
	} {
		got, err := list(t.Context(), s, prefix)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, %v; want %q", prefix, got, err, want)
		}
	}
}

func directories(t *testing.T, s checkpoint.Store) {
	put(t, s, "v1/dir/leaf", []byte("x"))
	absent(t, s, "v1/dir")
	absent(t, s, "v1/dir/leaf/below")
}

func badNames(t *testing.T, s checkpoint.Store) {
	for _, name := range []string{"", ".", "..", "/", "/abs", "a/", "a//b", "a/../b", "../a", "./a", ".hidden", "a/.hidden",
		`a\b`, "a\x00b", "a\nb", "\xff", strings.Repeat("a", 600)} {
		if err := s.Put(t.Context(), name, strings.NewReader("x"), 1); err == nil || errors.Is(err, checkpoint.ErrExists) {
			t.Errorf("Put(%q) = %v, want a refusal", name, err)
		}
		if _, err := s.Get(t.Context(), name); err == nil {
			t.Errorf("Get(%q) succeeded", name)
		}
		if _, err := s.Stat(t.Context(), name); err == nil {
			t.Errorf("Stat(%q) succeeded", name)
		}
		if err := s.Delete(t.Context(), name); err == nil {
			t.Errorf("Delete(%q) succeeded", name)
		}
	}
	if names, err := list(t.Context(), s, ""); err != nil || len(names) != 0 {
		t.Errorf("List = %q, %v; want nothing", names, err)
	}
}

func twoReaders(t *testing.T, s checkpoint.Store) {
	put(t, s, "v1/a", []byte("content"))
	one, err := s.Get(t.Context(), "v1/a")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if _, err := io.ReadFull(one, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "v1/a"); string(got) != "content" {
		t.Errorf("second reader got %q", got)
	}
	if rest, err := io.ReadAll(one); err != nil || string(rest) != "tent" {
		t.Errorf("first reader went on with %q, %v", rest, err)
	}
}
