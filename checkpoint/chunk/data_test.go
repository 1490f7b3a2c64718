package chunk

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// The data of these tests look like what training writes.

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x5f)) }

// bf16s are n weights from a normal distribution, as after training.
func bf16s(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, 2*n)
	for range n {
		out = binary.LittleEndian.AppendUint16(out, bf16(float32(r.NormFloat64()*0.02)))
	}
	return out
}

func bf16(f float32) uint16 {
	b := math.Float32bits(f)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// f16s are the same in half precision.
func f16s(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, 2*n)
	for range n {
		b := math.Float32bits(float32(r.NormFloat64() * 0.02))
		e := int(b>>23&0xff) - 127 + 15
		h := uint16(b >> 16 & 0x8000)
		if e > 0 {
			h |= uint16(e)<<10 | uint16(b>>13&0x3ff)
		}
		out = binary.LittleEndian.AppendUint16(out, h)
	}
	return out
}

// f32s are first moments: normal, with a scale of its own for each row.
func f32s(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, 4*n)
	for i := range n {
		scale := 1e-4 * (1 + float64(i/4096%7))
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(r.NormFloat64()*scale)))
	}
	return out
}

// squares are second moments: positive, and over many exponents.
func squares(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, 4*n)
	for range n {
		g := r.NormFloat64() * 1e-4
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(g*g)))
	}
	return out
}

// upcast are float32 that were bf16 before.
func upcast(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, 4*n)
	for range n {
		out = append(out, 0, 0)
		out = binary.LittleEndian.AppendUint16(out, bf16(float32(r.NormFloat64())))
	}
	return out
}

// fp8s are e4m3, scaled to use the range.
func fp8s(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		b := math.Float32bits(float32(r.NormFloat64() * 64))
		e := int(b>>23&0xff) - 127 + 7
		if e > 0 && e < 16 {
			out[i] = byte(b>>24&0x80) | byte(e)<<3 | byte(b>>20&7)
		}
	}
	return out
}

func noise(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// jsonText is like a tokenizer's vocabulary.
func jsonText(r *rand.Rand, n int) []byte {
	out := []byte("{\n")
	for i := 0; len(out) < n; i++ {
		out = append(out, "    \"\u0120"...)
		for range 2 + r.IntN(8) {
			out = append(out, "etaoinshrdlucm"[r.IntN(14)])
		}
		out = append(out, "\": "...)
		out = append(out, byte('1'+i%9), byte('0'+i/9%10), ',', '\n')
	}
	return out[:n]
}

func zeros(n int) []byte { return make([]byte, n) }
