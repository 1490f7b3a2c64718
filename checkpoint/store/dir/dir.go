// Package dir keeps checkpoint objects as files under one directory: the store
// of a single machine, or of a file system that several machines mount.
//
// An object is written under a hidden name, made durable, and then given its own
// name, which fails if that name is taken. So an object is whole or absent,
// whoever dies when, and of several writers exactly one wins. The file system has
// to rename without replacing, or else to support hard links, and to honour
// fsync; NFS does the latter two.
//
// Large objects go to the disk without passing through the page cache, where
// the file system can do that: it saves a copy, and leaves the cache to the
// trainer. Directories are synced for as many objects at once as there are.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// Config says where the store is.
type Config struct {
	Path string // made if missing

	// StaleAfter is how old unfinished work must be before Open removes it as
	// left over from a process that died; 0 means 24 h. It must exceed the
	// longest upload of one object by any process that uses this store.
	StaleAfter time.Duration
	Now        func() time.Time // the wall clock, for StaleAfter; nil means time.Now
}

// Validate reports what is missing or out of range.
func (c Config) Validate() error {
	if c.Path == "" {
		return errors.New("dir store: no path")
	}
	if c.StaleAfter < 0 {
		return fmt.Errorf("dir store: stale after %v is negative", c.StaleAfter)
	}
	return nil
}

// Store is a checkpoint.Store in a directory.
type Store struct {
	path string
	root *os.Root
	tmp  string        // what names of our unfinished work begin with
	seq  atomic.Uint64 // numbers it

	buffers sync.Pool // of *[]byte, 1 MiB long

	unfinished *folder

	mu      sync.Mutex
	folders map[string]*folder // by their path
}

var _ checkpoint.Store = (*Store)(nil)

// unfinished holds objects that are being written. It is one directory for the
// whole store, so that sweeping it does not have to walk every object.
const unfinished = ".unfinished"

// Open makes the directory if necessary and removes stale unfinished work.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.StaleAfter == 0 {
		cfg.StaleAfter = 24 * time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(filepath.Join(cfg.Path, unfinished), 0o700); err != nil {
		return nil, fmt.Errorf("opening store: %w", full(cfg.Path, err))
	}
	root, err := os.OpenRoot(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("opening store: %w", err)
	}
	s := &Store{path: cfg.Path, root: root, folders: map[string]*folder{},
		tmp: fmt.Sprintf("%d-%d-", os.Getpid(), time.Now().UnixNano())}
	s.buffers.New = func() any { b := make([]byte, 1<<20); return &b }
	if s.unfinished, err = openFolder(root, unfinished); err != nil {
		return nil, errors.Join(fmt.Errorf("opening store: %w", err), root.Close())
	}
	if err := s.sweep(cfg.Now().Add(-cfg.StaleAfter)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening store: %w", err), root.Close())
	}
	return s, nil
}

// Close releases the directory. Objects being written are abandoned.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(s.root.Close(), s.unfinished.close())
	for _, f := range s.folders {
		err = errors.Join(err, f.close())
	}
	clear(s.folders)
	return err
}

// sweep removes unfinished work last written before a time.
func (s *Store) sweep(before time.Time) error {
	entries, err := fs.ReadDir(s.root.FS(), unfinished)
	if err != nil {
		return err
	}
	for _, d := range entries {
		name := path.Join(unfinished, d.Name())
		info, err := s.root.Lstat(name)
		if err == nil && info.ModTime().Before(before) {
			err = s.root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may sweep too
			return err
		}
	}
	return nil
}

// List implements checkpoint.Store. It is never late.
func (s *Store) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	dir := path.Dir(prefix + "x") // the deepest directory that holds every match
	if !fs.ValidPath(dir) {
		return nil, ctx.Err() // no object is called that
	}
	var found []checkpoint.Object
	err := fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // also one that was deleted while we walked
		case err != nil:
			return err
		case d.IsDir() && name == unfinished:
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasPrefix(name, prefix):
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			found = append(found, checkpoint.Object{Name: name, Size: info.Size()})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", prefix, err)
	}
	slices.SortFunc(found, func(a, b checkpoint.Object) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Delete implements checkpoint.Store. A power failure may bring the object back.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := s.check(ctx, "deleting", name); err != nil {
		return err
	}
	if info, err := s.root.Lstat(name); err == nil && info.IsDir() {
		return nil // no object
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

func (s *Store) check(ctx context.Context, doing, name string) error {
	if !checkpoint.ObjectName(name) {
		return fmt.Errorf("%s %q: not an object name", doing, name)
	}
	return ctx.Err()
}
