package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// sending brings the content of files into the store. One goroutine walks the
// files, reads what is small and waits at the gate for what is large; each large
// piece is read, hashed and put by a goroutine of its own. So each byte is read
// and hashed once, on the buffer that is sent.
type sending struct {
	e     *Engine
	root  *os.Root
	epoch int
	trust bool // in the cache
	// early: the tree is still being written. Only large pieces are sent, and a
	// file that is not still is left for later.
	early bool
	pack  packer
	buf   []byte // for small pieces

	mu    sync.Mutex
	packs map[objectID]Pack // that chunks of these files lie in, new and old

	ctx    context.Context // of the goroutines
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
}

func newSending(ctx context.Context, e *Engine, root *os.Root, epoch int, trust bool) *sending {
	s := &sending{e: e, root: root, epoch: epoch, trust: trust, packs: map[objectID]Pack{}}
	s.pack = packer{e: e, epoch: epoch, is: s.is, coder: &chunk.Coder{}}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// all sends files, in order, until one fails, and returns that first failure.
func (s *sending) all(files []*found) error {
	defer s.cancel(nil)
	s.e.gate.begin()
	defer s.e.gate.end()
	var sum int64
	for _, f := range files {
		sum += f.Size
	}
	left := &atomic.Int64{}
	left.Store(sum)
	s.e.left.Add(sum)
	for _, f := range files {
		if err := s.file(f, left); err != nil {
			s.failed(f, err)
		}
		if s.ctx.Err() != nil {
			break
		}
	}
	if err := s.flush(); err != nil {
		s.fail(err)
	}
	s.work.Wait()
	s.e.left.Add(-left.Load())
	return context.Cause(s.ctx)
}

// fail ends the sending. Only the first failure counts.
func (s *sending) fail(err error) { s.cancel(err) }

// failed ends it for what happened with one file, unless that may happen while
// the tree is being written.
func (s *sending) failed(f *found, err error) {
	if s.early && (errors.Is(err, ErrChanged) || errors.Is(err, ErrVanished) || errors.Is(err, fs.ErrPermission)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f.unsteady = true
		return
	}
	s.fail(fmt.Errorf("file %s: %w", quote(f.Path), err))
}

// file sends what the store does not have of one file.
func (s *sending) file(f *found, left *atomic.Int64) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if f.Size == 0 {
		return nil
	}
	var pieces []piece
	if s.trust {
		var ok bool
		if pieces, ok = s.e.cache.get(f.info); ok && s.have(f, pieces) {
			s.e.reused.Add(f.Size)
			s.took(left, f.Size)
			return nil
		}
	}
	began := clock()
	file, err := openSame(s.root, *f)
	if err != nil {
		return err
	}
	r := &reading{s: s, f: f, file: file, began: began, was: pieces, left: left}
	r.open.Store(1)
	defer r.done()
	return r.pieces()
}

// is returns a holding as the manifest says it, and notes its pack.
func (s *sending) is(h holding) Chunk {
	c := h.chunkOf(s.epoch)
	if c.Pack != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.packs[objectID{c.Epoch, c.Pack}] = Pack{Hash: c.Pack, Size: h.packSize, Epoch: c.Epoch}
	}
	return c
}

// have fills in where a file is whose pieces are known, if the store has all.
func (s *sending) have(f *found, pieces []piece) bool {
	at := make([]holding, len(pieces))
	for i, p := range pieces {
		at[i].Chunk.Size = p.size
		if p.hash == "" {
			continue
		}
		var ok bool
		if at[i], ok = s.e.known.at(p.hash, p.size); !ok {
			return false
		}
	}
	f.Chunks = make([]Chunk, len(at))
	for i, h := range at {
		f.Chunks[i] = s.is(h)
	}
	return true
}

func (s *sending) took(left *atomic.Int64, n int64) {
	left.Add(-n)
	s.e.left.Add(-n)
}

// flush sends the small pieces that were collected.
func (s *sending) flush() error {
	if len(s.pack.members) == 0 {
		return nil
	}
	p := s.pack.take()
	t, err := s.e.gate.enter(s.ctx, s.e.cfg.ChunkSize)
	if err != nil {
		return err
	}
	s.work.Go(func() {
		defer t.close()
		if err := p.send(s.ctx); err != nil {
			s.fail(err)
		}
	})
	return nil
}
