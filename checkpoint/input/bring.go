package input

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Config is what a Bringer is made of.
type Config struct {
	// Scratch is a directory for what is under way, on the file system of where
	// files go. It is made, and Close removes it.
	Scratch  string
	Cache    *Cache                          // nil: none
	Workers  int                             // transfers at once; 0: 16
	Look     time.Duration                   // between looks at what another machine does, and before a repeat; 0: 100 ms
	Patience time.Duration                   // how long another machine may get nowhere; 0: 20 s
	Room     func(dir string) (int64, error) // free bytes there; nil: it is asked
	Log      *zap.Logger                     // nil: silence
}

// Bringer brings files to one machine. What it has placed it does not bring
// again, so it is asked again until it succeeds.
type Bringer struct {
	cfg   Config
	turns chan struct{}
	full  atomic.Bool  // the cache cannot be used any more
	large atomic.Int64 // from which size it has no room; 0: it has

	mu      sync.Mutex
	placed  map[string]File // by root and name
	refuted map[string]bool // keys whose content was not what it must be
}

// New returns a Bringer.
func New(cfg Config) (*Bringer, error) {
	if !filepath.IsAbs(cfg.Scratch) {
		return nil, fmt.Errorf("inputs: Scratch is %q: give the absolute path of a directory", cfg.Scratch)
	}
	if cfg.Workers == 0 {
		cfg.Workers = 16
	}
	if cfg.Look == 0 {
		cfg.Look = 100 * time.Millisecond
	}
	if cfg.Patience == 0 {
		cfg.Patience = 20 * time.Second
	}
	if cfg.Room == nil {
		cfg.Room = room
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if err := os.MkdirAll(cfg.Scratch, 0o700); err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	return &Bringer{cfg: cfg, turns: make(chan struct{}, cfg.Workers), placed: map[string]File{}, refuted: map[string]bool{}}, nil
}

// Close removes what was left under way.
func (b *Bringer) Close() error { return os.RemoveAll(b.cfg.Scratch) }

// Brought is what a source came to.
type Brought struct {
	Files  int
	Bytes  int64
	Cached int64 // of Bytes, how many were here already
}

// Mount brings all files of a source to a place below root: the file at, or
// files in the directory at. An error that is a *Refusal stays however often this
// is repeated; after any other a repetition goes on where this was.
func (b *Bringer) Mount(ctx context.Context, from Remote, root *os.Root, at string) (Brought, error) {
	files, err := from.List(ctx)
	if err != nil {
		return Brought{}, err
	}
	if err := check(files); err != nil {
		return Brought{}, err
	}
	if at = path.Clean(at); at == "." && files[0].Path == "" {
		return Brought{}, refusal("mount it at the name of a file", "the source is one file, and is mounted where a directory is")
	}
	if err := b.fits(files, root, at); err != nil {
		return Brought{}, err
	}
	var mu sync.Mutex
	var got Brought
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(b.cfg.Workers)
	for _, f := range files {
		g.Go(func() error {
			cached, err := b.one(ctx, from, f, root, path.Join(at, f.Path))
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			got.Files++
			got.Bytes += max(f.Size, 0)
			if cached {
				got.Cached += f.Size
			}
			return nil
		})
	}
	return got, g.Wait()
}

// one brings one file, and reports whether it came out of the cache.
func (b *Bringer) one(ctx context.Context, from Remote, f File, root *os.Root, name string) (cached bool, err error) {
	place := filepath.Join(root.Name(), name)
	b.mu.Lock()
	was, ok := b.placed[place]
	b.mu.Unlock()
	if _, err := root.Lstat(name); err == nil && ok && was == f {
		return false, nil
	}
	c, err := b.Fetch(ctx, from, f)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	defer c.Close()
	if err := c.place(root, name); err != nil {
		return false, fmt.Errorf("putting %s into its place: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.placed[place] = f
	return c.hit, nil
}

// fits refuses what the disk cannot hold, before hours are spent on it.
func (b *Bringer) fits(files []File, root *os.Root, at string) error {
	var need int64
	b.mu.Lock()
	for _, f := range files {
		if b.placed[filepath.Join(root.Name(), at, f.Path)] != f {
			need += max(f.Size, 0) - b.here(f)
		}
	}
	b.mu.Unlock()
	free, err := b.cfg.Room(b.cfg.Scratch)
	if err != nil || need <= free { // a disk that does not say is found full by writing
		return nil
	}
	return refusal("ask for a machine with a larger disk (resources.disk_size)", "there are %.1f GB to be fetched, and %.1f GB are free on this machine", float64(need)/1e9, float64(free)/1e9)
}

// here is how much of a file takes room on this machine already, or will take none.
func (b *Bringer) here(f File) int64 {
	if f.Key == "" || f.Size <= 0 {
		return 0
	}
	dirs := []string{b.cfg.Scratch}
	if c := b.cfg.Cache; c != nil {
		if _, there := c.knows(f.Key); there {
			return f.Size
		}
		dirs = append(dirs, filepath.Join(c.dir, "partial"))
	}
	for _, dir := range dirs {
		if info, err := os.Lstat(stagePath(dir, f)); err == nil {
			return min(allocated(info), f.Size)
		}
	}
	return 0
}
