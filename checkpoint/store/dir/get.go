package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spotferry/spotferry/checkpoint"
)

// Get implements checkpoint.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.check(ctx, "getting", name); err != nil {
		return nil, err
	}
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("getting %s: %w", name, missing(err))
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("getting %s: %w", name, checkpoint.ErrNotFound), f.Close())
	}
	return object{f, ctx}, nil
}

// Range implements checkpoint.Store.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	o := r.(object)
	info, err := o.f.Stat()
	if err == nil && (off < 0 || n <= 0 || off > info.Size()-n) {
		err = fmt.Errorf("%w: %d bytes, want %d from %d", checkpoint.ErrCorrupt, info.Size(), n, off)
	}
	if err == nil {
		_, err = o.f.Seek(off, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("getting %s: %w", name, missing(err)), o.f.Close())
	}
	return part{io.LimitReader(o, n), o}, nil
}

// part is a range of an open object.
type part struct {
	io.Reader
	io.Closer
}

// object is an open object.
type object struct {
	f   *os.File
	ctx context.Context // of the Get, whose reader fails once it ends
}

func (o object) Read(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := o.f.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = missing(err)
	}
	return n, err
}

func (o object) Close() error { return o.f.Close() }

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (int64, error) {
	if err := s.check(ctx, "looking at", name); err != nil {
		return 0, err
	}
	info, err := s.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", name, missing(err))
	}
	return info.Size(), nil
}
