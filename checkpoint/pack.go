package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// small is below which a piece is stored in a pack, together with others: an
// object of its own would cost more in requests than in bytes.
const small = 1 << 20

// packer collects small pieces, in the order they come, into an object of up to
// a chunk's size. It is used by one goroutine; full packs are sent by others.
type packer struct {
	e       *Engine
	epoch   int
	buf     []byte // room for salt, then the members as they are stored
	members []Chunk
	targets [][]*Chunk // which manifest entries each member is for
	index   map[string]int
	is      func(holding) Chunk // how a manifest says where a chunk is
	coder   *chunk.Coder
}

// add takes one piece. It is in target once the pack that holds it was sent.
func (p *packer) add(hash string, plain []byte, elem chunk.Elem, target *Chunk) {
	size := int64(len(plain))
	if h, ok := p.e.known.at(hash, size); ok {
		*target = p.is(h)
		p.e.reused.Add(size)
		return
	}
	if i, ok := p.index[hash]; ok {
		p.targets[i] = append(p.targets[i], target)
		return
	}
	if p.index == nil {
		p.index, p.buf = map[string]int{}, make([]byte, salt, salt+small)
	}
	data, codec := plain, chunk.Raw
	if p.e.cfg.Compress == CompressOn { // else they are too few bytes to matter
		if out, c := p.coder.Encode(nil, plain, elem); c != chunk.Raw {
			data, codec = out, c
		}
	}
	off := int64(len(p.buf))
	p.buf = p.e.cfg.Key.Seal(p.buf, data, hash, codec)
	c := Chunk{Hash: hash, Size: size, Epoch: p.epoch, Off: off - salt, Codec: string(codec)}
	if n := int64(len(p.buf)) - off; n != size {
		c.Stored = n
	}
	p.index[hash] = len(p.members)
	p.members, p.targets = append(p.members, c), append(p.targets, []*Chunk{target})
}

// full reports whether a piece of so many bytes has to wait for the next pack.
func (p *packer) full(size int64) bool {
	return len(p.members) > 0 && int64(len(p.buf))-salt+size+int64(p.e.cfg.Key.Overhead()) > p.e.cfg.ChunkSize
}

// take returns what was collected and begins anew.
func (p *packer) take() *packer {
	full := *p
	*p = packer{e: p.e, epoch: p.epoch, is: p.is, coder: p.coder}
	return &full
}

// send puts the pack and fills in the targets.
func (p *packer) send(ctx context.Context) error {
	hash, size, err := p.put(ctx)
	if err != nil {
		return err
	}
	for i, c := range p.members {
		c.Pack = hash
		if size == int64(len(p.buf)) {
			c.Off += salt
		}
		h := holding{Chunk: c, packSize: size, proven: true}
		p.e.known.settle(c.Hash, h)
		for _, target := range p.targets[i] {
			*target = p.is(h)
		}
	}
	return nil
}

// put sends the bytes, or finds that an earlier process of this epoch has.
func (p *packer) put(ctx context.Context) (hash string, size int64, err error) {
	data := p.buf[salt:]
	hash, size = p.e.cfg.Key.Name(data), int64(len(data))
	if was, ok := p.e.known.left(hash); ok && (was == size || was < 0) {
		err := p.e.proves(ctx, Chunk{Hash: hash, Size: size, Epoch: p.epoch}, data)
		if err == nil {
			p.e.reused.Add(size)
			return hash, size, nil
		}
		if !proves(err) {
			return "", 0, err
		}
		p.e.known.drop(hash)
	}
	err = p.e.putData(ctx, p.epoch, hash, data)
	if errors.Is(err, ErrExists) {
		hash, err = p.e.putSalted(ctx, p.epoch, p.buf)
		return hash, int64(len(p.buf)), err
	}
	if err != nil {
		p.e.known.doubt(hash)
		return "", 0, fmt.Errorf("sending %d small pieces: %w", len(p.members), err)
	}
	return hash, size, nil
}
