package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// place makes sure that the store has the chunk that lies in b behind head,
// which is called hash, and returns where. Two callers with the same bytes send
// them once. b's content is lost.
func (e *Engine) place(ctx context.Context, t *ticket, hash string, b []byte, elem chunk.Elem, epoch int) (holding, error) {
	h, have, err := e.known.claim(ctx, hash, int64(len(b)-e.head()))
	if have {
		e.reused.Add(h.Size)
	}
	if err != nil || have {
		return h, err
	}
	h, err = e.bring(ctx, t, h, hash, b, elem, epoch)
	e.known.settle(hash, h)
	return h, err
}

// bring proves a chunk that is there, or sends it.
func (e *Engine) bring(ctx context.Context, t *ticket, h holding, hash string, b []byte, elem chunk.Elem, epoch int) (holding, error) {
	plain := b[e.head():]
	if h.Hash != "" && h.Pack == "" { // members of packs are small and sent again
		if err := e.proves(ctx, h.Chunk, plain); err == nil {
			h.proven = true
			e.reused.Add(int64(len(plain)))
			return h, nil
		} else if !proves(err) {
			return holding{}, err
		}
		e.known.drop(hash)
	}
	own := Chunk{Hash: hash, Size: int64(len(plain)), Epoch: epoch}
	if size, ok := e.known.left(hash); ok {
		c, err := e.recognise(ctx, own, size, plain)
		if err == nil {
			e.reused.Add(int64(len(plain)))
			return holding{Chunk: c, proven: true}, nil
		} else if !proves(err) {
			return holding{}, err
		}
		e.known.drop(hash)
	}
	data, codec := e.encode(t, b, hash, elem)
	own.Codec = string(codec)
	if int64(len(data)) != own.Size {
		own.Stored = int64(len(data))
	}
	return e.send(ctx, t, own, data)
}

// send puts a chunk's object. If its name is spent, or taken by one that this
// engine does not rely on because it is damaged, the chunk goes into a pack of
// its own, whose name nobody has.
func (e *Engine) send(ctx context.Context, t *ticket, c Chunk, data []byte) (holding, error) {
	err := e.putData(ctx, c.Epoch, c.Hash, data)
	switch {
	case err == nil:
		return holding{Chunk: c, proven: true}, nil
	case !errors.Is(err, ErrExists):
		e.known.doubt(c.Hash)
		t.lend()
		return holding{}, err
	}
	salted := append(make([]byte, salt, salt+len(data)), data...)
	pack, err := e.putSalted(ctx, c.Epoch, salted)
	if err != nil {
		return holding{}, err
	}
	c.Pack, c.Off = pack, salt
	return holding{Chunk: c, packSize: int64(len(salted)), proven: true}, nil
}

// putData puts a chunk or pack under its name, unless that is spent.
func (e *Engine) putData(ctx context.Context, epoch int, hash string, data []byte) error {
	name := dataName(e.cfg.Tenant, e.cfg.Job, epoch, hash)
	if spent, feared := e.known.isSpent(hash); spent || feared {
		return fmt.Errorf("%w: %s was named by a checkpoint before the last", ErrExists, name)
	}
	return e.put(ctx, name, data)
}

// salt is how many bytes before the members make the name of a pack new.
const salt = 16

// putSalted puts a pack under a name that is not taken yet. data begins with
// room for the salt.
func (e *Engine) putSalted(ctx context.Context, epoch int, data []byte) (hash string, err error) {
	for n := range uint64(1 << 16) {
		binary.BigEndian.PutUint64(data[8:salt], n+1)
		hash = e.cfg.Key.Name(data)
		spent, feared := e.known.isSpent(hash)
		if feared && n == 0 { // a salt that no process of this epoch has used
			binary.BigEndian.PutUint64(data[:8], uint64(time.Now().UnixNano()))
			continue
		}
		if spent {
			continue
		}
		err = e.put(ctx, dataName(e.cfg.Tenant, e.cfg.Job, epoch, hash), data)
		if !errors.Is(err, ErrExists) {
			return hash, err
		}
	}
	return "", err
}

// recognise proves an object of ours of which only the name, and perhaps the
// size, is known: how it was encoded is found out.
func (e *Engine) recognise(ctx context.Context, c Chunk, size int64, plain []byte) (Chunk, error) {
	raw := c.Size + int64(e.cfg.Key.Overhead())
	if size < 0 {
		var err error
		if size, err = e.cfg.Store.Stat(ctx, dataName(e.cfg.Tenant, e.cfg.Job, c.Epoch, c.Hash)); err != nil {
			return c, err
		}
	}
	if size > raw {
		return c, fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, size, raw)
	}
	codecs := []chunk.Codec{chunk.Raw}
	if size != raw {
		codecs = []chunk.Codec{chunk.Planes, chunk.Zstd}
	}
	if size != c.Size {
		c.Stored = size
	}
	var err error
	for _, codec := range codecs {
		c.Codec = string(codec)
		if err = e.proves(ctx, c, plain); err == nil || !proves(err) {
			return c, err
		}
	}
	return c, err
}

// proves reads a chunk's object back and compares it with what it should be. It
// is nil, a proof that it is bad, or what kept the store from answering.
func (e *Engine) proves(ctx context.Context, c Chunk, plain []byte) error {
	if !knownCodec(c.Codec) {
		return fmt.Errorf("%w: codec %s", ErrCorrupt, quote(c.Codec))
	}
	name := dataName(e.cfg.Tenant, e.cfg.Job, c.Epoch, cmp.Or(c.Pack, c.Hash))
	return again(func() error {
		r, err := e.cfg.Store.Get(ctx, name)
		if err != nil {
			return err
		}
		defer r.Close()
		if c.stored() == int64(len(plain)) && c.Codec == "" {
			return equal(r, plain)
		}
		e.proving.Lock() // one at a time: these buffers are beside the gate's
		defer e.proving.Unlock()
		stored, err := exactly(r, make([]byte, c.stored()))
		if err != nil {
			return err
		}
		got, err := e.plainOf(stored, c, &chunk.Coder{}, nil)
		if err == nil && !bytes.Equal(got, plain) {
			err = fmt.Errorf("%w: other bytes than its name says", ErrCorrupt)
		}
		return err
	})
}

// equal compares what r gives with want, to the end.
func equal(r io.Reader, want []byte) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if n > len(want) || !bytes.Equal(buf[:n], want[:n]) {
			return fmt.Errorf("%w: other bytes than its name says", ErrCorrupt)
		}
		want = want[n:]
		switch {
		case errors.Is(err, io.EOF) && len(want) > 0:
			return fmt.Errorf("%w: %d bytes are missing", ErrCorrupt, len(want))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// exactly fills buf from r and makes sure that there is no more.
func exactly(r io.Reader, buf []byte) ([]byte, error) {
	if n, err := io.ReadFull(r, buf); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, n, len(buf))
	} else if err != nil {
		return nil, err
	}
	var one [1]byte
	if n, err := io.ReadFull(r, one[:]); n > 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, len(buf))
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf, nil
}
