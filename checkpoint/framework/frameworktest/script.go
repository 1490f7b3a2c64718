package frameworktest

import (
	"fmt"
	"strings"
)

// plan is what all ranks do for one checkpoint.
type plan struct {
	layout string
	step   int64
	seed   uint64
	ranks  []*rank
}

// rank is what one process does.
type rank struct{ ops []op }

// op is one operation on the file system, or a meeting of the ranks.
type op struct {
	kind     kind
	path, to string
	data     []byte
	keep     int // rotate: how many
}

type kind string

const (
	mkdir   kind = "mkdir"
	create  kind = "create" // and truncate
	write   kind = "write"
	closing kind = "close"
	rename  kind = "rename"
	remove  kind = "remove"
	copying kind = "copy" // one file, whole, under a name nobody looks at
	aged    kind = "times"
	rotate  kind = "rotate" // all but the newest keep that match path
	barrier kind = "barrier"
	done    kind = "done" // this rank's part of the checkpoint
)

// staging is what stands for $TMPDIR in paths.
const staging = "$TMPDIR/"

func (r *rank) do(k kind, path string) { r.ops = append(r.ops, op{kind: k, path: path}) }

func (r *rank) mkdir(path string) { r.do(mkdir, path) }
func (r *rank) barrier()          { r.do(barrier, "") }
func (r *rank) done()             { r.do(done, "") }
func (r *rank) remove(path string) {
	r.do(remove, path)
}
func (r *rank) rename(from, to string) {
	r.ops = append(r.ops, op{kind: rename, path: from, to: to})
}
func (r *rank) copy(from, to string) {
	r.ops = append(r.ops, op{kind: copying, path: from, to: to})
}
func (r *rank) rotate(pattern string, keep int) {
	r.ops = append(r.ops, op{kind: rotate, path: pattern, keep: keep})
}

// file writes a file in pieces: a torn one can end in its header, in its middle
// or nowhere.
func (r *rank) file(path string, data []byte) {
	r.do(create, path)
	for from, to := range cuts(len(data)) {
		r.ops = append(r.ops, op{kind: write, path: path, data: data[from:to]})
	}
	r.do(closing, path)
}

func cuts(n int) func(func(int, int) bool) {
	return func(yield func(int, int) bool) {
		last := 0
		for _, to := range []int{min(10, n/3), n / 2, n - 1, n} {
			if to > last && !yield(last, to) {
				return
			}
			last = max(last, to)
		}
	}
}

// text writes a small file in one go.
func (r *rank) text(path, text string) {
	r.do(create, path)
	if text != "" {
		r.ops = append(r.ops, op{kind: write, path: path, data: []byte(text)})
	}
	r.do(closing, path)
}

func (o op) point(rank int) string {
	s := fmt.Sprintf("rank %d: %s %s", rank, o.kind, o.path)
	if o.to != "" {
		s += " to " + o.to
	}
	if o.kind == write {
		s += fmt.Sprintf(" +%d", len(o.data))
	}
	return strings.TrimSpace(s)
}

// imagine does to a map what run does to a directory.
func (o op) imagine(files map[string][]byte) {
	switch o.kind {
	case create:
		files[o.path] = []byte{}
	case write:
		files[o.path] = append(files[o.path], o.data...)
	case remove:
		delete(files, o.path)
	case copying:
		if b, ok := files[o.path]; ok {
			files[o.to] = append([]byte(nil), b...)
		}
	case rename:
		for name, b := range files {
			if rest, ok := strings.CutPrefix(name, o.path); ok && (rest == "" || rest[0] == '/') {
				delete(files, name)
				files[o.to+rest] = b
			}
		}
	}
}
