package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

// sealing is more than any codec and key add to a chunk.
const sealing = 4 << 10

// objectID names a chunk's or pack's object within a job.
type objectID struct {
	epoch int
	hash  string
}

// validateData checks where the files' bytes are said to be: every chunk is of a
// size that a reader can hold, lies within its object, and says the same of it
// as every other that names it.
func (m Manifest) validateData() error {
	packs, err := m.validatePacks()
	if err != nil {
		return err
	}
	used, alone := map[objectID]bool{}, map[objectID]Chunk{}
	for _, f := range m.Files {
		if f.Kind != Regular {
			continue
		}
		if m.Schema == 1 {
			if !isHash(f.Hash) || f.Chunks != nil {
				return fmt.Errorf("%s: a file with hash %s and %d chunks in schema 1", quote(f.Path), quote(f.Hash), len(f.Chunks))
			}
			continue
		}
		if err := m.validateChunks(f, packs, used, alone); err != nil {
			return fmt.Errorf("%s: %w", quote(f.Path), err)
		}
	}
	if len(used) != len(packs) {
		return fmt.Errorf("%d packs, of which %d are used", len(packs), len(used))
	}
	return nil
}

func (m Manifest) validatePacks() (map[objectID]int64, error) {
	packs := map[objectID]int64{}
	for i, p := range m.Packs {
		switch {
		case m.Schema == 1:
			return nil, fmt.Errorf("packs in schema 1")
		case !isHash(p.Hash) || p.Size <= 0 || p.Size > chunk.MaxSize+sealing || !m.validEpoch(p.Epoch):
			return nil, fmt.Errorf("pack %s of %d bytes and epoch %d", quote(p.Hash), p.Size, p.Epoch)
		case i > 0 && comparePacks(m.Packs[i-1], p) >= 0:
			return nil, fmt.Errorf("pack %s: repeated or out of order", p.Hash)
		}
		packs[objectID{p.Epoch, p.Hash}] = p.Size
	}
	return packs, nil
}

// validEpoch checks the epoch of an object: an earlier one, or zero for the
// manifest's own.
func (m Manifest) validEpoch(epoch int) bool { return epoch == 0 || epoch > 0 && epoch < m.Epoch }

func (m Manifest) validateChunks(f File, packs map[objectID]int64, used map[objectID]bool, alone map[objectID]Chunk) error {
	if f.Hash != "" || f.Chunks != nil && len(f.Chunks) == 0 {
		return fmt.Errorf("a file with hash %s and %d chunks", quote(f.Hash), len(f.Chunks))
	}
	left := f.Size
	for _, c := range f.Chunks {
		if c.Size <= 0 || c.Size > left {
			return fmt.Errorf("chunks that are not of %d bytes together", f.Size)
		}
		left -= c.Size
		if err := m.validateChunk(c); err != nil {
			return err
		}
		id := objectID{c.Epoch, c.Hash}
		switch {
		case c.Pack != "":
			id.hash = c.Pack
			if size, ok := packs[id]; !ok || c.Off > size-c.stored() {
				return fmt.Errorf("chunk %s lies outside its pack", c.Hash)
			}
			used[id] = true
		case c.Hash != "":
			if was, ok := alone[id]; ok && was != c {
				return fmt.Errorf("chunk %s is described in two ways", c.Hash)
			}
			alone[id] = c
		}
	}
	if left != 0 {
		return fmt.Errorf("chunks that are not of %d bytes together", f.Size)
	}
	return nil
}

func (m Manifest) validateChunk(c Chunk) error {
	if c.Hash == "" {
		if c != (Chunk{Size: c.Size}) {
			return fmt.Errorf("a chunk of zeros with content")
		}
		return nil
	}
	switch {
	case !isHash(c.Hash):
		return fmt.Errorf("chunk with hash %s", quote(c.Hash))
	case c.Size > chunk.MaxSize || c.Stored < 0 || c.Stored == c.Size || c.Stored > c.Size+sealing:
		return fmt.Errorf("chunk %s of %d bytes, stored as %d", c.Hash, c.Size, c.Stored)
	case !m.validEpoch(c.Epoch):
		return fmt.Errorf("chunk %s of epoch %d", c.Hash, c.Epoch)
	case c.Pack == "" && c.Off != 0 || c.Off < 0 || c.Pack != "" && !isHash(c.Pack):
		return fmt.Errorf("chunk %s at %d of pack %s", c.Hash, c.Off, quote(c.Pack))
	case len(c.Codec) > 16 || strings.Trim(c.Codec, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("chunk %s with codec %s", c.Hash, quote(c.Codec))
	}
	return nil
}

// knownCodec reports whether this version can read what the codec wrote.
func knownCodec(c string) bool {
	return slices.Contains([]chunk.Codec{chunk.Raw, chunk.Planes, chunk.Zstd}, chunk.Codec(c))
}
