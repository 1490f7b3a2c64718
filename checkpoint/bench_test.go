package checkpoint_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// checkpointTree is like a small fine-tune's: some large files, many small ones.
func checkpointTree(b *testing.B, large, small int) (string, int64) {
	b.Helper()
	tree := filepath.Join(b.TempDir(), "checkpoint-1")
	must(b, os.MkdirAll(tree, 0o755))
	var sum int64
	for i := range large + small {
		n := 32 << 20
		if i >= large {
			n = 2000
		}
		data := append(bytes.Repeat(storetest.Content(1<<10), n>>10), fmt.Sprint(i)...)
		sum += int64(len(data))
		must(b, os.WriteFile(filepath.Join(tree, fmt.Sprintf("file-%d.bin", i)), data, 0o644))
	}
	return tree, sum
}

// copyDurably is the yardstick: a copy with an fsync for each file.
func copyDurably(from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return fs.WalkDir(os.DirFS(from), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(from, p))
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(to, p))
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Sync()
	})
}

// BenchmarkSave reports how long a save into a directory takes as a multiple of
// copying the tree durably, measured in turns so that a busy machine slows both.
func BenchmarkSave(b *testing.B) {
	for _, bc := range []struct {
		name         string
		large, small int
	}{
		{"large", 8, 0},
		{"small", 0, 200},
		{"adapter", 1, 15},
	} {
		b.Run(bc.name, func(b *testing.B) {
			tree, size := checkpointTree(b, bc.large, bc.small)
			var saving, copying, again, restoring time.Duration
			b.SetBytes(size)
			for b.Loop() {
				to := b.TempDir()
				start := time.Now()
				must(b, copyDurably(tree, filepath.Join(to, "copy")))
				copying += time.Since(start)

				s, err := dir.Open(dir.Config{Path: filepath.Join(to, "store")})
				must(b, err)
				e, err := checkpoint.New(checkpoint.Config{Store: s, Tenant: "acme", Job: "job1"})
				must(b, err)
				start = time.Now()
				ref, err := e.Upload(b.Context(), checkpoint.SaveRequest{Dir: tree, Epoch: 1, Step: 1})
				must(b, err)
				saving += time.Since(start)

				start = time.Now()
				_, err = e.Upload(b.Context(), checkpoint.SaveRequest{Dir: tree, Epoch: 1, Step: 2})
				must(b, err)
				again += time.Since(start)

				start = time.Now()
				_, err = e.Restore(b.Context(), checkpoint.RestoreRequest{Refs: []checkpoint.Ref{ref}, Dir: filepath.Join(to, "restored")})
				must(b, err)
				restoring += time.Since(start)
				must(b, s.Close())
				must(b, os.RemoveAll(to))
			}
			b.ReportMetric(saving.Seconds()/copying.Seconds(), "save/copy")
			b.ReportMetric(again.Seconds()/copying.Seconds(), "unchanged/copy")
			b.ReportMetric(restoring.Seconds()/copying.Seconds(), "restore/copy")
			b.ReportMetric(float64(size)*float64(b.N)/saving.Seconds()/1e6, "save-MB/s")
		})
	}
}
