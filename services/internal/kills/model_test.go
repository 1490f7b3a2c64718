package kills

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/framework/frameworktest"
)

// shape is how a job writes its checkpoints.
type shape struct {
	frameworktest.Layout
	Name string
	// Bulk is the size of one more file, so that there are more chunks than one.
	Bulk int
}

// shapes are all layouts there are, and one of them with a large file.
func shapes() (out []shape) {
	for _, l := range frameworktest.Layouts() {
		out = append(out, shape{Layout: l, Name: l.Name})
		if l.Name == "plain" {
			out = append(out, shape{l, "plain-large", 9 << 20})
		}
	}
	return out
}

func shapeByName(name string) (shape, error) {
	for _, s := range shapes() {
		if s.Name == name {
			return s, nil
		}
	}
	return shape{}, fmt.Errorf("no layout %q", name)
}

// state is what the model has learned: it follows from a seed and the steps made.
type state [sha256.Size]byte

func newState(seed uint64) state {
	return sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("kills"), seed))
}

func (s state) next(step int64) state {
	return sha256.Sum256(binary.LittleEndian.AppendUint64(s[:], uint64(step)))
}

// after is the state after so many steps.
func after(seed uint64, steps int64) state {
	s := newState(seed)
	for n := int64(1); n <= steps; n++ {
		s = s.next(n)
	}
	return s
}

func (s state) String() string { return hex.EncodeToString(s[:]) }

// word is what the bytes of a checkpoint follow from, besides its step.
func (s state) word() uint64 { return binary.LittleEndian.Uint64(s[:]) }

// Where the large file is, and what comes after it.
const (
	bulkFile  = "step-%d/bulk.bin"
	bulkPiece = 1 << 20
)

// save writes the checkpoint of a step; at is called before each operation.
func (s shape) save(dir string, step int64, st state, at func(point string) error) error {
	last := fmt.Sprintf("create step-%d/DONE", step)
	return s.Write(dir, step, st.word(), func(point string) error {
		if s.Bulk > 0 && strings.HasSuffix(point, last) {
			if err := s.saveBulk(filepath.Join(dir, fmt.Sprintf(bulkFile, step)), step, st, at); err != nil {
				return err
			}
		}
		return at(point)
	})
}

func (s shape) saveBulk(path string, step int64, st state, at func(point string) error) error {
	name := fmt.Sprintf(bulkFile, step)
	if err := at("rank 0: create " + name); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for data := s.bulk(st); len(data) > 0; data = data[min(bulkPiece, len(data)):] {
		piece := data[:min(bulkPiece, len(data))]
		if err := at(fmt.Sprintf("rank 0: write %s +%d", name, len(piece))); err != nil {
			return err
		}
		if _, err := f.Write(piece); err != nil {
			return err
		}
	}
	return f.Close()
}

// bulk is noise that follows from a state.
func (s shape) bulk(st state) []byte {
	r := rand.NewChaCha8(st)
	b := make([]byte, s.Bulk)
	_, _ = r.Read(b) // never fails
	return b
}

// load finds the checkpoint that a trainer was restored into dir, as its framework
// does, and compares all of it with what was once written. from is what the trainer
// was told to resume from. The step is returned with an error as well, if it is known.
func (s shape) load(dir, from string, seed uint64) (step int64, st state, err error) {
	if s.Name == "plain-files" {
		dir = from // a set of files is restored as a directory
	}
	if step, err = s.Newest(dir); err != nil {
		return 0, st, err
	}
	st = after(seed, step)
	if s.Bulk == 0 {
		return step, st, s.Verify(dir, step, st.word())
	}
	path := filepath.Join(dir, fmt.Sprintf(bulkFile, step))
	got, err := os.ReadFile(path)
	if err != nil {
		return step, st, err
	}
	if !bytes.Equal(got, s.bulk(st)) {
		return step, st, fmt.Errorf("%s has %d bytes that are not those of step %d", filepath.Base(path), len(got), step)
	}
	aside := filepath.Join(dir, ".bulk") // it is one file too many for the layout
	if err := os.Rename(path, aside); err != nil {
		return step, st, err
	}
	err = s.Verify(dir, step, st.word())
	return step, st, cmp.Or(err, os.Rename(aside, path))
}

// counter says which operation of which phase comes, while a save goes on.
type counter struct {
	seen map[phase]int
	done bool
}

// next is what a point is, and how many of its kind came before in this save.
func (c *counter) next(point string) (phase, int) {
	if c.seen == nil {
		c.seen = map[phase]int{}
	}
	p := between
	switch {
	case point == frameworktest.Complete:
		p, c.done = complete, true
	case c.done:
		p = rotating
	case strings.Contains(point, ": write "):
		p = inFile
	}
	c.seen[p]++
	return p, c.seen[p] - 1
}

// countOperations returns how many operations of a phase a first save has.
func countOperations(dir string) (func(layout string, p phase) int, error) {
	counts := map[string]map[phase]int{}
	for _, s := range shapes() {
		at, err := os.MkdirTemp(dir, "count")
		if err != nil {
			return nil, err
		}
		var c counter
		err = s.save(at, 1, newState(1), func(point string) error { c.next(point); return nil })
		if err = cmp.Or(err, os.RemoveAll(at)); err != nil {
			return nil, err
		}
		c.seen[rotating] = 1 // it depends on what is there
		c.seen[stepping] = every
		counts[s.Name] = c.seen
	}
	return func(layout string, p phase) int {
		switch p {
		case beforeObject, inObject, afterObject:
			if slices.ContainsFunc(shapes(), func(s shape) bool { return s.Name == layout && s.Bulk > 0 }) {
				return 3
			}
		}
		return counts[layout][p]
	}, nil
}

func TestAModelSeesWhetherItsCheckpointIsWhole(t *testing.T) {
	t.Parallel()
	count, err := countOperations(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes() {
		dir, steps := t.TempDir(), []int64{8, 16}
		for _, step := range steps {
			if err := s.save(dir, step, after(7, step), func(string) error { return nil }); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
		}
		from := dir
		step, st, err := s.load(dir, from, 7)
		if s.Adapter == "lightning" { // last.ckpt is put there by a restore
			err, step, st = nil, 16, after(7, 16)
		}
		if err != nil || step != 16 || st != after(7, 16) {
			t.Errorf("%s: load = %d, %v", s.Name, step, err)
		}
		if _, _, err := s.load(dir, from, 8); err == nil {
			t.Errorf("%s: the checkpoint of another seed passes", s.Name)
		}
		if count(s.Name, inFile) < 2 || count(s.Name, between) < 3 || count(s.Name, complete) != 1 {
			t.Errorf("%s: %d writes, %d other operations", s.Name, count(s.Name, inFile), count(s.Name, between))
		}
	}
}
