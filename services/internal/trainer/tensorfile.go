package trainer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// section is a run of tensors that lie one after another in one flat slice.
type section struct {
	prefix  string // put before the tensors' names
	tensors []tensor
	flat    []float32
}

// chunk is how many numbers are encoded at a time, so that a save needs no
// second copy of the model.
const chunk = 16 << 10

// writeTensors writes sections as a safetensors file, and returns the digest of
// its data. The header is padded with spaces so that the data is aligned to
// eight bytes.
func writeTensors(w io.Writer, step int, sections ...section) (string, error) {
	if _, err := w.Write(tensorHeader(step, sections)); err != nil {
		return "", err
	}
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	var buf []byte
	for _, s := range sections {
		for part := range slices.Chunk(s.flat, chunk) {
			buf = appendFloats(buf[:0], part)
			if _, err := both.Write(buf); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func tensorHeader(step int, sections []section) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"__metadata__":{"format":"pt","step":"%d"}`, step)
	at := int64(0)
	for _, s := range sections {
		for _, t := range s.tensors {
			end := at + 4*int64(t.size())
			shape, _ := json.Marshal(t.dims) // a slice of ints always encodes
			fmt.Fprintf(&b, `,%q:{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}`, s.prefix+t.name, shape, at, end)
			at = end
		}
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())), b.Bytes()...)
}

// readTensors fills the sections from the file at path, which must hold exactly
// their tensors, in their order, as saved at step. It returns the digest of the
// data.
func readTensors(path string, step int, sections ...section) (string, error) {
	f, s, err := openSafetensors(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := sameTensors(s, step, sections); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.New()
	r := io.TeeReader(io.NewSectionReader(f, s.Data, s.Size), sum)
	buf := make([]byte, 4*chunk)
	for _, sec := range sections {
		for part := range slices.Chunk(sec.flat, chunk) {
			raw := buf[:4*len(part)]
			if _, err := io.ReadFull(r, raw); err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
			for i := range part {
				part[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func sameTensors(s Safetensors, step int, sections []section) error {
	if got := s.Metadata["step"]; got != strconv.Itoa(step) {
		return fmt.Errorf("holds step %q in a checkpoint of step %d", got, step)
	}
	i := 0
	for _, sec := range sections {
		for _, t := range sec.tensors {
			name := sec.prefix + t.name
			if i == len(s.Tensors) {
				return fmt.Errorf("tensor %q is missing", name)
			}
			got := s.Tensors[i]
			same := slices.EqualFunc(got.Shape, t.dims, func(a int64, b int) bool { return a == int64(b) })
			if got.Name != name || got.Dtype != "F32" || !same {
				return fmt.Errorf("has %s %s %v where %s F32 %v belongs", got.Name, got.Dtype, got.Shape, name, t.dims)
			}
			i++
		}
	}
	if i != len(s.Tensors) {
		return fmt.Errorf("tensor %q is one too many", s.Tensors[i].Name)
	}
	return nil
}
