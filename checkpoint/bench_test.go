package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// benchTree is like a small fine-tune's: some large files, many small ones, no
// two alike.
func benchTree(b *testing.B, large, small int) (string, int64) {
	b.Helper()
	tree := filepath.Join(b.TempDir(), "checkpoint-1")
	must(b, os.MkdirAll(tree, 0o755))
	var sum int64
	r := rand.New(rand.NewPCG(1, 2))
	block := storetest.Content(1 << 20)
	for i := range large + small {
		n := 64 << 20
		if i >= large {
			n = 2000
		}
		data := bytes.Repeat(block, n>>20+1)[:n]
		for off := 0; off < n; off += 4096 {
			binary.LittleEndian.PutUint64(data[off:], r.Uint64())
		}
		sum += int64(n)
		must(b, os.WriteFile(filepath.Join(tree, fmt.Sprintf("file-%d.bin", i)), data, 0o644))
	}
	return tree, sum
}

// copyDurably is a yardstick: a copy, and a sync of the file system, as by cp.
func copyDurably(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	d, err := os.Open(to)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

// hashTree is another: BLAKE3 of every byte, on one core.
func hashTree(tree string) error {
	buf := make([]byte, 8<<20)
	return fs.WalkDir(os.DirFS(tree), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(filepath.Join(tree, p))
		if err != nil {
			return err
		}
		defer f.Close()
		for {
			n, err := f.Read(buf)
			if n == 0 {
				return nil
			}
			if err != nil {
				return err
			}
			_ = blake3.Sum256(buf[:n])
		}
	})
}

// writeRaw is the disk's own rate: so many bytes past the page cache.
func writeRaw(to string, size int64) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|unix.O_DIRECT, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 8<<20)
	for ; size > 0; size -= int64(len(buf)) {
		if _, err := f.Write(buf); err != nil {
			return err
		}
	}
	return f.Sync()
}

// BenchmarkSave reports how long saves and restores take as multiples of copying
// the tree durably, of the disk's raw rate and of hashing, measured in turns so
// that a busy machine slows all of them.
func BenchmarkSave(b *testing.B) {
	for _, bc := range []struct {
		name         string
		large, small int
	}{
		{"large", 8, 0},
		{"small", 0, 2000},
		{"adapter", 1, 15},
	} {
		b.Run(bc.name, func(b *testing.B) {
			tree, size := benchTree(b, bc.large, bc.small)
			spent := map[string]time.Duration{}
			timed := func(what string, f func() error) {
				start := time.Now()
				must(b, f())
				spent[what] += time.Since(start)
			}
			b.SetBytes(size)
			for b.Loop() {
				to := b.TempDir()
				timed("raw", func() error { return writeRaw(filepath.Join(to, "raw"), size) })
				timed("copy", func() error { return copyDurably(tree, filepath.Join(to, "copy")) })
				timed("hash", func() error { return hashTree(tree) })
				s, err := dir.Open(dir.Config{Path: filepath.Join(to, "store")})
				must(b, err)
				e, err := checkpoint.New(checkpoint.Config{Store: s, Tenant: "acme", Job: "job1"})
				must(b, err)
				var ref checkpoint.Ref
				for step, what := range []string{"save", "unchanged"} {
					timed(what, func() (err error) {
						ref, err = e.Upload(b.Context(), checkpoint.SaveRequest{Dir: tree, Epoch: 1, Step: int64(step)})
						return err
					})
				}
				timed("restore", func() error {
					_, err = e.Restore(b.Context(), checkpoint.RestoreRequest{Refs: []checkpoint.Ref{ref}, Dir: filepath.Join(to, "restored")})
					return err
				})
				must(b, s.Close())
				must(b, os.RemoveAll(to))
			}
			per := func(what string, by ...string) float64 {
				var sum time.Duration
				for _, x := range by {
					sum += spent[x]
				}
				return spent[what].Seconds() / sum.Seconds()
			}
			b.ReportMetric(per("save", "copy"), "save/copy")
			b.ReportMetric(per("raw", "save"), "of-disk-rate")
			b.ReportMetric(per("save", "hash"), "save/hash")
			b.ReportMetric(per("restore", "copy", "hash"), "restore/(copy+hash)")
			b.ReportMetric(spent["unchanged"].Seconds()*1e3/float64(b.N)/(float64(size)/1e9), "unchanged-ms/GB")
			b.ReportMetric(float64(size)*float64(b.N)/spent["save"].Seconds()/1e6, "save-MB/s")
		})
	}
}
