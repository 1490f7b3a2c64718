package wire

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spotferry/spotferry/checkpoint"
)

// Body is the body of a put. It gives exactly size bytes of a reader, or fails
// before it gives the last of them, so that the service at the other end never
// has a whole request unless the reader kept its promise and the context lives.
//
// It hides whatever else the reader can do: a client must neither rewind what is
// its caller's, nor close it.
type Body struct {
	ctx   context.Context
	r     io.Reader
	size  int64
	left  int64
	moved func()
	err   error
	done  chan struct{}
	taken bool
}

// NewBody begins a body. ctx is the caller's, whose end fails the body; the end
// of the request itself, such as a [Watch]'s, says nothing about the reader and
// must not. moved is called whenever some of the body is taken.
func NewBody(ctx context.Context, r io.Reader, size int64, moved func()) *Body {
	return &Body{ctx: ctx, r: r, size: size, left: size, moved: moved, done: make(chan struct{})}
}

// Empty is for bodies of no bytes, which HTTP does not read: it reports whether
// the reader agrees.
func (b *Body) Empty() error {
	if b.err = b.end(); b.err == nil {
		b.err = b.ctx.Err()
	}
	return b.err
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	}
	if b.err = b.ctx.Err(); b.err != nil {
		return 0, b.err
	}
	b.moved()
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if b.left == 0 && (err == nil || errors.Is(err, io.EOF)) {
		err = b.last(err)
	} else if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %d bytes, not %d", checkpoint.ErrSize, b.size-b.left, b.size)
	}
	if err != nil {
		b.err = err
		return 0, err // also what was read: it may be the last
	}
	return n, nil
}

// last decides whether the last bytes may go.
func (b *Body) last(err error) error {
	if err == nil {
		if err := b.end(); err != nil {
			return err
		}
	}
	return b.ctx.Err()
}

// end makes sure that the reader has no more.
func (b *Body) end() error {
	var one [1]byte
	switch n, err := io.ReadFull(b.r, one[:]); {
	case n > 0:
		return fmt.Errorf("%w: more than %d bytes", checkpoint.ErrSize, b.size)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// Size is how many bytes the body has.
func (b *Body) Size() int64 { return b.size }

// Take says that the body is a client's now, who will close it.
func (b *Body) Take() *Body {
	b.taken = true
	return b
}

// Close implements io.Closer, for the client. The reader stays open.
func (b *Body) Close() error {
	select {
	case <-b.done:
	default:
		close(b.done)
	}
	return nil
}

// Wait returns when the client does not read any more, which may be after it
// has answered: whoever owns the reader may use it, and what is under it, again.
// It returns why the body failed, if it did.
func (b *Body) Wait() error {
	if b.taken {
		<-b.done
	}
	return b.err
}

// Untouched reports whether nothing of the reader was taken. Wait first.
func (b *Body) Untouched() bool { return b.left == b.size && b.err == nil }
