package dir

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"github.com/spotferry/spotferry/checkpoint"
)

// directFrom is from which size an object is written directly. Below, waiting
// for the disk costs more than copying.
const directFrom = 1 << 20

// block is what addresses, offsets and lengths of direct writes are multiples
// of: at least the block size of any disk.
const block = 4096

// writer writes one object's file: direct while it can, in the calls it gets.
type writer struct {
	ctx    context.Context
	f      *os.File
	size   int64
	n      int64
	direct bool
}

func (w *writer) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p)) > w.size-w.n {
		return 0, fmt.Errorf("%w: more than %d bytes", checkpoint.ErrSize, w.size)
	}
	done := 0
	if w.direct && w.n%block == 0 && aligned(p) {
		n, err := w.f.Write(p[:len(p)&^(block-1)])
		w.n += int64(n)
		done = n
		if err != nil && !refused(err) {
			return done, err
		}
	}
	if done == len(p) {
		return done, nil
	}
	if err := w.buffered(); err != nil {
		return done, err
	}
	n, err := w.f.Write(p[done:])
	w.n += int64(n)
	return done + n, err
}

// buffered ends the direct writing: what comes is of a length or at an address
// for which the disk cannot do it.
func (w *writer) buffered() error {
	if !w.direct {
		return nil
	}
	w.direct = false
	return setDirect(w.f, false)
}

func aligned(p []byte) bool {
	return len(p) >= block && uintptr(unsafe.Pointer(unsafe.SliceData(p)))%block == 0
}
