package dev

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"
	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/storage"
)

// StoreWorkdir puts a packed working directory into the store of a state
// directory, under the name of its content, from where machines fetch it. The
// same content is stored once. pack writes the archive. A store that is not a
// directory is reached with whatever keys its own tools would find here.
func StoreWorkdir(ctx context.Context, stateDir string, pack func(io.Writer) error) (a events.Archive, err error) {
	org, url, err := storeOf(stateDir)
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
	store, err := storage.Open(ctx, url, zap.NewNop())
	if err != nil {
		return a, fmt.Errorf("opening the store that machines fetch it from: %w", err)
	}
	defer store.Close()
	hash := hex.EncodeToString(h.Sum(nil))
	a = events.Archive{Object: fmt.Sprintf("v1/%s/inputs/%s/%s.tar", org, hash[:2], hash), Hash: hash, Bytes: size}
	if err := store.Put(ctx, a.Object, f, size); err != nil && !errors.Is(err, checkpoint.ErrExists) {
		return a, err
	}
	return a, nil
}

// inputCache is where the machines of this host keep what jobs read, for the
// machines after them.
func (l layout) inputCache() (string, error) {
	dir := l.path("inputs")
	return dir, os.MkdirAll(dir, 0o700)
}
