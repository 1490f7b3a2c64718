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
	if err := s.put(ctx, name, r, size); err != nil {
		return fmt.Errorf("putting %s: %w", name, full(s.path, err))
	}
	return nil
}

func (s *Store) put(ctx context.Context, name string, r io.Reader, size int64) error {
	to, err := s.folder(path.Dir(name))
	if err != nil {
		return err
	}
	if _, err := to.root.Lstat(path.Base(name)); err == nil {
		return checkpoint.ErrExists
	}
	tmp := fmt.Sprint(s.tmp, s.seq.Add(1))
	if err = s.write(ctx, tmp, r, size); err == nil {
		err = s.publish(tmp, to, name)
	}
	if err == nil {
		return nil
	}
	if rerr := s.unfinished.root.Remove(tmp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// write makes a durable file of exactly size bytes.
func (s *Store) write(ctx context.Context, tmp string, r io.Reader, size int64) error {
	f, err := s.unfinished.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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
func (s *Store) publish(tmp string, to *folder, name string) error {
	err := renameNew(s.unfinished.file, tmp, to.file, path.Base(name))
	if errors.Is(err, errors.ErrUnsupported) {
		err = s.link(tmp, name)
	}
	if errors.Is(err, fs.ErrExist) {
		return checkpoint.ErrExists
	}
	if err != nil {
		return err
	}
	return to.sync()
}

// link is for file systems that cannot rename without replacing, such as NFS.
func (s *Store) link(tmp, name string) error {
	if err := s.root.Link(path.Join(unfinished, tmp), name); err != nil {
		return err
	}
	return s.unfinished.root.Remove(tmp) // it has two names now
}
