package chunk

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// Codec is how a piece's bytes are written down. It is recorded with each piece.
type Codec string

const (
	Raw    Codec = ""
	Planes Codec = "planes" // the plane of the exponents' bytes in Huffman code, the rest as it is
	Zstd   Codec = "zstd"
)

// Coder encodes and decodes with scratch memory of its own, at most two
// megabytes, so that work after the first piece allocates nothing. The zero
// Coder is ready. It is for one goroutine at a time.
type Coder struct {
	planes [4][]byte
	encode huff0.Scratch
	decode huff0.Scratch
	zenc   *zstd.Encoder
	zdec   *zstd.Decoder
}

// tiny is what is never encoded: small files are packed, and headers of codecs
// would be most of it.
const tiny = 64

// Encode is Coder.Encode with scratch memory for this call alone.
func Encode(dst, src []byte, elem Elem) ([]byte, Codec) { return new(Coder).Encode(dst, src, elem) }

// Decode is Coder.Decode with scratch memory for this call alone.
func Decode(dst, src []byte, codec Codec, size int) ([]byte, error) {
	return new(Coder).Decode(dst, src, codec, size)
}

// Encode appends src in the codec that suits it to dst. Raw means that nothing
// is gained (less than a twentieth), and nothing was appended, although the room
// in dst may have been written to. Room for len(src) is always enough.
//
// elem is a hint that is not trusted: samples of src decide. Bytes that are not
// text and of which no plane compresses take microseconds, so that asking costs
// nothing.
func (c *Coder) Encode(dst, src []byte, elem Elem) ([]byte, Codec) {
	if len(src) < tiny || len(src) > MaxSize {
		return dst, Raw
	}
	limit := len(src) - (len(src)+19)/20
	codec := Planes
	var out []byte
	if (elem == Text || elem == Bytes) && readsAsText(src) {
		out, codec = c.appendZstd(dst, src), Zstd
	} else {
		out = c.appendPlanes(dst, src, limit)
	}
	if out == nil || len(out)-len(dst) > limit {
		return dst, Raw
	}
	return out, codec
}

// Decode appends the plain bytes, of which there are exactly size, to dst.
// Bytes that no Encode wrote are an error, never a panic and never more memory
// than size and the Coder's own. After an error the room in dst may have been
// written to; what is returned is dst as it was.
func (c *Coder) Decode(dst, src []byte, codec Codec, size int) ([]byte, error) {
	if size < 0 || codec != Raw && size > MaxSize {
		return dst, fmt.Errorf("a piece of %d bytes: want at most %d", size, MaxSize)
	}
	switch codec {
	case Raw:
		if len(src) != size {
			return dst, fmt.Errorf("%d bytes, want %d", len(src), size)
		}
		return append(dst, src...), nil
	case Planes:
		out := extend(dst, size)
		if err := c.decodePlanes(out[len(dst):], src); err != nil {
			return dst, err
		}
		return out, nil
	case Zstd:
		out, err := c.decodeZstd(extend(dst, size)[:len(dst)], src, size)
		if err != nil {
			return dst, fmt.Errorf("not in zstd form: %w", err)
		}
		return out, nil
	}
	return dst, fmt.Errorf("codec %.20q is not known: upgrade", codec)
}

// The zstd coders are made when there is text, of which there is little: small
// and fast is better than the last tenth. They have no goroutines of their own.
// The piece's name is its checksum.

func (c *Coder) appendZstd(dst, src []byte) []byte {
	if c.zenc == nil {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil // constant options: a bug, which the tests would show
		}
		c.zenc = enc
	}
	out := c.zenc.EncodeAll(src, dst)
	// A few bytes that do not compress make zstd ask for more room for a while.
	return append(dst, out[len(dst):]...)
}

func (c *Coder) decodeZstd(dst, src []byte, size int) ([]byte, error) {
	if c.zdec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(MaxSize), zstd.IgnoreChecksum(true))
		if err != nil {
			return nil, err
		}
		c.zdec = dec
	}
	end := len(dst) + size
	out, err := c.zdec.DecodeAll(src, dst[:len(dst):end])
	switch {
	case err != nil:
		return nil, err
	case len(out) != end:
		return nil, errors.New("fewer bytes than were promised")
	}
	return out, nil
}
