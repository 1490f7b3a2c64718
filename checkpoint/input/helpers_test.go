package input

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// memory is a source that is a map.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
	bend  func(*File)
	fault func(name string, off int64) error
	opens int
	bytes int64 // given out
}

func (m *memory) List(context.Context) ([]File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []File
	for name, data := range m.files {
		f := File{Path: name, Size: int64(len(data)), Key: fmt.Sprintf("mem %s %x", name, len(data)), name: name}
		if m.bend != nil {
			m.bend(&f)
		}
		out = append(out, f)
	}
	return out, nil
}

func (m *memory) Open(_ context.Context, f File, off, n int64) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opens++
	if m.fault != nil {
		if err := m.fault(f.name, off); err != nil {
			return nil, err
		}
	}
	data := m.files[f.name]
	if n < 0 {
		n = int64(len(data))
	}
	m.bytes += n
	return io.NopCloser(bytes.NewReader(data[off : off+n])), nil
}

func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b)
	return b
}

// place is a machine: its root and its Bringer.
type machine struct {
	*Bringer
	root  *os.Root
	cache *Cache
}

func newMachine(t *testing.T, bend func(*Config)) machine {
	t.Helper()
	base := t.TempDir()
	work := filepath.Join(base, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(work)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Scratch: filepath.Join(base, "inputs"), Look: time.Millisecond, Patience: 300 * time.Millisecond}
	if bend != nil {
		bend(&cfg)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close(); _ = b.Close() })
	return machine{b, root, cfg.Cache}
}

// withCache opens a cache of the tenant acme, each call one of another machine.
func withCache(t *testing.T, dir string, bend func(*CacheConfig)) func(*Config) {
	t.Helper()
	cfg := CacheConfig{Dir: dir, Tenant: "acme", Now: time.Now, Spare: 1, Links: true}
	if bend != nil {
		bend(&cfg)
	}
	c, err := OpenCache(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(cfg *Config) { cfg.Cache = c }
}

func (m machine) has(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := m.root.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
		return
	}
	info, err := m.root.Lstat(name)
	if err != nil || info.Mode() != 0o444 {
		t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
	}
}

func blobsIn(t *testing.T, dir string) (out []string) {
	t.Helper()
	files(filepath.Join(dir, "acme", "blobs"), func(path string, _ os.FileInfo) { out = append(out, path) })
	return out
}
