package checkpoint

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// Compression says whether chunks are encoded before they are stored.
type Compression string

const (
	// CompressAuto encodes only where that shortens the upload: see chunk.Worth.
	CompressAuto Compression = ""
	CompressOff  Compression = "off"
	// CompressOn encodes whatever becomes smaller.
	CompressOn Compression = "on"
)

func (c Compression) validate() error {
	switch c {
	case CompressAuto, CompressOff, CompressOn:
		return nil
	}
	return fmt.Errorf("checkpoint: compression %s, want off, on or nothing for automatic", quote(string(c)))
}

// gains is what encoding was measured to bring, by what chunks consist of, as
// seen in their bytes. chunk.Worth decides with it.
type gains struct {
	mu   sync.Mutex
	seen map[chunk.Elem]*gain
}

type gain struct {
	ratio float64 // of what is stored to what is plain; 1 when nothing is gained
	speed float64 // bytes a second and core
	asked int
}

// An encoding is measured on so many bytes of one chunk in so many.
const (
	sampleBytes = 1 << 20
	sampleEvery = 32
)

// of returns what is known about elem, and whether it is time to measure it.
func (g *gains) of(elem chunk.Elem) (known gain, measure bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		g.seen = map[chunk.Elem]*gain{}
	}
	if g.seen[elem] == nil {
		g.seen[elem] = &gain{}
	}
	of := g.seen[elem]
	of.asked++
	return *of, of.asked%sampleEvery == 1
}

// learn takes one measurement.
func (g *gains) learn(elem chunk.Elem, plain, stored int, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.seen[elem]
	if of == nil || plain == 0 {
		return
	}
	ratio, speed := float64(stored)/float64(plain), float64(plain)/max(took.Seconds(), 1e-6)
	if of.speed == 0 {
		of.ratio, of.speed = ratio, speed
	}
	of.ratio += 0.3 * (ratio - of.ratio)
	of.speed += 0.3 * (speed - of.speed)
}

// pays decides whether a chunk is encoded: with the upload's rate as it was
// measured, or as it is limited, and the codec's as it was measured on chunks
// like this one.
func (e *Engine) pays(t *ticket, plain []byte, elem chunk.Elem) bool {
	switch e.cfg.Compress {
	case CompressOff:
		return false
	case CompressOn:
		return true
	}
	if elem == chunk.Bytes {
		elem = chunk.Guess(plain[:min(len(plain), 64<<10)])
	}
	known, measure := e.gain.of(elem)
	if measure {
		sample := plain[:min(len(plain), sampleBytes)]
		start := time.Now()
		out, codec := t.coder().Encode(make([]byte, 0, len(sample)), sample, elem)
		n := len(out)
		if codec == chunk.Raw {
			n = len(sample)
		}
		e.gain.learn(elem, len(sample), n, time.Since(start))
	}
	link := e.link.rate()
	if limit := e.limiter.Limit(); limit != rate.Inf && (link == 0 || float64(limit) < link) {
		link = float64(limit)
	}
	return chunk.Worth(int64(len(plain)), link, known.speed*float64(e.cfg.Cores), known.ratio)
}

// head is how many bytes before a chunk's in its buffer are kept free, to seal
// it in place.
func (e *Engine) head() int {
	if e.cfg.Key == (chunk.Key{}) {
		return 0
	}
	return chunk.SealPrefix
}

// encode returns what is stored for the chunk that lies in b behind head, and in
// which codec. It may be in b, whose content is lost then.
func (e *Engine) encode(t *ticket, b []byte, hash string, elem chunk.Elem) ([]byte, chunk.Codec) {
	head := e.head()
	plain, codec := b[head:], chunk.Raw
	if e.pays(t, plain, elem) && (e.cfg.Compress == CompressOn || t.more(int64(len(plain)))) {
		start := time.Now()
		out, c := t.coder().Encode(t.buffer(int64(len(plain)) + sealing)[:head], plain, elem)
		if c != chunk.Raw {
			b, codec = out, c
		}
		e.gain.learn(elem, len(plain), len(b)-head, time.Since(start))
	}
	if head == 0 {
		return b, codec
	}
	return e.cfg.Key.Seal(b[:0], b[head:], hash, codec), codec
}

// plainOf opens, in place, and decodes what is stored for c. What it returns is
// not yet known to be right.
func (e *Engine) plainOf(stored []byte, c Chunk, coder *chunk.Coder, dst []byte) ([]byte, error) {
	if e.cfg.Key != (chunk.Key{}) {
		if len(stored) < e.cfg.Key.Overhead() {
			return nil, fmt.Errorf("%w: %d bytes are no sealed chunk", ErrCorrupt, len(stored))
		}
		var err error
		stored, err = e.cfg.Key.Open(stored[chunk.SealPrefix:chunk.SealPrefix], stored, c.Hash, chunk.Codec(c.Codec))
		if err != nil {
			return nil, wrap(ErrCorrupt, err)
		}
	}
	if chunk.Codec(c.Codec) == chunk.Raw {
		return stored, nil
	}
	plain, err := coder.Decode(dst, stored, chunk.Codec(c.Codec), int(c.Size))
	if err != nil {
		return nil, wrap(ErrCorrupt, err)
	}
	return plain, nil
}
