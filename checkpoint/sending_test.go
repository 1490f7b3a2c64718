package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// chunky is a file of so many chunks of the smallest size, all different.
func chunky(chunks int, seed string) string {
	var b strings.Builder
	block := storetest.Content(1<<20 - 32)
	for i := range chunks {
		fmt.Fprintf(&b, "%-32s", fmt.Sprintf("%s %d", seed, i))
		b.Write(block)
	}
	return b.String()
}

// TestResumeAfterDeath kills a process in the middle of an upload, at every put.
// The next one sends again what was under way, and nothing else.
func TestResumeAfterDeath(t *testing.T) {
	t.Parallel()
	const chunks, workers = 6, 2
	dir := write(t, "checkpoint-1", spec{"weights": chunky(chunks, "w"), "state.json": "{}"})
	for n := range chunks + 2 {
		s := mem.New(mem.Config{})
		dying := s.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
			if op.Verb == mem.Put && op.N >= n+2 { // after the two lists
				return mem.Fault{Before: errDied}
			}
			return mem.Fault{}
		}})
		if _, err := variant(t, dying, checkpoint.Config{Workers: workers}).Upload(t.Context(),
			checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1}); err == nil {
			t.Fatalf("the upload did not die at put %d", n)
		}
		left, again := len(dying.Names()), 0
		next := dying.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
			if op.Verb == mem.Put {
				again++
			}
			return mem.Fault{}
		}})
		ref, err := variant(t, next, checkpoint.Config{Workers: 1}).Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
		must(t, err)
		if all := chunks + 2; again != all-left {
			t.Errorf("dead at put %d: %d objects were there and %d sent, want %d together", n, left, again, all)
		}
		got, err := restore(t, variant(t, next, checkpoint.Config{}), []checkpoint.Ref{ref})
		must(t, err)
		same(t, snapshot(t, got.Path), snapshot(t, dir))
	}
}

// TestPreship: what is finished goes ahead, what is not is left, and the upload
// of the whole sends the rest.
func TestPreship(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"model.bin": chunky(4, "m"), "state.json": "{}"})
	settle(t)
	s, put := puts(mem.New(mem.Config{}))
	e := variant(t, s, checkpoint.Config{})
	req := checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1}
	done, err := e.Preship(t.Context(), req, []string{"model.bin", "state.json", "gone.bin", "../outside", "."})
	must(t, err)
	if names := put(); !slices.Equal(done, []string{"model.bin"}) || len(names) != 4 {
		t.Fatalf("preshipped %q in %d objects, want the model in 4", done, len(names))
	}
	if again, err := e.Preship(t.Context(), req, []string{"model.bin"}); err != nil || len(again) != 1 || len(put()) > 0 {
		t.Errorf("preshipped again: %q, %v", again, err)
	}
	must(t, os.WriteFile(dir+"/optimizer.bin", []byte(chunky(2, "o")), 0o644))
	f, err := e.Predict(req)
	must(t, err)
	if want := int64(2<<20 + 2); f.Files != 3 || f.Bytes != 6<<20+2 || f.Unsent != want || f.Unread != want {
		t.Errorf("Predict = %+v, want %d bytes unsent and unread", f, want)
	}
	before := e.Progress().Read
	ref, err := e.Upload(t.Context(), req)
	must(t, err)
	if names := put(); len(names) != 4 { // two chunks, a pack, the manifest
		t.Errorf("%d objects were left to send, want 4", len(names))
	}
	if read := e.Progress().Read - before; read != 2<<20+2 {
		t.Errorf("%d bytes were read, want the tail's", read)
	}
	if p := e.Progress(); p.Left != 0 {
		t.Errorf("%d bytes are left after the upload", p.Left)
	}
	got, err := restore(t, variant(t, s, checkpoint.Config{}), []checkpoint.Ref{ref})
	must(t, err)
	same(t, snapshot(t, got.Path), snapshot(t, dir))
}

// TestPreshipOfAMovingFile: a file that is written while it goes ahead is left
// out, the others go, and the upload of the whole has what it is in the end.
func TestPreshipOfAMovingFile(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"a.bin": chunky(3, "a"), "b.bin": chunky(2, "b")})
	for name, move := range map[string]func() error{
		"grows":     func() error { return appendTo(dir+"/a.bin", "more") },
		"is cut":    func() error { return os.Truncate(dir+"/a.bin", 2<<20) },
		"is edited": func() error { return poke(dir+"/a.bin", 1000, time.Now().String()) },
	} {
		var once sync.Once
		s := mem.New(mem.Config{Plan: func(op mem.Op) (f mem.Fault) {
			if op.Verb == mem.Put {
				once.Do(func() { f.Before = move(); f.Before = nil })
			}
			return f
		}})
		e := variant(t, s, checkpoint.Config{Workers: 1})
		req := checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1}
		done, err := e.Preship(t.Context(), req, []string{"a.bin", "b.bin"})
		if err != nil || !slices.Equal(done, []string{"b.bin"}) {
			t.Errorf("a file that %s: preshipped %q, %v; want the other alone", name, done, err)
		}
		ref, err := e.Upload(t.Context(), req)
		must(t, err)
		got, err := restore(t, variant(t, s, checkpoint.Config{}), []checkpoint.Ref{ref})
		must(t, err)
		same(t, snapshot(t, got.Path), snapshot(t, dir))
	}
	broken := mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
		if op.Verb == mem.Put {
			return mem.Fault{Before: errDied}
		}
		return mem.Fault{}
	}})
	if _, err := variant(t, broken, checkpoint.Config{}).Preship(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1}, []string{"b.bin"}); !errors.Is(err, errDied) {
		t.Errorf("Preship into a broken store = %v", err)
	}
}

