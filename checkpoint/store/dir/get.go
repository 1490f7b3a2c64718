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
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("getting %s: %w", name, checkpoint.ErrNotFound), f.Close())
	}
	return &object{f: f, ctx: ctx, undecided: info.Size() >= directFrom}, nil
}

// Range implements checkpoint.Store.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	o := r.(*object)
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
	o.undecided = o.undecided && off%block == 0
	return part{io.LimitReader(o, n), o}, nil
}

// part is a range of an open object.
type part struct {
	io.Reader
	io.Closer
}

// object is an open object. Who reads it in large pieces, as a restore does, has
// it straight from the disk: it is read once, and would push out of the cache
// what is read again.
type object struct {
	f   *os.File
	ctx context.Context // of the Get, whose reader fails once it ends

	undecided bool // whether to read directly: nothing was read yet
	direct    bool
}

func (o *object) Read(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	if o.undecided {
		o.undecided = false
		o.direct = len(p) >= directFrom && aligned(p) && setDirect(o.f, true) == nil
	}
	n, err := o.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = missing(err)
	}
	return n, err
}

// read reads directly as long as whole blocks are asked for.
func (o *object) read(p []byte) (int, error) {
	if o.direct {
		if aligned(p) {
			n, err := o.f.Read(p[:len(p)&^(block-1)])
			if n%block == 0 && !refused(err) {
				return n, err
			}
			if n > 0 { // the last block, which is not full
				return n, o.buffered()
			}
		}
		if err := o.buffered(); err != nil {
			return 0, err
		}
	}
	return o.f.Read(p)
}

// buffered ends the direct reading.
func (o *object) buffered() error {
	o.direct = false
	return setDirect(o.f, false)
}

func (o *object) Close() error { return o.f.Close() }

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
