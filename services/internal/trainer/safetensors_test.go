package trainer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file builds a safetensors file from its header and the length of its data.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestSafetensorsHeader(t *testing.T) {
	t.Parallel()
	const two = `{"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"a":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]}}`
	huge := binary.LittleEndian.AppendUint64(nil, 1<<63)
	for _, tc := range []struct {
		name string
		file []byte
		ok   bool
	}{
		{"of two tensors is read in the order of their data", file(two, 12), true},
		{"without tensors is a file", file(`{}`, 0), true},
		{"padded with spaces is a file", file(`{"__metadata__":{"k":"v"}}   `, 0), true},
		{"with a scalar is a file", file(`{"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`, 8), true},
		{"with an empty tensor is a file", file(`{"a":{"dtype":"F64","shape":[0,9],"data_offsets":[0,0]}}`, 0), true},
		{"of an empty file is refused", nil, false},
		{"cut within its length is refused", huge[:5], false},
		{"longer than the file is refused", append(huge, '{', '}'), false},
		{"cut short is refused", file(two, 12)[:40], false},
		{"with data cut short is refused", file(two, 11), false},
		{"with data left over is refused", file(two, 13), false},
		{"that is no object is refused", file(`[]`, 0), false},
		{"that begins with a space is refused", file(` {}`, 0), false},
		{"that is null is refused", file(`null`, 0), false},
		{"with a gap is refused", file(`{"a":{"dtype":"I8","shape":[2],"data_offsets":[1,3]}}`, 3), false},
		{"with an overlap is refused", file(`{"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"I8","shape":[2],"data_offsets":[1,3]}}`, 3), false},
		{"with offsets reversed is refused", file(`{"a":{"dtype":"I8","shape":[2],"data_offsets":[2,0]}}`, 2), false},
		{"with an unknown type is refused", file(`{"a":{"dtype":"F3","shape":[2],"data_offsets":[0,2]}}`, 2), false},
		{"with a shape of another size is refused", file(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), false},
		{"with a negative shape is refused", file(`{"a":{"dtype":"I8","shape":[-1,-2],"data_offsets":[0,2]}}`, 2), false},
		{"with a shape that overflows is refused", file(`{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), false},
		{"with metadata that is no map is refused", file(`{"__metadata__":7}`, 0), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := ReadSafetensors(bytes.NewReader(tc.file), int64(len(tc.file)))
			if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrSafetensors) {
				t.Fatalf("ReadSafetensors = %+v, %v", s, err)
			}
			if len(s.Tensors) == 2 && (s.Tensors[0].Name != "a" || s.Tensors[1].Name != "b" || s.Size != 12) {
				t.Errorf("ReadSafetensors = %+v", s)
			}
		})
	}
}

func FuzzReadSafetensors(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}`, 2))
	f.Add(file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}`, 4))
	f.Add(file(`{"a":{"shape":[9223372036854775807,2],"data_offsets":[0,-1]}}`, 0))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, '{'})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadSafetensors(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !errors.Is(err, ErrSafetensors) {
				t.Errorf("%v does not wrap ErrSafetensors", err)
			}
			return
		}
		if s.Data+s.Size != int64(len(data)) {
			t.Errorf("data of %d bytes at %d in a file of %d", s.Size, s.Data, len(data))
		}
		at := int64(0)
		for _, x := range s.Tensors {
			if x.Begin != at || x.End < at || x.End > s.Size {
				t.Errorf("tensor %+v is out of its place, %d", x, at)
			}
			at = x.End
		}
	})
}

// A reviewer needs no Go to check a digest: eight bytes, the header, the data.
func TestDigestIsTheHashOfWhatFollowsTheHeader(t *testing.T) {
	t.Parallel()
	cfg := tiny(t)
	mustTrain(t, cfg)
	path := filepath.Join(checkpointDir(cfg.Output, cfg.Steps), modelFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	if n%8 != 0 {
		t.Errorf("the data begins at byte %d, which is not aligned", 8+n)
	}
	var header map[string]any
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		t.Fatalf("header: %v", err)
	}
	if meta, _ := header["__metadata__"].(map[string]any); meta["format"] != "pt" || meta["step"] != "24" {
		t.Errorf("metadata is %v", meta)
	}
	sum := sha256.Sum256(data[8+n:])
	if got, err := DigestFile(path); err != nil || got != hex.EncodeToString(sum[:]) {
		t.Errorf("DigestFile = %s, %v, want %x", got, err, sum)
	}
}

func TestDigestOfNoCheckpointIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"torn": "\x10\x00\x00"})
	if _, err := DigestFile(filepath.Join(dir, "torn")); !errors.Is(err, ErrSafetensors) || !strings.Contains(err.Error(), "torn") {
		t.Errorf("DigestFile of a torn file = %v", err)
	}
	if _, err := DigestFile(dir); err == nil {
		t.Error("DigestFile of a directory gave a digest")
	}
	if _, err := DigestFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("DigestFile of no file = %v", err)
	}
}

func TestFileCutWhileItIsReadIsRefused(t *testing.T) {
	t.Parallel()
	whole := file(`{"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}`, 2)
	for n := range len(whole) - 2 {
		r := bytes.NewReader(whole[:n])
		if _, err := ReadSafetensors(r, int64(len(whole))); !errors.Is(err, ErrSafetensors) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}
