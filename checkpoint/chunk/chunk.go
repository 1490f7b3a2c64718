// Package chunk is what happens to the bytes of a checkpoint between a file and
// a store: where a file is cut, what a piece is called, and how it is encoded
// and sealed. Everything here is a pure function of bytes.
//
// A piece is called by the BLAKE3-256 of its plain bytes, keyed for a tenant
// that has a key, so that how it is encoded may differ from one upload to the
// next while what it is does not.
//
// Functions that produce bytes append them to dst, as append does, and return
// the longer slice: with room for the result in dst nothing is allocated for it.
// They keep neither dst nor src, and unless one says otherwise the room in dst
// must not overlap the input.
package chunk

import "io"

// Size is how long pieces are unless a job says otherwise, and MinSize and
// MaxSize what it may say.
const (
	Size    = 4 << 20
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
// data; every other file every size bytes from its beginning. A size that is
// not positive means Size.
//
// Reading only the header, it never fails: a file it does not understand, or
// cannot read, is of Bytes. A safetensors file that is still being written is
// cut where the whole one will be.
func Cut(r io.ReaderAt, fileSize, size int64) []Piece {
	if size <= 0 {
		size = Size
	}
	h, err := readHeader(r, fileSize)
	if err != nil {
		return pieces(nil, 0, fileSize, size, beginning(r, fileSize))
	}
	out := pieces(nil, 0, h.origin, size, Text)
	first := len(out)
	out = pieces(out, h.origin, fileSize, size, Bytes)
	label(out[first:], h.tensors)
	return out
}

// pieces appends those of the bytes from off to end.
func pieces(out []Piece, off, end, size int64, elem Elem) []Piece {
	for ; off < end; off += min(size, end-off) {
		out = append(out, Piece{Off: off, Len: min(size, end-off), Elem: elem})
	}
	return out
}

// beginning tells text from everything else: what tensors a file that does not
// say so holds, Encode sees in each piece.
func beginning(r io.ReaderAt, fileSize int64) Elem {
	var first [512]byte
	n, _ := r.ReadAt(first[:min(int64(len(first)), max(fileSize, 0))], 0)
	if isText(first[:n]) {
		return Text
	}
	return Bytes
}

// label gives each piece the element type that most of its bytes have. Both
// lists are in the file's order.
func label(list []Piece, tensors []Tensor) {
	for i := range list {
		p := &list[i]
		var of [len(elems)]int64
		for len(tensors) > 0 && tensors[0].Off+tensors[0].Len <= p.Off {
			tensors = tensors[1:]
		}
		for _, t := range tensors {
			if t.Off >= p.Off+p.Len {
				break
			}
			of[index(t.Elem)] += min(t.Off+t.Len, p.Off+p.Len) - max(t.Off, p.Off)
		}
		best := 0
		for e, bytes := range of {
			if bytes > of[best] {
				best = e
			}
		}
		p.Elem = elems[best]
	}
}
