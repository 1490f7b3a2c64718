package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// weightsFile is the file of a Hugging Face checkpoint that holds the whole model.
const weightsFile = "model.safetensors"

// maxWeights is the largest file a digest is made of: on one core some seconds.
const maxWeights = 4 << 30

// weightsDigest returns the SHA-256, in hex, of the tensors' data in a
// checkpoint's model.safetensors: of every byte after the header, which may
// differ between checkpoints with equal weights. It is empty when there is no
// such file, or when it is a link, too large or damaged; a digest is for
// comparing, and what makes a checkpoint good is its manifest. The layout is that
// of the safetensors repository's README: 8 bytes of length, little-endian, then
// the header.
func weightsDigest(dir string) string {
	path := filepath.Join(dir, weightsFile)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxWeights {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var length [8]byte
	if _, err := io.ReadFull(f, length[:]); err != nil {
		return ""
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > 100_000_000 {
		return ""
	}
	h := sha256.New()
	if _, err := f.Seek(8+int64(n), io.SeekStart); err != nil {
		return ""
	}
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// measure returns the size of a checkpoint held in dir, and how long the trainer
// wrote it: from the birth of the directory it was written in to the newest
// change of a file. A file system that keeps no births gives the time from the
// oldest file on, which leaves out the writing of that file.
func measure(dir, original string) (size int64, save time.Duration, err error) {
	var first, last time.Time
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		size += info.Size()
		if first.IsZero() || info.ModTime().Before(first) {
			first = info.ModTime()
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
		return nil
	})
	if at, ok := born(original); ok && at.Before(first) {
		first = at
	}
	return size, max(last.Sub(first), 0), err
}
