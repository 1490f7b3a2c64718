package chunk

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Tensor is one entry of a safetensors header.
type Tensor struct {
	Name  string
	DType string // as the header has it: "BF16", "F8_E4M3"
	Elem  Elem   // Bytes for what has no codec of its own
	Shape []int64
	Off   int64 // in the file, not in the data
	Len   int64
}

// Tensors returns what the header of a safetensors file of the given size says
// is in it, in the order of the data. An error, in words for people, means that
// no loader would take the file: it is cut short, has a tail, its tensors overlap
// or leave gaps, or a shape does not fit its bytes. Nothing but the header is
// read. The format is described in the safetensors repository's README.
func Tensors(r io.ReaderAt, size int64) ([]Tensor, error) {
	h, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	if h.end != size {
		return nil, fmt.Errorf("%d bytes of %d", size, h.end)
	}
	return h.tensors, nil
}

// maxHeader is what the format's own reader accepts. maxTensors bounds the
// memory a header can claim; the largest models have tens of thousands.
const (
	maxHeader  = 100_000_000
	maxTensors = 1 << 18
)

// header is a safetensors file as its first bytes describe it.
type header struct {
	origin  int64 // where the data begin
	end     int64 // where they end in a file that is whole
	tensors []Tensor
}

func readHeader(r io.ReaderAt, size int64) (header, error) {
	var length [8]byte
	if size < int64(len(length))+2 {
		return header{}, fmt.Errorf("%d bytes are too short for a header", size)
	}
	if n, err := r.ReadAt(length[:], 0); n < len(length) {
		return header{}, fmt.Errorf("reading the header's length: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return header{}, fmt.Errorf("header of %d bytes in a file of %d", n, size)
	}
	h := header{origin: 8 + int64(n)}
	var err error
	if h.tensors, err = readEntries(io.NewSectionReader(r, 8, int64(n))); err != nil {
		return header{}, err
	}
	return h, h.place()
}

// readEntries reads the header's object entry by entry, so that it is never in
// memory as a whole.
func readEntries(r io.Reader) ([]Tensor, error) {
	dec := json.NewDecoder(r)
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the header is not a JSON object")
	}
	var out []Tensor
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("the header does not parse: %w", err)
		}
		name, _ := key.(string)
		if name == "__metadata__" {
			if err := dec.Decode(&struct{}{}); err != nil {
				return nil, fmt.Errorf("the header's metadata do not parse: %w", err)
			}
			continue
		}
		t, err := readEntry(dec, name)
		if err != nil {
			return nil, fmt.Errorf("tensor %.200q: %w", name, err)
		}
		if len(out) == maxTensors {
			return nil, fmt.Errorf("more than %d tensors", maxTensors)
		}
		out = append(out, t)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("the header does not parse: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("the header goes on after its end")
	}
	return out, nil
}

func readEntry(dec *json.Decoder, name string) (Tensor, error) {
	var e struct {
		DType   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := dec.Decode(&e); err != nil {
		return Tensor{}, err
	}
	if len(e.Offsets) != 2 {
		return Tensor{}, fmt.Errorf("%d data_offsets, want 2", len(e.Offsets))
	}
	if e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > 1<<60 {
		return Tensor{}, fmt.Errorf("offsets %v are not a range", e.Offsets)
	}
	t := Tensor{Name: name, DType: e.DType, Elem: elemOf(e.DType), Shape: e.Shape,
		Off: e.Offsets[0], Len: e.Offsets[1] - e.Offsets[0]}
	if want, known := t.bytes(); known && want != t.Len {
		return Tensor{}, fmt.Errorf("%s of shape %v does not take %d bytes", t.DType, t.Shape, t.Len)
	}
	return t, nil
}

// bytes is how long the tensor is by its shape; false when its type is not known
// here, which a newer writer's may be. A shape that no file could hold is -1.
func (t Tensor) bytes() (int64, bool) {
	bits, ok := dtypeBits(t.DType)
	if !ok {
		return 0, false
	}
	product := bits
	for _, n := range t.Shape {
		if n < 0 || n > 0 && product > 1<<62/n {
			return -1, true
		}
		product *= n
	}
	if product%8 != 0 {
		return -1, true
	}
	return product / 8, true
}

// place turns the tensors' offsets in the data into offsets in the file, in
// order, and makes sure that they cover the data without gaps.
func (h *header) place() error {
	slices.SortFunc(h.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Len, b.Len), cmp.Compare(a.Name, b.Name))
	})
	h.end = h.origin
	for i := range h.tensors {
		t := &h.tensors[i]
		t.Off += h.origin
		if t.Off != h.end {
			return fmt.Errorf("tensor %.200q begins at %d, where the one before it ends at %d", t.Name, t.Off, h.end)
		}
		h.end += t.Len
	}
	return nil
}

// elems are the types a piece can be of; the first wins a tie.
var elems = [...]Elem{Bytes, BF16, F16, F32, Text}

func index(e Elem) int { return max(slices.Index(elems[:], e), 0) }

func elemOf(dtype string) Elem {
	switch dtype {
	case "BF16":
		return BF16
	case "F16":
		return F16
	case "F32":
		return F32
	}
	return Bytes
}

func dtypeBits(dtype string) (int64, bool) {
	switch dtype {
	case "F4":
		return 4, true
	case "F6_E2M3", "F6_E3M2":
		return 6, true
	case "BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0":
		return 8, true
	case "I16", "U16", "F16", "BF16":
		return 16, true
	case "I32", "U32", "F32":
		return 32, true
	case "I64", "U64", "F64", "C64":
		return 64, true
	}
	return 0, false
}
