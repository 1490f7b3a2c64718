package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// TestHoles: a sparse file costs what is in it, comes back with its holes, and
// one of a terabyte is saved and restored in no time.
func TestHoles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		size int64
		at   []int64 // where something is written
		sent int64   // at most
	}{
		{"a hole alone", 64 << 20, nil, 0},
		{"a terabyte of nothing with a word at its end", 1 << 40, []int64{1<<40 - 9}, 1 << 20},
		{"words here and there", 128 << 20, []int64{0, 5 << 20, 77<<20 + 5, 127 << 20}, 4 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, "checkpoint-1", spec{"sparse": ""})
			file := filepath.Join(dir, "sparse")
			if err := os.Truncate(file, tc.size); errors.Is(err, syscall.EFBIG) {
				t.Skip("the file system has no files that large")
			}
			for _, off := range tc.at {
				must(t, poke(file, off, "something"))
			}
			s := mem.New(mem.Config{})
			e := variant(t, s, checkpoint.Config{})
			ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
			must(t, err)
			if sent := e.Progress().Sent; sent > tc.sent || ref.Bytes != tc.size {
				t.Errorf("%d bytes were sent for one of %d with %d words", sent, ref.Bytes, len(tc.at))
			}
			got, err := restore(t, e, []checkpoint.Ref{ref})
			must(t, err)
			var is, was unix.Stat_t
			must(t, errors.Join(unix.Stat(file, &was), unix.Stat(filepath.Join(got.Path, "sparse"), &is)))
			if is.Size != was.Size || is.Blocks > was.Blocks+int64(len(tc.at))*(1<<20)/512 {
				t.Errorf("restored with %d bytes in %d blocks, want %d in about %d", is.Size, is.Blocks, was.Size, was.Blocks)
			}
			for _, off := range tc.at {
				b := make([]byte, 9)
				f, err := os.Open(filepath.Join(got.Path, "sparse"))
				must(t, err)
				_, err = f.ReadAt(b, off)
				must(t, errors.Join(err, f.Close()))
				if string(b) != "something" {
					t.Errorf("%q at %d", b, off)
				}
			}
		})
	}
}
