package dev

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
)

// StoreWorkdir puts a packed working directory into the store of a state
// directory, under the name of its content, from where machines fetch it. The
// same content is stored once. pack writes the archive.
func StoreWorkdir(ctx context.Context, stateDir string, pack func(io.Writer) error) (a events.Archive, err error) {
	org, path, err := storeOf(stateDir)
	if err != nil {
		return a, err
	}
	f, err := os.CreateTemp("", "spotferry-workdir-")
	if err != nil {
		return a, err
	}
	defer func() { f.Close(); _ = os.Remove(f.Name()) }()
	h := blake3.New(32, nil)
	if err := pack(io.MultiWriter(f, h)); err != nil {
		return a, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return a, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return a, err
	}
	store, err := dir.Open(dir.Config{Path: path})
	if err != nil {
		return a, err
	}
	defer store.Close()
	hash := hex.EncodeToString(h.Sum(nil))
	a = events.Archive{Object: fmt.Sprintf("v1/%s/inputs/%s/%s.tar", org, hash[:2], hash), Hash: hash, Bytes: size}
	if err := store.Put(ctx, a.Object, f, size); err != nil && !errors.Is(err, checkpoint.ErrExists) {
		return a, err
	}
	return a, nil
}
