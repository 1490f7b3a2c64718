package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// The data set: what a full fine-tune of a small model writes. Weights are
// bf16 drawn from N(0, 0.02), moments fp32, and beside them what a trainer adds.
const (
	mib          = 1 << 20
	weightFiles  = 8
	weightBytes  = 192 * mib
	momentFiles  = 4
	momentBytes  = 384 * mib
	scatteredLen = 8 * mib
	scattered    = 20
)

// changedBytes is how much of the data set differs after change: one file of
// weights, one and a half of moments, and twenty ranges at odd places.
const changedBytes = weightBytes + momentBytes + momentBytes/2 + scattered*scatteredLen

// table has every value a generator can draw: sampling it is fast enough not to
// be what the benchmark waits for.
type table [1 << 16]float32

func newTable(r *rand.Rand, sigma float64) *table {
	t := new(table)
	for i := range t {
		t[i] = float32(r.NormFloat64() * sigma)
	}
	return t
}

// bf16 fills b with elements of bf16, f32 with elements of fp32 whose low bits
// are noise, as those of a trained model are.
func (t *table) bf16(r *rand.Rand, b []byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		x := r.Uint64()
		for k := range 4 {
			v := math.Float32bits(t[uint16(x>>(16*k))])
			binary.LittleEndian.PutUint16(b[i+2*k:], uint16(v>>16))
		}
	}
}

func (t *table) f32(r *rand.Rand, b []byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		x := r.Uint64()
		for k := range 2 {
			v := math.Float32bits(t[uint16(x>>(32*k))])
			binary.LittleEndian.PutUint32(b[i+4*k:], v^uint32(x>>(32*k+16))&0x7fff)
		}
	}
}

// generate writes the data set into dir. The same seed gives the same bytes.
func generate(dir string, seed uint64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	weights, moments := newTable(r, 0.02), newTable(r, 1e-4)
	for i := range weightFiles {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, weightFiles)
		if err := writeFile(filepath.Join(dir, name), header(weightBytes), weightBytes, func(b []byte) { weights.bf16(r, b) }); err != nil {
			return err
		}
	}
	for i := range momentFiles {
		name := fmt.Sprintf("optimizer-%d.bin", i)
		if err := writeFile(filepath.Join(dir, name), nil, momentBytes, func(b []byte) { moments.f32(r, b) }); err != nil {
			return err
		}
	}
	for i := range 13 {
		text, err := json.MarshalIndent(map[string]any{"file": i, "log": r.Perm(2000)}, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("state-%d.json", i)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// header is a safetensors header for one tensor of bf16 with so many bytes.
func header(size int64) []byte {
	text := fmt.Appendf(nil, `{"w":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]}}`, size/2, size)
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
}

func writeFile(path string, head []byte, size int64, fill func([]byte)) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, mib)
	if _, err := w.Write(head); err != nil {
		return err
	}
	buf := make([]byte, mib)
	for left := size; left > 0; left -= int64(len(buf)) {
		fill(buf)
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// change makes in dir the changes of changedBytes, as the next save would.
func change(dir string, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 2))
	weights, moments := newTable(r, 0.02), newTable(r, 1e-4)
	head := int64(len(header(weightBytes)))
	w := func(name string, off, n int64, fill func(*rand.Rand, []byte)) error {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		buf := make([]byte, mib)
		for ; n > 0; n, off = n-mib, off+mib {
			fill(r, buf)
			if _, err := f.WriteAt(buf, off); err != nil {
				return err
			}
		}
		return f.Sync()
	}
	if err := w("model-00001-of-00008.safetensors", head, weightBytes, weights.bf16); err != nil {
		return err
	}
	if err := w("optimizer-0.bin", 0, momentBytes, moments.f32); err != nil {
		return err
	}
	if err := w("optimizer-1.bin", momentBytes/2, momentBytes/2, moments.f32); err != nil {
		return err
	}
	for i := range scattered {
		// Into files that are not changed otherwise, at places of no alignment, apart from each other.
		name, slots := fmt.Sprintf("model-%05d-of-00008.safetensors", 2+i%7), int64(weightBytes/scatteredLen/4)
		off := head + (int64(i/7)*slots+1)*scatteredLen + 2*r.Int64N(scatteredLen/2)
		if err := w(name, off, scatteredLen, weights.bf16); err != nil {
			return err
		}
	}
	return nil
}
