package chunk

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/huff0"
)

// The form called planes is one byte of version and then blocks until the end.
// A block is a run of elements of 1, 2 or 4 bytes taken apart by split:
//
//	word   elements (24 bits), width (8 bits)
//	word   for each of width planes: its length (24 bits) and how it is coded (8 bits)
//	bytes  each plane in order
//
// Words are 32 bits, little-endian. Elements wider than a byte come in groups of
// eight. Each block chooses for itself, so tensors of several types, a piece that
// begins inside an element and a tail need no rule of their own. A block is small
// enough to be in a core's own cache throughout.
const (
	planesVersion = 1
	blockElems    = 1 << 16
	blockMax      = 4 * blockElems
)

// How a plane is coded.
const (
	planeRaw  = iota // as it is
	planeRun         // one byte, repeated
	planeHuff        // huff0's table and four streams
)

var errPlanes = errors.New("not in planes form")

// appendPlanes appends the form of src to dst, or returns nil once it is clear
// that the result would be longer than limit.
func (c *Coder) appendPlanes(dst, src []byte, limit int) []byte {
	if float64(len(src))*expect(src) > float64(limit) {
		return nil
	}
	end := len(dst) + limit
	dst = append(dst, planesVersion)
	for len(src) > 0 && dst != nil {
		s := look(src[:min(len(src), blockMax)])
		n := min(len(src)/s.width, blockElems)
		if s.width > 1 {
			n &^= group - 1
		}
		dst = c.appendBlock(dst, src[:n*s.width], s, end)
		src = src[n*s.width:]
	}
	return dst
}

// appendBlock appends one block, or returns nil when dst would be longer than end.
func (c *Coder) appendBlock(dst, src []byte, s shape, end int) []byte {
	if s.coded == 0 { // no need to take it apart
		if len(dst)+8+len(src) > end {
			return nil
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src))|1<<24)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src))|planeRaw<<24)
		return append(dst, src...)
	}
	n := len(src) / s.width
	planes := c.scratch(s.width)
	split(&planes, src, s.width)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n)|uint32(s.width)<<24)
	words := len(dst)
	dst = append(dst, make([]byte, 4*s.width)...)
	for i := range s.width {
		kind, plane := planeRaw, planes[i][:n]
		if s.coded&(1<<i) != 0 {
			kind, plane = c.codePlane(plane)
		}
		if len(dst)+len(plane) > end {
			return nil
		}
		binary.LittleEndian.PutUint32(dst[words+4*i:], uint32(len(plane))|uint32(kind)<<24)
		dst = append(dst, plane...)
	}
	return dst
}

// codePlane returns a plane in the shortest form, valid until the next call.
func (c *Coder) codePlane(plane []byte) (kind int, coded []byte) {
	if isRun(plane) {
		return planeRun, plane[:1]
	}
	c.encode.Reuse = huff0.ReusePolicyNone // every block has its own table
	c.encode.WantLogLess = 5               // less than a thirty-second is not worth decoding
	coded, _, err := huff0.Compress4X(plane, &c.encode)
	if err != nil { // does not compress
		return planeRaw, plane
	}
	return planeHuff, coded
}

// scratch is room for the planes of a block.
func (c *Coder) scratch(width int) (planes [4][]byte) {
	for i := range width {
		if c.planes[i] == nil {
			c.planes[i] = make([]byte, blockElems)
		}
		planes[i] = c.planes[i]
	}
	return planes
}

// decodePlanes writes the plain bytes over the whole of dst.
func (c *Coder) decodePlanes(dst, src []byte) error {
	if len(src) == 0 || src[0] != planesVersion {
		return errPlanes
	}
	src = src[1:]
	for len(dst) > 0 {
		var err error
		if dst, src, err = c.decodeBlock(dst, src); err != nil {
			return err
		}
	}
	if len(src) > 0 {
		return fmt.Errorf("%w: %d bytes after the end", errPlanes, len(src))
	}
	return nil
}

// decodeBlock writes the block that src begins with to the beginning of dst and
// returns what follows in both.
func (c *Coder) decodeBlock(dst, src []byte) (restDst, restSrc []byte, err error) {
	word, src, ok := cutWord(src)
	n, width := int(word&0xffffff), int(word>>24)
	if !ok || width != 1 && width != 2 && width != 4 || width > 1 && n%group != 0 ||
		n == 0 || n > blockElems || n*width > len(dst) {
		return nil, nil, fmt.Errorf("%w: block of %d elements of %d bytes", errPlanes, n, width)
	}
	var words [4]uint32
	for i := range width {
		if words[i], src, ok = cutWord(src); !ok {
			return nil, nil, fmt.Errorf("%w: cut short", errPlanes)
		}
	}
	planes := c.scratch(width)
	for i := range width {
		length := int(words[i] & 0xffffff)
		if length > len(src) {
			return nil, nil, fmt.Errorf("%w: cut short", errPlanes)
		}
		if planes[i], err = c.decodePlane(planes[i][:n], src[:length], words[i]>>24); err != nil {
			return nil, nil, err
		}
		src = src[length:]
	}
	join(dst[:n*width], &planes, width)
	return dst[n*width:], src, nil
}

// decodePlane returns the bytes of a plane: room, filled, or src itself.
func (c *Coder) decodePlane(room, src []byte, kind uint32) ([]byte, error) {
	switch {
	case kind == planeRaw && len(src) == len(room):
		return src, nil
	case kind == planeRun && len(src) == 1:
		return fill(room, src[0]), nil
	case kind == planeHuff:
		_, streams, err := huff0.ReadTable(src, &c.decode)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errPlanes, err)
		}
		if _, err = c.decode.Decoder().Decompress4X(room[:0:len(room)], streams); err != nil {
			return nil, fmt.Errorf("%w: %w", errPlanes, err)
		}
		return room, nil
	}
	return nil, fmt.Errorf("%w: plane of %d bytes for %d elements", errPlanes, len(src), len(room))
}

func cutWord(src []byte) (word uint32, rest []byte, ok bool) {
	if len(src) < 4 {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint32(src), src[4:], true
}

// extend makes dst n bytes longer without clearing them, and moves it only when
// there is no room, to exactly as much as it takes.
func extend(dst []byte, n int) []byte {
	if n <= cap(dst)-len(dst) {
		return dst[:len(dst)+n]
	}
	out := make([]byte, len(dst)+n)
	copy(out, dst)
	return out
}
