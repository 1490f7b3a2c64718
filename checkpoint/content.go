package checkpoint

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"lukechampine.com/blake3"
)

// sendFile makes sure that the store has one file's content, fills in its hash,
// and returns how many bytes were sent for it.
func (e *Engine) sendFile(ctx context.Context, root *os.Root, f *found) (int64, error) {
	file, err := openSame(root, *f)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var sent int64
	if f.Size <= copyBuffer {
		sent, err = e.sendSmall(ctx, file, f)
	} else {
		sent, err = e.sendLarge(ctx, file, f)
	}
	if err == nil {
		err = unchanged(file, *f)
	}
	if err != nil {
		return sent, fmt.Errorf("file %s: %w", quote(f.Path), err)
	}
	return sent, nil
}

// sendSmall reads the file once, so what is hashed is what is sent.
func (e *Engine) sendSmall(ctx context.Context, file *os.File, f *found) (int64, error) {
	buf := e.buffers.Get().(*[]byte)
	defer e.buffers.Put(buf)
	data := (*buf)[:f.Size]
	if _, err := io.ReadFull(file, data); err != nil {
		return 0, short(err)
	}
	f.Hash = digest(data)
	return e.ensure(ctx, f.File, func() io.Reader { return bytes.NewReader(data) })
}

// sendLarge reads the file twice, since its name in the store is its hash. The
// second reading is hashed too: an object never has other bytes than its name
// says, even when the file is rewritten in between.
func (e *Engine) sendLarge(ctx context.Context, file *os.File, f *found) (int64, error) {
	h := blake3.New(hashLen/2, nil)
	if err := e.copyExactly(ctx, h, file, f.Size); err != nil {
		return 0, short(err)
	}
	f.Hash = hex.EncodeToString(h.Sum(nil))
	return e.ensure(ctx, f.File, func() io.Reader {
		return &checked{r: io.NewSectionReader(file, 0, f.Size), h: blake3.New(hashLen/2, nil), left: f.Size, want: f.Hash}
	})
}

// short is a file that ended before the size it had: it is being rewritten.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrSize) {
		return wrap(ErrChanged, err)
	}
	return err
}

// ensure leaves the store with an object of f's content, proven good, and
// returns how many bytes it had to send.
func (e *Engine) ensure(ctx context.Context, f File, content func() io.Reader) (int64, error) {
	name := fileName(e.cfg.Tenant, f.Hash)
	err := e.relyOn(ctx, name, f)
	if errors.Is(err, ErrCorrupt) {
		// Whatever referred to these bytes cannot be restored as it is; putting
		// good ones in their place harms nobody.
		err = e.cfg.Store.Delete(ctx, name)
		if err == nil {
			err = ErrNotFound
		}
	}
	if !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	err = e.cfg.Store.Put(ctx, name, content(), f.Size)
	if errors.Is(err, ErrExists) {
		return 0, e.relyOn(ctx, name, f) // someone was faster
	}
	if err != nil {
		return 0, fmt.Errorf("writing %s: %w", name, err)
	}
	e.prove(f.Hash, true)
	return f.Size, nil
}

// relyOn reports whether an object can be used as it is: nil, ErrNotFound,
// ErrCorrupt, or what kept the store from answering.
func (e *Engine) relyOn(ctx context.Context, name string, f File) error {
	size, err := e.cfg.Store.Stat(ctx, name)
	if err != nil {
		return err
	}
	if size != f.Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, size, f.Size)
	}
	if e.isProven(f.Hash) {
		return nil
	}
	return again(func() error { return e.fetch(ctx, f, io.Discard) })
}

// fetch copies an object to w and returns nil only if it had the right bytes.
// What w got before an error is worthless.
func (e *Engine) fetch(ctx context.Context, f File, w io.Writer) (err error) {
	defer func() {
		if err == nil || proves(err) {
			e.prove(f.Hash, err == nil)
		}
	}()
	r, err := e.cfg.Store.Get(ctx, fileName(e.cfg.Tenant, f.Hash))
	if err != nil {
		return err
	}
	defer r.Close()
	h := blake3.New(hashLen/2, nil)
	if err := e.copyExactly(ctx, io.MultiWriter(h, w), r, f.Size); err != nil {
		if errors.Is(err, ErrSize) {
			return wrap(ErrCorrupt, err)
		}
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.Hash {
		return fmt.Errorf("%w: hash %s, want %s", ErrCorrupt, got, f.Hash)
	}
	return nil
}

// copyExactly copies size bytes and makes sure that there are no more; otherwise
// ErrSize.
func (e *Engine) copyExactly(ctx context.Context, w io.Writer, r io.Reader, size int64) error {
	buf := e.buffers.Get().(*[]byte)
	defer e.buffers.Put(buf)
	n, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(withContext{ctx, r}, size), *buf)
	if err != nil {
		return err
	}
	if n < size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrSize, n, size)
	}
	if n, err := io.ReadFull(r, (*buf)[:1]); n > 0 {
		return fmt.Errorf("%w: more than %d bytes", ErrSize, size)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// onlyWriter hides ReadFrom, which would go around the buffer.
type onlyWriter struct{ io.Writer }

// withContext fails a long copy once ctx ends.
type withContext struct {
	ctx context.Context
	r   io.Reader
}

func (c withContext) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// checked gives the bytes of r and, instead of the last of them, ErrChanged if
// they do not have the wanted hash.
type checked struct {
	r    io.Reader
	h    *blake3.Hasher
	left int64
	want string
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.h.Write(p[:n]) // a hash does not fail
	c.left -= int64(n)
	switch {
	case c.left > 0 && errors.Is(err, io.EOF):
		return 0, wrap(ErrChanged, io.ErrUnexpectedEOF)
	case c.left == 0 && n > 0 && hex.EncodeToString(c.h.Sum(nil)) != c.want:
		return 0, fmt.Errorf("%w: read twice, it differed", ErrChanged)
	}
	return n, err
}
