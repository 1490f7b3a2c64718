package wire

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spotferry/spotferry/checkpoint"
)

// Object is the body of an answer of which exactly so many bytes have to come:
// an end before that is an error, and so is the end of the caller's context.
type Object struct {
	ctx   context.Context // watched
	watch *Watch
	body  io.ReadCloser
	left  int64
	doing string
}

// NewObject reads the answer of a watched request. doing begins its errors.
func NewObject(watched context.Context, w *Watch, body io.ReadCloser, size int64, doing string) *Object {
	w.Rest()
	return &Object{ctx: watched, watch: w, body: body, left: size, doing: doing}
}

// Read implements io.Reader.
func (o *Object) Read(p []byte) (int, error) {
	if err := o.watch.ctx.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", o.doing, err)
	}
	if o.left == 0 {
		return 0, io.EOF
	}
	o.watch.Moved()
	n, err := o.body.Read(p[:min(int64(len(p)), o.left)])
	o.watch.Rest()
	o.left -= int64(n)
	if errors.Is(err, io.EOF) {
		if err = nil; o.left > 0 {
			err = fmt.Errorf("%w: %d bytes did not come", io.ErrUnexpectedEOF, o.left)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", o.doing, Broken(o.watch.Meaning(o.ctx, err)))
	}
	return n, err
}

// Close implements io.Closer. It never fails: an answer that is left early takes
// its connection with it.
func (o *Object) Close() error {
	if o.left > 0 {
		o.watch.End() // rather than reading the rest
	}
	_ = o.body.Close()
	o.watch.End()
	return nil
}

// Span checks that a Content-Range is of exactly the bytes asked for. One that
// ends before is of an object that does.
func Span(got string, off, n int64) error {
	var from, to int64
	if _, err := fmt.Sscanf(got, "bytes %d-%d/", &from, &to); err != nil || from != off || to > off+n-1 {
		return fmt.Errorf("asked for %d bytes from %d, the answer is of %q: something between here and the service does not know ranges", n, off, got)
	}
	if to < off+n-1 {
		return fmt.Errorf("%w: it ends before byte %d: %s", checkpoint.ErrCorrupt, off+n, got)
	}
	return nil
}
