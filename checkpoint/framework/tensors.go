package framework

import (
	"archive/zip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// checkSafetensors compares a file's size with what its header says: eight bytes
// of length, the header, and the tensors, without gaps or a tail. The format is
// described in the safetensors repository's README.
func checkSafetensors(root *os.Root, e entry) (string, error) {
	f, err := open(root, e.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var length [8]byte
	if e.size < int64(len(length)) {
		return fmt.Sprintf("%q is cut short", e.path), nil
	}
	if _, err := io.ReadFull(f, length[:]); err != nil {
		return "", changed(err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > 100_000_000 || int64(n) > e.size-8 {
		return fmt.Sprintf("%q: header of %d bytes in a file of %d", e.path, n, e.size), nil
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(f, header); err != nil {
		return "", changed(err)
	}
	end, err := tensorsEnd(header)
	if err != nil {
		return fmt.Sprintf("%q: header does not parse: %v", e.path, err), nil
	}
	if want := 8 + int64(n) + end; want != e.size {
		return fmt.Sprintf("%q has %d bytes of %d", e.path, e.size, want), nil
	}
	return "", nil
}

// tensorsEnd returns where the last tensor ends, counted from the header's end.
func tensorsEnd(header []byte) (int64, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return 0, err
	}
	var end int64
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		var t struct {
			Offsets [2]int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return 0, fmt.Errorf("tensor %q: %w", name, err)
		}
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > 1<<60 {
			return 0, fmt.Errorf("tensor %q: offsets %v", name, t.Offsets)
		}
		end = max(end, t.Offsets[1])
	}
	return end, nil
}

// checkTorch makes sure that an archive by torch.save has its end, which is
// written last. Files from before torch 1.6 are bare pickles, which do not say
// how long they are; anything else called .bin is not ours to judge.
func checkTorch(root *os.Root, e entry) (string, error) {
	f, err := open(root, e.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var magic [2]byte
	if e.size >= 2 {
		if _, err := io.ReadFull(f, magic[:]); err != nil {
			return "", changed(err)
		}
	}
	switch {
	case string(magic[:]) == "PK":
		if _, err := zip.NewReader(f, e.size); err != nil {
			return fmt.Sprintf("%q is not a whole archive: %v", e.path, err), nil
		}
	case magic[0] != 0x80 && !strings.HasSuffix(e.path, ".bin"):
		return fmt.Sprintf("%q is neither an archive nor a pickle", e.path), nil
	}
	return "", nil
}
