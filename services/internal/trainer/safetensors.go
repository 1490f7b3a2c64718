package trainer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// maxHeader bounds the JSON header of a safetensors file. A header names
// tensors only, so this is room for about a hundred thousand of them.
const maxHeader = 16 << 20

// ErrSafetensors is what every error about the content of a safetensors file
// wraps: the file is torn, or was never one.
var ErrSafetensors = errors.New("not a whole safetensors file")

// Tensor is one entry of a safetensors header. Offsets count bytes from the
// beginning of the data section.
type Tensor struct {
	Name       string
	Dtype      string
	Shape      []int64
	Begin, End int64
}

// Safetensors is the header of a safetensors file.
type Safetensors struct {
	Metadata map[string]string
	Tensors  []Tensor // in the order of their data
	Data     int64    // where the data section begins in the file
	Size     int64    // bytes in the data section
}

// bitsOf gives the width of an element of each type in the format's reference.
var bitsOf = map[string]int64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
	"U16": 16, "I16": 16, "F16": 16, "BF16": 16,
	"U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
}

// ReadSafetensors reads and checks the header of a file of size bytes. The
// tensors must cover the data section from its first byte to its last without
// gap or overlap, and each must be as long as its type and shape say; so a file
// that was cut short anywhere is refused. Memory is bounded by the header, which
// is bounded by size and by 16 MiB. Errors wrap ErrSafetensors or come from r.
//
// The format: https://huggingface.co/docs/safetensors
func ReadSafetensors(r io.ReaderAt, size int64) (Safetensors, error) {
	if size < 8 {
		return Safetensors{}, fmt.Errorf("%w: %d bytes", ErrSafetensors, size)
	}
	var prefix [8]byte
	if err := readAt(r, prefix[:], 0); err != nil {
		return Safetensors{}, err
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader || n > uint64(size-8) {
		return Safetensors{}, fmt.Errorf("%w: header of %d bytes in a file of %d", ErrSafetensors, n, size)
	}
	header := make([]byte, n)
	if err := readAt(r, header, 8); err != nil {
		return Safetensors{}, err
	}
	s := Safetensors{Data: 8 + int64(n), Size: size - 8 - int64(n)}
	if err := s.parse(header); err != nil {
		return Safetensors{}, fmt.Errorf("%w: %w", ErrSafetensors, err)
	}
	return s, nil
}

// readAt fills buf, or says that the file ended early.
func readAt(r io.ReaderAt, buf []byte, at int64) error {
	n, err := r.ReadAt(buf, at)
	switch {
	case n == len(buf):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: ends at byte %d", ErrSafetensors, at+int64(n))
	}
	return err
}

func (s *Safetensors) parse(header []byte) error {
	if !bytes.HasPrefix(header, []byte("{")) {
		return errors.New("header is not a JSON object")
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	for name, raw := range entries {
		if name == "__metadata__" {
			if err := json.Unmarshal(raw, &s.Metadata); err != nil {
				return fmt.Errorf("metadata: %w", err)
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		s.Tensors = append(s.Tensors, Tensor{name, e.Dtype, e.Shape, e.Offsets[0], e.Offsets[1]})
	}
	slices.SortFunc(s.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), cmp.Compare(a.Name, b.Name))
	})
	return s.cover()
}

// entry is a tensor as the header spells it.
type entry struct {
	Dtype   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// cover checks that the tensors fill the data section and their own bounds.
func (s *Safetensors) cover() error {
	at := int64(0)
	for _, t := range s.Tensors {
		want, err := t.bytes()
		if err != nil {
			return err
		}
		if t.Begin != at || t.End < at || t.End > s.Size || t.End-t.Begin != want {
			return fmt.Errorf("tensor %q of %d bytes is said to be at %d to %d, after %d of %d", t.Name, want, t.Begin, t.End, at, s.Size)
		}
		at = t.End
	}
	if at != s.Size {
		return fmt.Errorf("tensors end at %d of %d bytes", at, s.Size)
	}
	return nil
}

// bytes is the length that type and shape ask for.
func (t Tensor) bytes() (int64, error) {
	bits, ok := bitsOf[t.Dtype]
	if !ok {
		return 0, fmt.Errorf("tensor %q has unknown type %q", t.Name, t.Dtype)
	}
	n := bits / 8
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > (1<<62)/d {
			return 0, fmt.Errorf("tensor %q has impossible shape %v", t.Name, t.Shape)
		}
		n *= d
	}
	return n, nil
}

// DigestFile returns the digest of the weights in a model.safetensors file: the
// SHA-256 of its data section, in hex. It is the digest in evidence and
// progress of the step at which the file was saved. A file that is torn is an
// error that wraps ErrSafetensors.
func DigestFile(path string) (string, error) {
	f, s, err := openSafetensors(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, s.Data, s.Size)); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func openSafetensors(path string) (*os.File, Safetensors, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Safetensors{}, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var s Safetensors
	if err == nil {
		s, err = ReadSafetensors(f, info.Size())
	}
	if err != nil {
		return nil, Safetensors{}, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, s, nil
}
