package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/events"
)

// Keys are the keys that organisations' checkpoints are encrypted with, in a
// directory that only the gateway reads: one file each, wrapped by the
// key-encryption key, which is a file of its own and belongs on another backup.
// Whoever loses either has lost the checkpoints.
type Keys struct{ Dir string }

const kekFile = "checkpoints.kek"

func (k Keys) file(org events.OrgID) string {
	return filepath.Join(k.Dir, "checkpoints-"+string(org)+".key")
}

// Of returns the key of an organisation, or false if its checkpoints are not encrypted.
func (k Keys) Of(_ context.Context, org events.OrgID) (chunk.Key, bool, error) {
	wrapped, err := os.ReadFile(k.file(org))
	if errors.Is(err, fs.ErrNotExist) {
		return chunk.Key{}, false, nil
	}
	if err != nil {
		return chunk.Key{}, false, fmt.Errorf("reading the checkpoints' key: %w", err)
	}
	kek, err := k.kek()
	if err != nil {
		return chunk.Key{}, false, err
	}
	key, err := chunk.Unwrap(kek, wrapped, string(org))
	if err != nil {
		return chunk.Key{}, false, fmt.Errorf("%s: %w; restore both files from one backup", k.file(org), err)
	}
	return key, true, nil
}

func (k Keys) kek() (kek chunk.KEK, err error) {
	file := filepath.Join(k.Dir, kekFile)
	b, err := os.ReadFile(file)
	if err != nil {
		return kek, fmt.Errorf("reading the key that opens the checkpoints' keys: %w", err)
	}
	if len(b) != len(kek) {
		return kek, fmt.Errorf("%s has %d bytes, want %d: restore it from a backup", file, len(b), len(kek))
	}
	return chunk.KEK(b), nil
}

// Make makes a key for an organisation that has none. What it saved before stays
// readable: a manifest says whether its bytes are sealed.
func (k Keys) Make(org events.OrgID) error {
	if err := events.CheckToken("org", string(org)); err != nil {
		return err
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	fresh := chunk.NewKey()
	if err := once(filepath.Join(k.Dir, kekFile), fresh[:]); err != nil {
		return err
	}
	kek, err := k.kek()
	if err != nil {
		return err
	}
	wrapped, err := chunk.Wrap(kek, chunk.NewKey(), string(org), rand.Reader)
	if err != nil {
		return err
	}
	return once(k.file(org), wrapped)
}

// once makes a file, whole and durable, unless it is there.
func once(file string, content []byte) error {
	tmp := fmt.Sprintf("%s.%d", file, os.Getpid())
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp, file); err != nil && !errors.Is(err, fs.ErrExist) { // another may have been faster
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
