package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"
)

// Verify checks that a checkpoint can be restored: that ref is the name of its
// manifest, the manifest is sound, and every object it names is there with the
// right size. deep also reads every byte. The gateway does the first before it
// accepts a commit; the second costs as much as a restore.
//
// Objects that a manifest in known names are taken to be there when deep is
// false: the one that was committed before, say, whose objects nobody deletes.
//
// A bad checkpoint is a *Rejection naming the file. Any other error means that
// the store could not be asked, and says nothing about the checkpoint.
func Verify(ctx context.Context, store Store, tenant, job string, ref Ref, deep bool, known ...Manifest) error {
	e, err := New(Config{Store: store, Tenant: tenant, Job: job})
	if err != nil {
		return err
	}
	return e.Verify(ctx, ref, deep, known...)
}

// Verify checks a checkpoint of this job; see the function of that name. A deep
// check of one that is sealed takes its key.
func (e *Engine) Verify(ctx context.Context, ref Ref, deep bool, known ...Manifest) error {
	m, err := ReadManifest(ctx, e.cfg.Store, e.cfg.Tenant, e.cfg.Job, ref)
	if err != nil {
		return judge(ref, "", err)
	}
	if deep {
		return e.readEverything(ctx, ref, m)
	}
	return e.sized(ctx, ref, m, known)
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

// manyObjects is from how many objects with one prefix listing them is less work
// than looking at each. A list gives a thousand at once.
const manyObjects = 16

// sized checks the sizes of m's objects without reading them.
func (e *Engine) sized(ctx context.Context, ref Ref, m Manifest, known []Manifest) error {
	there := map[Object]bool{}
	for _, k := range known {
		if k.Tenant == m.Tenant && k.Job == m.Job {
			for _, o := range k.Objects() {
				there[o] = true
			}
		}
	}
	groups := map[string][]Object{}
	for _, o := range m.Objects() {
		if !there[o] {
			groups[path.Dir(o.Name)+"/"] = append(groups[path.Dir(o.Name)+"/"], o)
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(groups)) {
		todo, err := e.unlisted(ctx, prefix, groups[prefix])
		if err != nil {
			return judge(ref, "", err)
		}
		if name, err := e.each(ctx, todo); err != nil {
			return judge(ref, m.fileOf(name), err)
		}
	}
	return nil
}

// unlisted returns those of the objects that a list does not show with the right
// size. A list may be late, so they are looked at one by one.
func (e *Engine) unlisted(ctx context.Context, prefix string, objects []Object) ([]Object, error) {
	if len(objects) < manyObjects {
		return objects, nil
	}
	list, err := e.cfg.Store.List(ctx, prefix)
	if errors.Is(err, errors.ErrUnsupported) {
		return objects, nil
	}
	if err != nil {
		return nil, err
	}
	shown := make(map[Object]bool, len(list))
	for _, o := range list {
		shown[o] = true
	}
	return slices.DeleteFunc(objects, func(o Object) bool { return shown[o] }), nil
}

// each looks at objects, several at a time, until one is not as it should be,
// and returns its name.
func (e *Engine) each(ctx context.Context, objects []Object) (bad string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var once sync.Once
	var work sync.WaitGroup
	next := make(chan Object)
	for range min(e.cfg.Workers, len(objects)) {
		work.Go(func() {
			for o := range next {
				if err := e.look(ctx, o); err != nil {
					once.Do(func() { bad = o.Name; cancel(err) })
				}
			}
		})
	}
	for _, o := range objects {
		if ctx.Err() != nil {
			break
		}
		next <- o
	}
	close(next)
	work.Wait()
	return bad, context.Cause(ctx)
}

func (e *Engine) look(ctx context.Context, o Object) error {
	size, err := e.cfg.Store.Stat(ctx, o.Name)
	if err == nil && size != o.Size {
		err = fmt.Errorf("%w: %s has %d bytes, want %d", ErrCorrupt, o.Name, size, o.Size)
	}
	return err
}

// fileOf returns the first file that needs an object.
func (m Manifest) fileOf(object string) string {
	hash := path.Base(object)
	for _, f := range m.Files {
		if f.Hash != "" && f.Hash == hash {
			return f.Path
		}
		for _, c := range f.Chunks {
			if c.Hash == hash || c.Pack == hash {
				return f.Path
			}
		}
	}
	return object
}

// ReadManifest reads the manifest that ref names and checks that it is that one.
// ErrNotFound, ErrCorrupt and ErrManifest prove the checkpoint bad; any other
// error says nothing about it.
func ReadManifest(ctx context.Context, store Store, tenant, job string, ref Ref) (Manifest, error) {
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

// withContext fails a long copy once ctx ends.
type withContext struct {
	ctx context.Context
	r   io.Reader
}

func (c withContext) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
