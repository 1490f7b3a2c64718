package trainer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
)

const (
	contextLen = 12 // characters the model sees
	embedding  = 24 // numbers that stand for one character
	batchSize  = 8  // examples in a step, a multiple of the four that a kernel takes at once
	inputs     = contextLen * embedding
)

// shape is what the size of a model depends on.
type shape struct {
	vocab  int
	hidden int
}

// tensor names a stretch of a flat slice of numbers.
type tensor struct {
	name string
	dims []int
}

func (t tensor) size() int {
	n := 1
	for _, d := range t.dims {
		n *= d
	}
	return n
}

// tensors lists the model's parts in the order in which they lie in memory, in
// the file and under the digest. Dimensions are (out, in), as in PyTorch.
func (s shape) tensors() []tensor {
	return []tensor{
		{"embedding.weight", []int{s.vocab, embedding}},
		{"hidden.weight", []int{s.hidden, inputs}},
		{"hidden.bias", []int{s.hidden}},
		{"output.weight", []int{s.vocab, s.hidden}},
		{"output.bias", []int{s.vocab}},
	}
}

func (s shape) size() int {
	n := 0
	for _, t := range s.tensors() {
		n += t.size()
	}
	return n
}

// params gives the parts of a flat slice their names: of the weights, or of
// their gradient.
type params struct {
	flat      []float32
	embed     []float32
	hidden    []float32
	hiddenOff []float32
	output    []float32
	outputOff []float32
}

func (s shape) over(flat []float32) params {
	p := params{flat: flat}
	views := []*[]float32{&p.embed, &p.hidden, &p.hiddenOff, &p.output, &p.outputOff}
	for i, t := range s.tensors() {
		n := t.size()
		*views[i], flat = flat[:n:n], flat[n:]
	}
	return p
}

// initial returns the weights a run with this seed begins with: uniform, each
// layer scaled by the number of its inputs, biases zero.
func (s shape) initial(seed uint64) params {
	p := s.over(make([]float32, s.size()))
	r := stream(mix(seed))
	fill := func(w []float32, limit float64) {
		for i := range w {
			w[i] = r.symmetric(float32(limit))
		}
	}
	fill(p.embed, 1)
	fill(p.hidden, 1/math.Sqrt(inputs))
	fill(p.output, 1/math.Sqrt(float64(s.hidden)))
	return p
}

// digest is the SHA-256 of the numbers as little-endian float32, in hex. buf is
// scratch space; the one to use from now on is returned.
func digest(flat []float32, buf []byte) (string, []byte) {
	buf = appendFloats(buf[:0], flat)
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:]), buf
}

// appendFloats appends the numbers as little-endian float32.
func appendFloats(buf []byte, flat []float32) []byte {
	at := len(buf)
	buf = slices.Grow(buf, 4*len(flat))[:at+4*len(flat)]
	rest := buf[at:]
	for _, v := range flat {
		binary.LittleEndian.PutUint32(rest, math.Float32bits(v))
		rest = rest[4:]
	}
	return buf
}