// TestOrder: files of a lower rank go first, whatever they are called.
func TestOrder(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"a-derivable.bin": chunky(1, "d"), "b-optimizer.bin": chunky(1, "o"), "c-weights.bin": chunky(1, "w")})
	s, put := puts(mem.New(mem.Config{}))
	ref, err := variant(t, s, checkpoint.Config{Workers: 1}).Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1,
		First: func(path string) int { return -int(path[0]) }})
	must(t, err)
	var order []string
	for _, name := range put() {
		order = append(order, filesIn(manifestOf(t, s, ref), name)...)
	}
	if want := []string{"c-weights.bin", "b-optimizer.bin", "a-derivable.bin", ""}; !slices.Equal(order, want) {
		t.Errorf("sent in the order %q, want %q", order, want)
	}
}

// TestSmallFilesArePacked: thousands of small files are a handful of objects,
// and come back.
func TestSmallFilesArePacked(t *testing.T) {
	t.Parallel()
	files := spec{}
	for i := range 2000 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = strings.Repeat(fmt.Sprint(i, " "), i)
	}
	dir := write(t, "checkpoint-1", files)
	s, put := puts(mem.New(mem.Config{}))
	ref, err := variant(t, s, checkpoint.Config{}).Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
	must(t, err)
	if n := len(put()); int64(n) > ref.Bytes>>20+3 {
		t.Errorf("%d objects for %d files of %d bytes", n, ref.Files, ref.Bytes)
	}
	got, err := restore(t, variant(t, s, checkpoint.Config{}), []checkpoint.Ref{ref})
	must(t, err)
	same(t, snapshot(t, got.Path), snapshot(t, dir))
}

// TestVerifyAsksLittle: many objects are listed, and those of the checkpoint
// before are not asked for again. A late list is no proof of anything.
func TestVerifyAsksLittle(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"w": chunky(40, "w")})
	base := mem.New(mem.Config{})
	e := variant(t, base, checkpoint.Config{})
	first, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
	must(t, err)
	must(t, poke(dir+"/w", 5, "changed"))
	second, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 2})
	must(t, err)
	known, err := checkpoint.ReadManifest(t.Context(), base, "acme", "job1", first)
	must(t, err)
	for _, tc := range []struct {
		name  string
		known []checkpoint.Manifest
		hide  bool
		ask   map[mem.Verb]int
	}{
		{"one list for 40 objects", nil, false, map[mem.Verb]int{mem.List: 1, mem.Stat: 0}},
		{"each by itself when the list is late", nil, true, map[mem.Verb]int{mem.List: 1, mem.Stat: 40}},
		{"the new one alone beside a known manifest", []checkpoint.Manifest{known}, false, map[mem.Verb]int{mem.List: 0, mem.Stat: 1}},
	} {
		asked, mu := map[mem.Verb]int{}, sync.Mutex{}
		s := base.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
			mu.Lock()
			defer mu.Unlock()
			asked[op.Verb]++
			return mem.Fault{Hide: func(string) bool { return tc.hide }}
		}})
		must(t, checkpoint.Verify(t.Context(), s, "acme", "job1", second, false, tc.known...))
		for verb, n := range tc.ask {
			if asked[verb] != n {
				t.Errorf("%s: %d times %s, want %d", tc.name, asked[verb], verb, n)
			}
		}
	}
	s := base.Clone(mem.Config{})
	s.Edit(objectOf(t, s, second, "w"), mem.Torn(100))
	if err := checkpoint.Verify(t.Context(), s, "acme", "job1", second, false, known); !isRejection(err, "w") {
		t.Errorf("Verify = %v, want a rejection of w", err)
	}
}

// TestATreeTooLarge: more files than a manifest holds are refused before
// anything is sent.
func TestATreeTooLarge(t *testing.T) {
	t.Parallel()
	files := spec{}
	for i := range 300 {
		files[fmt.Sprint("f", i)] = "x"
	}
	s := mem.New(mem.Config{})
	e := variant(t, s, checkpoint.Config{MaxFiles: 250})
	_, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: write(t, "checkpoint-1", files), Epoch: 1})
	if !errors.Is(err, checkpoint.ErrTooLarge) || !strings.Contains(err.Error(), "250") || len(s.Names()) > 0 {
		t.Errorf("Upload = %v with %d objects sent, want ErrTooLarge with the limit and none", err, len(s.Names()))
	}
}
