package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/spotferry/spotferry/checkpoint"
)

// Put implements checkpoint.Store.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := s.check(ctx, "putting", name); err != nil {
		return err
	}
	if _, err := s.root.Lstat(name); err == nil {
		return fmt.Errorf("putting %s: %w", name, checkpoint.ErrExists)
	}
	tmp := fmt.Sprint(s.tmp, s.seq.Add(1))
	err := s.write(ctx, tmp, r, size)
	if err == nil {
		err = s.publish(tmp, name)
	}
	// What was linked has two names now, what failed has one; this one goes.
	if rerr := s.root.Remove(tmp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) && err == nil {
		err = rerr
	}
	if err != nil {
		return fmt.Errorf("putting %s: %w", name, full(s.path, err))
	}
	return nil
}

// write makes a durable file of exactly size bytes.
func (s *Store) write(ctx context.Context, tmp string, r io.Reader, size int64) error {
	f, err := s.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	n, err := io.CopyBuffer(onlyWriter{f}, io.LimitReader(withContext{ctx, r}, size), *buf)
	if err == nil && n != size {
		err = fmt.Errorf("%w: %d bytes, not %d", checkpoint.ErrSize, n, size)
	}
	if err == nil {
		err = ended(r, size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ended makes sure that a reader has nothing more to give.
func ended(r io.Reader, size int64) error {
	n, err := io.ReadFull(r, make([]byte, 1))
	if n > 0 {
		return fmt.Errorf("%w: more than %d bytes", checkpoint.ErrSize, size)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// publish gives a durable file its name. The name is durable on return.
func (s *Store) publish(tmp, name string) error {
	dir := path.Dir(name)
	if err := s.makeDir(dir); err != nil {
		return err
	}
	err := s.root.Link(tmp, name)
	if errors.Is(err, fs.ErrExist) {
		return checkpoint.ErrExists
	}
	if err != nil {
		return err
	}
	return s.syncDir(dir)
}

// makeDir makes a directory that survives a power failure, and those above it.
// That one exists is not enough: another process may have made it and not yet
// synced its parent. So each is made, or found, and synced once by each process.
func (s *Store) makeDir(dir string) error {
	if dir == "." || s.isDurable(dir) {
		return nil
	}
	parent := path.Dir(dir)
	if err := s.makeDir(parent); err != nil {
		return err
	}
	if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.syncDir(parent); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable[dir] = true
	return nil
}

func (s *Store) isDurable(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable[dir]
}

func (s *Store) syncDir(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// onlyWriter hides ReadFrom, which would copy in pieces of 32 KiB: small for a
// disk, and for a reader that hashes.
type onlyWriter struct{ io.Writer }
