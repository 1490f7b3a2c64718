package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spotferry/spotferry/checkpoint"
)

// Whole reads exactly size bytes, at most most, and makes sure that there are no
// more. It is for services that want a checksum ahead of the content.
func Whole(ctx context.Context, r io.Reader, size, most int64) ([]byte, error) {
	if size < 0 || size > most {
		return nil, fmt.Errorf("%w: %d bytes in one put, at most %d", checkpoint.ErrTooLarge, size, most)
	}
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // room to find the end in
	n, err := data.ReadFrom(io.LimitReader(until{ctx, r}, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("%w: not the %d bytes announced", checkpoint.ErrSize, size)
	}
	return data.Bytes(), err
}

// until fails a long read once ctx ends.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := u.r.Read(p)
	if u.ctx.Err() != nil {
		err = u.ctx.Err()
	}
	return n, err
}

// Moving is a body that tells a watch what is taken of it.
type Moving struct {
	*bytes.Reader
	watch *Watch
}

// NewMoving returns a body of data.
func NewMoving(data []byte, watch *Watch) Moving { return Moving{bytes.NewReader(data), watch} }

func (m Moving) Read(p []byte) (int, error) {
	m.watch.Moved()
	return m.Reader.Read(p)
}

// WriteTo hides the embedded one, which would not tell.
func (m Moving) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{m}) }

// Close does nothing: the bytes are the caller's.
func (m Moving) Close() error { return nil }
