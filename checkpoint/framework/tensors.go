package framework

import (
	"archive/zip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
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

// hfBin are files called .bin of which it is known that torch.save wrote them.
var hfBin = regexp.MustCompile(`(^|/)(pytorch_model|adapter_model|optimizer|scheduler|sampler|training_args)[^/]*\.bin$`)

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
	case e.size == 0 && hfBin.MatchString(e.path):
		return fmt.Sprintf("%q is empty", e.path), nil
	case magic[0] != 0x80 && !strings.HasSuffix(e.path, ".bin"):
		return fmt.Sprintf("%q is neither an archive nor a pickle", e.path), nil
	}
	return "", nil
}

// checkShard makes sure that a shard of torch's distributed checkpoints, when it
// is a row of archives, ends with the end of one.
func checkShard(root *os.Root, e entry) (string, error) {
	const tail = 22 // of an archive without a comment, as torch writes them
	f, err := open(root, e.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if e.size < 4 {
		return fmt.Sprintf("%q is cut short", e.path), nil
	}
	var head, end [4]byte
	_, err = f.ReadAt(head[:], 0)
	if err == nil {
		_, err = f.ReadAt(end[:], max(e.size-tail, 0))
	}
	if err != nil {
		return "", changed(err)
	}
	if string(head[:]) == "PK\x03\x04" && string(end[:]) != "PK\x05\x06" {
		return fmt.Sprintf("%q does not end with an archive's end", e.path), nil
	}
	return "", nil
}

// checkHDF5 compares a file's size with what its superblock says, which is
// written last. The format is in the HDF Group's specification, section II.A.
func checkHDF5(root *os.Root, e entry) (string, error) {
	f, err := open(root, e.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var super [56]byte
	if e.size < int64(len(super)) {
		return fmt.Sprintf("%q is cut short", e.path), nil
	}
	if _, err := io.ReadFull(f, super[:]); err != nil {
		return "", changed(err)
	}
	if string(super[:8]) != "\x89HDF\r\n\x1a\n" {
		return fmt.Sprintf("%q does not begin as HDF5 does", e.path), nil
	}
	at, wide := 40, super[13] // where the end of file is written, and how wide addresses are
	if super[8] == 1 {
		at = 44
	}
	if super[8] >= 2 {
		at, wide = 28, super[9]
	}
	if wide != 8 || at+8 > len(super) {
		return "", nil // not what h5py writes, and not ours to judge
	}
	if end := binary.LittleEndian.Uint64(super[at:]); end != uint64(e.size) {
		return fmt.Sprintf("%q has %d bytes of %d", e.path, e.size, end), nil
	}
	return "", nil
}
