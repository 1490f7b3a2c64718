package frameworktest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writer carries out what ranks do, one operation at a time.
type writer struct {
	dir    string
	at     func(string) error
	choose func(int) int

	tmp  string
	open map[string]*os.File
}

func (w *writer) run(ranks []*rank) (err error) {
	if w.tmp, err = os.MkdirTemp("", "staging"); err != nil {
		return err
	}
	defer os.RemoveAll(w.tmp)
	w.open = map[string]*os.File{}
	defer func() {
		for _, f := range w.open {
			f.Close()
		}
	}()
	told, past := false, make([]int, len(ranks))
	for i, k := range schedule(ranks, w.choose) {
		if err := w.step(i, ranks[i].ops[k]); err != nil {
			return err
		}
		if past[i] = k + 1; !told && whole(ranks, past) {
			told = true
			if err := w.at(Complete); err != nil {
				return err
			}
		}
	}
	return nil
}

// whole reports whether all that is left of each rank's part is to close files
// and to wait, which nobody outside can see.
func whole(ranks []*rank, past []int) bool {
	for i, r := range ranks {
		rest := r.ops[past[i]:]
		end := slices.IndexFunc(rest, func(o op) bool { return o.kind == done })
		if slices.ContainsFunc(rest[:max(end, 0)], func(o op) bool { return o.kind != closing && o.kind != barrier }) {
			return false
		}
	}
	return true
}

// schedule yields which rank does which of its operations next; choose picks one
// of n that can go on.
func schedule(ranks []*rank, choose func(n int) int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		next := make([]int, len(ranks))
		for {
			ready := runnable(ranks, next)
			if len(ready) == 0 {
				return
			}
			i := ready[choose(len(ready))%len(ready)]
			next[i]++
			if !yield(i, next[i]-1) {
				return
			}
		}
	}
}

// runnable returns the ranks that can go on. When all that are left wait for
// each other they do no longer.
func runnable(ranks []*rank, next []int) []int {
	for {
		var ready, waiting []int
		for i, r := range ranks {
			switch {
			case next[i] >= len(r.ops):
			case r.ops[next[i]].kind == barrier:
				waiting = append(waiting, i)
			default:
				ready = append(ready, i)
			}
		}
		if len(ready) > 0 || len(waiting) == 0 {
			return ready
		}
		for _, i := range waiting {
			next[i]++
		}
	}
}

func (w *writer) step(rank int, o op) error {
	switch o.kind {
	case rotate:
		return w.rotate(rank, o)
	case done:
		return nil
	}
	if err := w.at(o.point(rank)); err != nil {
		return err
	}
	if err := w.do(o); err != nil {
		return fmt.Errorf("%s: %w", o.point(rank), err)
	}
	return nil
}

func (w *writer) path(p string) string {
	if rest, ok := strings.CutPrefix(p, staging); ok {
		return filepath.Join(w.tmp, rest)
	}
	return filepath.Join(w.dir, filepath.FromSlash(p))
}

func (w *writer) do(o op) (err error) {
	p := w.path(o.path)
	switch o.kind {
	case mkdir:
		return os.MkdirAll(p, 0o755)
	case create:
		w.open[o.path], err = os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		return err
	case write:
		_, err = w.open[o.path].Write(o.data)
		return err
	case closing:
		f := w.open[o.path]
		delete(w.open, o.path)
		return f.Close()
	case rename:
		return os.Rename(p, w.path(o.to))
	case remove:
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case copying:
		b, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cmp.Or(err, os.WriteFile(w.path(o.to), b, 0o644))
	case aged: // a move to another device gives the copy the times of the original
		then := time.Now().Add(-time.Second)
		return os.Chtimes(p, then, then)
	}
	return fmt.Errorf("unknown operation %q", o.kind)
}

// rotate deletes older checkpoints, file by file as rmtree does.
func (w *writer) rotate(rank int, o op) error {
	found, err := filepath.Glob(w.path(o.path))
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(numberIn(a), numberIn(b)) })
	for _, old := range found[:max(0, len(found)-o.keep)] {
		if err := w.removeTree(rank, old); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) removeTree(rank int, p string) error {
	entries, err := os.ReadDir(p)
	for _, d := range entries {
		if err := w.removeTree(rank, filepath.Join(p, d.Name())); err != nil {
			return err
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && len(entries) > 0 {
		return err
	}
	rel, err := filepath.Rel(w.dir, p)
	if err != nil {
		return err
	}
	return w.step(rank, op{kind: remove, path: filepath.ToSlash(rel)})
}

var lastDigits = regexp.MustCompile(`\d+`)

// numberIn returns the last number of a path's last part.
func numberIn(p string) int64 {
	all := lastDigits.FindAllString(filepath.Base(p), -1)
	if len(all) == 0 {
		return -1
	}
	n, _ := strconv.ParseInt(all[len(all)-1], 10, 64)
	return n
}
