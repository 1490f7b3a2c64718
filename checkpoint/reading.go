package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// reading is one file that is being read, by several goroutines.
type reading struct {
	s     *sending
	f     *found
	file  *os.File
	began int64        // before the file was opened
	open  atomic.Int32 // who is not done with it
	bad   atomic.Bool  // not all of it was read
	was   []piece      // what the file had when it was read before, if that is known
	got   []piece
	left  *atomic.Int64
}

// pieces cuts the file and has every piece sent.
func (r *reading) pieces() error {
	cut, err := r.cut()
	if err != nil {
		r.bad.Store(true)
		return err
	}
	r.got, r.f.Chunks = make([]piece, len(cut)), make([]Chunk, len(cut))
	for i, p := range cut {
		r.got[i].size, r.f.Chunks[i].Size = p.Len, p.Len
		switch {
		case p.hole || r.same(i, p.Len):
			r.s.took(r.left, p.Len)
		case p.Len < small:
			err = r.small(i, p.Piece)
		default:
			err = r.large(i, p.Piece)
		}
		if err != nil {
			r.bad.Store(true)
			return err
		}
	}
	return nil
}

// same fills in where a piece is that was read before and that the store has.
func (r *reading) same(i int, size int64) bool {
	if i >= len(r.was) || r.was[i].size != size {
		r.was = nil // it was cut in another way
		return false
	}
	hash := r.was[i].hash
	if hash == "" {
		return true
	}
	h, ok := r.s.e.known.at(hash, size)
	if !ok {
		return false
	}
	r.s.e.reused.Add(size)
	r.got[i].hash, r.f.Chunks[i] = hash, r.s.is(h)
	return true
}

// span is a piece to be sent, or a hole of any length.
type span struct {
	chunk.Piece
	hole bool
}

// cut returns the file's pieces in order. Pieces that lie in a hole are joined
// to one.
func (r *reading) cut() ([]span, error) {
	whole := chunk.Cut(r.file, r.f.Size, r.s.e.cfg.ChunkSize)
	if r.f.Size < small { // however it would be cut, it goes into a pack
		whole = []chunk.Piece{{Len: r.f.Size, Elem: whole[len(whole)-1].Elem}}
	}
	out := make([]span, 0, len(whole))
	if stored(r.f.info) == r.f.Size {
		for _, p := range whole {
			out = append(out, span{p, false})
		}
		return out, nil
	}
	from, to := data(r.file, 0, r.f.Size)
	for _, p := range whole {
		for to <= p.Off && from < r.f.Size {
			from, to = data(r.file, p.Off, r.f.Size)
		}
		hole := from >= p.Off+p.Len
		if last := len(out) - 1; hole && last >= 0 && out[last].hole {
			out[last].Len += p.Len
			continue
		}
		out = append(out, span{p, hole})
	}
	return out, nil
}

// small reads a piece for the pack.
func (r *reading) small(i int, p chunk.Piece) error {
	s := r.s
	if s.buf == nil {
		s.buf = make([]byte, small)
	}
	buf := s.buf[:p.Len]
	if err := r.read(buf, p.Off); err != nil {
		return err
	}
	s.took(r.left, p.Len)
	if zeros(buf) {
		return nil
	}
	if s.early {
		r.got[i].hash = s.e.cfg.Key.Name(buf)
		return nil
	}
	if s.pack.full(p.Len) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	r.got[i].hash = s.e.cfg.Key.Name(buf)
	s.pack.add(r.got[i].hash, buf, p.Elem, &r.f.Chunks[i])
	return nil
}

// large has a piece read and sent beside others.
func (r *reading) large(i int, p chunk.Piece) error {
	e := r.s.e
	bytes := e.gate.room(p.Len)
	if e.cfg.Compress == CompressOn {
		bytes *= 2
	}
	t, err := e.gate.enter(r.s.ctx, bytes)
	if err != nil {
		return err
	}
	r.open.Add(1)
	r.s.work.Go(func() {
		defer t.close()
		if err := r.piece(t, i, p); err != nil {
			r.bad.Store(true)
			r.s.failed(r.f, err)
		}
		r.done()
	})
	return nil
}

func (r *reading) piece(t *ticket, i int, p chunk.Piece) error {
	head := int64(r.s.e.head())
	b := t.buffer(p.Len + sealing)[:head+p.Len]
	buf := b[head:]
	if err := r.read(buf, p.Off); err != nil {
		return err
	}
	if zeros(buf) {
		r.s.took(r.left, p.Len)
		return nil
	}
	hash := r.s.e.cfg.Key.Name(buf)
	h, err := r.s.e.place(r.s.ctx, t, hash, b, p.Elem, r.s.epoch)
	if err != nil {
		return err
	}
	r.s.took(r.left, p.Len)
	r.got[i].hash, r.f.Chunks[i] = hash, r.s.is(h)
	return nil
}

// read fills buf from off. A file that ends before is being rewritten.
func (r *reading) read(buf []byte, off int64) error {
	if err := r.s.ctx.Err(); err != nil {
		return err
	}
	n, err := r.file.ReadAt(buf, off)
	r.s.e.counters.read.Add(int64(n))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrap(ErrChanged, io.ErrUnexpectedEOF)
	}
	return err
}

// done closes the file when everybody is done with it, makes sure that it is
// still what was found, and remembers what was read.
func (r *reading) done() {
	if r.open.Add(-1) > 0 {
		return
	}
	defer r.file.Close()
	if r.bad.Load() {
		return
	}
	info, err := r.file.Stat()
	if err == nil {
		err = r.f.same(info)
	}
	if err != nil {
		r.s.failed(r.f, err)
		return
	}
	if r.still(info) && keepsTime(r.file) {
		r.s.e.cache.put(info, r.began, r.got)
	}
}

// still reports whether not even the time of status change moved since the file
// was found.
func (r *reading) still(info fs.FileInfo) bool {
	was, ok := stampOf(r.f.info)
	now, _ := stampOf(info)
	return ok && was == now
}

// zeros reports whether all bytes are zero.
func zeros(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(nought))
		if string(b[:n]) != nought[:n] {
			return false
		}
		b = b[n:]
	}
	return true
}

// nought is a run of zeros to compare with.
var nought = string(make([]byte, 4096))
