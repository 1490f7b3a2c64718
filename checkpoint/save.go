package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
)

// SaveRequest says what to save, and as what.
type SaveRequest struct {
	// Dir is a directory of ours, on trust. Sub is the tree in it, as the job
	// named it, with slashes; it cannot lead out of Dir. An empty Sub means Dir
	// itself.
	Dir string
	Sub string
	// As is the name the tree gets at a restore; empty means the last part of
	// Sub, or else of Dir.
	As string

	Epoch     int
	Step      int64
	Framework string        // see Manifest
	Save      time.Duration // see Manifest

	// First ranks the files by their paths in the tree: those of a lower rank are
	// sent before those of a higher one. nil means the order of their paths.
	First func(path string) int
}

func (r SaveRequest) name() string {
	switch {
	case r.As != "":
		return r.As
	case r.Sub != "":
		return path.Base(r.Sub)
	}
	return filepath.Base(r.Dir)
}

// open opens the tree of a request; the caller closes it.
func (r SaveRequest) open() (*os.Root, error) {
	dir, err := os.OpenRoot(r.Dir)
	if err != nil || r.Sub == "" {
		return dir, err
	}
	defer dir.Close()
	return dir.OpenRoot(filepath.FromSlash(r.Sub))
}

// Upload does everything of a save but the commit: it sends what the store does
// not have, then the manifest, and returns the Ref to commit. It may begin
// before a commit is allowed, and may be repeated.
//
// ErrVanished and ErrChanged mean that the tree was not still; ErrUnsafe and
// ErrTooLarge that it cannot be kept as it is. All name the file.
func (e *Engine) Upload(ctx context.Context, req SaveRequest) (Ref, error) {
	start, before := e.cfg.Now(), e.Progress()
	ref, err := e.upload(ctx, req)
	if err != nil {
		return Ref{}, fmt.Errorf("saving step %d of epoch %d: %w", req.Step, req.Epoch, err)
	}
	now := e.Progress()
	e.cfg.Log.Info("checkpoint uploaded", zap.String("checkpoint", ref.Name), zap.Int64("bytes", ref.Bytes),
		zap.Int64("sent", now.Sent-before.Sent), zap.Int64("reused", now.Reused-before.Reused), zap.Duration("took", e.cfg.Now().Sub(start)))
	return ref, nil
}

func (e *Engine) upload(ctx context.Context, req SaveRequest) (Ref, error) {
	m := Manifest{Schema: Schema, Tenant: e.cfg.Tenant, Job: e.cfg.Job, Epoch: req.Epoch, Step: req.Step, Key: e.keyID(),
		Framework: req.Framework, Dir: req.name(), Save: req.Save, Created: e.cfg.Now().UTC().Truncate(time.Microsecond)}
	if err := m.validateHead(); err != nil { // before anything is sent
		return Ref{}, wrap(ErrManifest, err)
	}
	root, err := req.open()
	if err != nil {
		return Ref{}, fmt.Errorf("opening %s in %s: %w", quote(req.Sub), req.Dir, saving(err))
	}
	defer root.Close()
	was, err := scan(root, e.cfg.MaxFiles)
	if err != nil {
		return Ref{}, err
	}
	if err := e.fits(was); err != nil {
		return Ref{}, err
	}
	packs, err := e.sendTree(ctx, req, root, was, e.cache.begin())
	if err != nil {
		return Ref{}, err
	}
	if err := rescan(root, was, e.cfg.MaxFiles); err != nil {
		return Ref{}, err
	}
	for _, f := range was {
		m.Files = append(m.Files, f.File)
	}
	m.Packs = packs
	return e.putManifest(ctx, m)
}

// sendTree uploads the content of every regular file and fills in where it is.
// It returns the packs.
func (e *Engine) sendTree(ctx context.Context, req SaveRequest, root *os.Root, files []found, trust bool) ([]Pack, error) {
	if err := e.entering(ctx, req.Epoch); err != nil {
		return nil, err
	}
	list := regular(files)
	if req.First != nil {
		rank := make(map[string]int, len(list))
		for _, f := range list {
			rank[f.Path] = req.First(f.Path)
		}
		slices.SortStableFunc(list, func(a, b *found) int { return cmp.Compare(rank[a.Path], rank[b.Path]) })
	}
	s := newSending(ctx, e, root, req.Epoch, trust)
	err := s.all(list)
	e.remember()
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(s.packs), comparePacks), nil
}

func regular(files []found) []*found {
	var list []*found
	for i := range files {
		if files[i].Kind == Regular {
			list = append(list, &files[i])
		}
	}
	return list
}

// fits refuses what is too much for the configuration or for a manifest, before
// anything is sent.
func (e *Engine) fits(files []found) error {
	var sum, manifest int64
	for _, f := range files {
		if sum += f.Size; sum < 0 || e.cfg.MaxBytes > 0 && sum > e.cfg.MaxBytes {
			return fmt.Errorf("%w: with %s the tree exceeds %d bytes", ErrTooLarge, quote(f.Path), e.cfg.MaxBytes)
		}
		if f.Size/e.cfg.ChunkSize > maxPieces {
			return fmt.Errorf("%w: %s has more than %d chunks of %d bytes", ErrTooLarge, quote(f.Path), maxPieces, e.cfg.ChunkSize)
		}
		manifest += entryBytes + int64(len(f.Path)+len(f.Link)) + chunkBytes*(stored(f.info)/e.cfg.ChunkSize)
		if manifest > MaxManifest {
			return fmt.Errorf("%w: with %s the tree has more files than a manifest holds", ErrTooLarge, quote(f.Path))
		}
	}
	return nil
}

// maxPieces is into how many chunks one file may be cut, holes included: 4 TiB
// with chunks of 4 MiB. entryBytes and chunkBytes are about what a file and a
// chunk take in a manifest.
const (
	maxPieces  = 1 << 20
	entryBytes = 300
	chunkBytes = 100
)

// putManifest writes the manifest, the last object of an upload. Its name
// contains its hash: one that is already there is a repeat of this very upload,
// or was left torn by one; then the next microsecond's has another name.
func (e *Engine) putManifest(ctx context.Context, m Manifest) (Ref, error) {
	for {
		data, err := m.Encode()
		if err != nil {
			return Ref{}, err
		}
		ref := m.ref(data)
		name := ManifestName(e.cfg.Tenant, e.cfg.Job, ref)
		err = e.cfg.Store.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
		if errors.Is(err, ErrExists) {
			_, err = ReadManifest(ctx, e.cfg.Store, e.cfg.Tenant, e.cfg.Job, ref)
			if errors.Is(err, ErrCorrupt) {
				m.Created = m.Created.Add(time.Microsecond)
				continue
			}
		}
		if err != nil {
			return Ref{}, fmt.Errorf("writing manifest %s: %w", ref.Name, err)
		}
		e.known.adopt(m, true)
		e.remember() // before anybody can commit it
		return ref, nil
	}
}
