package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

// Verify checks that a checkpoint can be restored: that ref is the name of its
// manifest, the manifest is sound, and every object it names is there with the
// right size. deep also reads every byte. The gateway does the first before it
// accepts a commit; the second costs as much as a restore.
//
// A bad checkpoint is a *Rejection naming the file. Any other error means that
// the store could not be asked, and says nothing about the checkpoint.
func Verify(ctx context.Context, store Store, tenant, job string, ref Ref, deep bool) error {
	e, err := New(Config{Store: store, Tenant: tenant, Job: job})
	if err != nil {
		return err
	}
	return e.verify(ctx, ref, deep)
}

func (e *Engine) verify(ctx context.Context, ref Ref, deep bool) error {
	m, err := readManifest(ctx, e.cfg.Store, e.cfg.Tenant, e.cfg.Job, ref)
	if err != nil {
		return judge(ref, "", err)
	}
	return e.each(ctx, ref, distinct(m.Files), func(ctx context.Context, f File) error {
		if deep {
			return again(func() error { return e.fetch(ctx, f, io.Discard) })
		}
		return e.sized(ctx, f)
	})
}

// judge makes an error found in a checkpoint either a Rejection or a failure to
// find out.
func judge(ref Ref, path string, err error) error {
	if proves(err) {
		return &Rejection{Ref: ref, Path: path, Err: err}
	}
	if path == "" {
		path = "manifest"
	}
	return fmt.Errorf("reading checkpoint %s: %s: %w", ref.Name, quote(path), err)
}

// each runs check on every file, several at a time, until one fails, and returns
// that first failure as judge sees it.
func (e *Engine) each(ctx context.Context, ref Ref, files []File, check func(context.Context, File) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(e.cfg.Workers)
	for _, f := range files {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := check(gctx, f); err != nil {
				return judge(ref, f.Path, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// again repeats a reading that gave wrong bytes, up to three times in all: the
// wire may have bent them. An object that is bad at rest is bad each time.
func again(read func() error) (err error) {
	for range 3 {
		if err = read(); !errors.Is(err, ErrCorrupt) {
			return err
		}
	}
	return err
}

// sized checks one object without reading it.
func (e *Engine) sized(ctx context.Context, f File) error {
	size, err := e.cfg.Store.Stat(ctx, fileName(e.cfg.Tenant, f.Hash))
	if err != nil {
		return err
	}
	if size != f.Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, size, f.Size)
	}
	return nil
}

// distinct returns the regular files, those of equal content once. Two sizes
// claimed for one hash both stay, and one of them will be found out.
func distinct(files []File) []File {
	type content struct {
		hash string
		size int64
	}
	seen := map[content]bool{}
	var out []File
	for _, f := range files {
		if c := (content{f.Hash, f.Size}); f.Kind == Regular && !seen[c] {
			seen[c] = true
			out = append(out, f)
		}
	}
	return out
}

// readManifest reads the manifest that ref names and checks that it is that one.
func readManifest(ctx context.Context, store Store, tenant, job string, ref Ref) (Manifest, error) {
	if err := ref.Validate(); err != nil {
		return Manifest{}, err
	}
	var data []byte
	err := again(func() (err error) {
		data, err = readAll(ctx, store, ManifestName(tenant, job, ref))
		if err == nil && digest(data) != ref.Digest {
			err = fmt.Errorf("%w: hash %s, want %s", ErrCorrupt, digest(data), ref.Digest)
		}
		return err
	})
	if err != nil {
		return Manifest{}, err
	}
	m, err := Decode(data)
	if err != nil {
		return Manifest{}, err
	}
	if m.Tenant != tenant || m.Job != job || m.ref(data) != ref {
		return Manifest{}, fmt.Errorf("%w: it is of %s/%s, epoch %d, step %d", ErrManifest, m.Tenant, m.Job, m.Epoch, m.Step)
	}
	return m, nil
}

// readAll reads a manifest's bytes, and no more than a manifest can have.
func readAll(ctx context.Context, store Store, name string) ([]byte, error) {
	r, err := store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(withContext{ctx, r}, MaxManifest+1)); err != nil {
		return nil, err
	}
	if b.Len() > MaxManifest {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, MaxManifest)
	}
	return b.Bytes(), nil
}
