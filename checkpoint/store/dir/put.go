package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

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
	w := &writer{ctx: ctx, f: f, size: size}
	if size >= directFrom {
		w.direct = setDirect(f, true) == nil
	}
	if from, ok := r.(io.WriterTo); ok {
		_, err = from.WriteTo(w)
	} else {
		err = s.copy(w, r)
	}
	if err == nil && w.n != size {
		err = fmt.Errorf("%w: %d bytes, not %d", checkpoint.ErrSize, w.n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// copy gives w what r has, in large pieces, and what is after the size that w
// expects, so that it can refuse it.
func (s *Store) copy(w *writer, r io.Reader) error {
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	for {
		n, err := io.ReadFull(r, *buf)
		if n > 0 {
			if _, err := w.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && n < len(*buf):
			return nil
		case err != nil:
			return err
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
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

// syncDir makes a directory's entries durable. Whoever asks while it is being
// done waits for the next time, together with all who ask meanwhile: one that
// has begun may have missed their entries.
func (s *Store) syncDir(dir string) error {
	s.mu.Lock()
	g := s.syncs[dir]
	if g == nil {
		g = &group{}
		s.syncs[dir] = g
	}
	s.mu.Unlock()
	return g.do(func() error {
		f, err := s.root.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// group does the same thing for many callers at once.
type group struct {
	running sync.Mutex
	mu      sync.Mutex
	next    *batch // not begun yet
}

type batch struct {
	done chan struct{}
	err  error
}

// do returns the outcome of a call of f that began after do was called.
func (g *group) do(f func() error) error {
	g.mu.Lock()
	b := g.next
	if b != nil {
		g.mu.Unlock()
		<-b.done
		return b.err
	}
	b = &batch{done: make(chan struct{})}
	g.next = b
	g.mu.Unlock()

	g.running.Lock()
	defer g.running.Unlock()
	g.mu.Lock()
	g.next = nil
	g.mu.Unlock()
	b.err = f()
	close(b.done)
	return b.err
}
