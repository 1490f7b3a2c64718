package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
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
	start := e.cfg.Now()
	ref, sent, err := e.upload(ctx, req)
	if err != nil {
		return Ref{}, fmt.Errorf("saving step %d of epoch %d: %w", req.Step, req.Epoch, err)
	}
	e.cfg.Log.Info("checkpoint uploaded", zap.String("checkpoint", ref.Name), zap.Int64("bytes", ref.Bytes),
		zap.Int64("sent", sent), zap.Duration("took", e.cfg.Now().Sub(start)))
	return ref, nil
}

func (e *Engine) upload(ctx context.Context, req SaveRequest) (Ref, int64, error) {
	m := Manifest{Schema: Schema, Tenant: e.cfg.Tenant, Job: e.cfg.Job, Epoch: req.Epoch, Step: req.Step,
		Framework: req.Framework, Dir: req.name(), Save: req.Save, Created: e.cfg.Now().UTC().Truncate(time.Microsecond)}
	if err := m.validateHead(); err != nil { // before anything is sent
		return Ref{}, 0, wrap(ErrManifest, err)
	}
	root, err := req.open()
	if err != nil {
		return Ref{}, 0, fmt.Errorf("opening %s in %s: %w", quote(req.Sub), req.Dir, saving(err))
	}
	defer root.Close()
	was, err := scan(root, e.cfg.MaxFiles)
	if err != nil {
		return Ref{}, 0, err
	}
	sent, err := e.send(ctx, root, was)
	if err != nil {
		return Ref{}, 0, err
	}
	if err := rescan(root, was, e.cfg.MaxFiles); err != nil {
		return Ref{}, 0, err
	}
	for _, f := range was {
		m.Files = append(m.Files, f.File)
	}
	ref, err := e.putManifest(ctx, m)
	return ref, sent, err
}

// send uploads the content of every regular file and fills in the hashes. It
// returns how many bytes the store did not have.
func (e *Engine) send(ctx context.Context, root *os.Root, files []found) (int64, error) {
	if err := e.fits(files); err != nil {
		return 0, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(e.cfg.Workers)
	sent := make([]int64, len(files))
	for i := range files {
		if files[i].Kind != Regular {
			continue
		}
		if gctx.Err() != nil {
			break
		}
		g.Go(func() (err error) {
			sent[i], err = e.sendFile(gctx, root, &files[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	var sum int64
	for _, n := range sent {
		sum += n
	}
	return sum, ctx.Err()
}

func (e *Engine) fits(files []found) error {
	var sum int64
	for _, f := range files {
		if sum += f.Size; sum < 0 || e.cfg.MaxBytes > 0 && sum > e.cfg.MaxBytes {
			return fmt.Errorf("%w: with %s the tree exceeds %d bytes", ErrTooLarge, quote(f.Path), e.cfg.MaxBytes)
		}
	}
	return nil
}

// putManifest writes the manifest, the last object of an upload. Its name
// contains its hash: one that is already there is a repeat of this very upload.
func (e *Engine) putManifest(ctx context.Context, m Manifest) (Ref, error) {
	data, err := m.Encode()
	if err != nil {
		return Ref{}, err
	}
	ref := m.ref(data)
	name := ManifestName(e.cfg.Tenant, e.cfg.Job, ref)
	err = e.cfg.Store.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, ErrExists) {
		if _, err := readManifest(ctx, e.cfg.Store, e.cfg.Tenant, e.cfg.Job, ref); err != nil {
			return Ref{}, fmt.Errorf("manifest %s is already there, but: %w", ref.Name, err)
		}
		return ref, nil
	}
	if err != nil {
		return Ref{}, fmt.Errorf("writing manifest %s: %w", ref.Name, err)
	}
	return ref, nil
}
