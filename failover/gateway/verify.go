package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/failover"
)

// look makes sure that a checkpoint can be committed: that its manifest is the
// one named, and that everything it needs is there and will not go. A bad one is
// a *checkpoint.Rejection; any other error says nothing about it.
//
// What may be relied on is decision 14, seen from the record: what a kept
// checkpoint of the job names cannot vanish and is not looked at again. Beyond
// that only objects of the checkpoint's own epoch count, which nobody but its
// writer makes, and of those none that a dropped checkpoint needs. Both rest on
// which checkpoints are dropped, so the append is void if that has changed since.
func (g *Gateway) look(ctx context.Context, j failover.Job, ref checkpoint.Ref) error {
	m, err := g.manifest(ctx, j, ref)
	if err != nil {
		return judged(ref, "", err)
	}
	objects := m.Objects()
	sound, err := g.sound(ctx, j)
	if err != nil {
		return err
	}
	used, err := g.usedUp(ctx, j)
	if err != nil {
		return err
	}
	var own []checkpoint.Object
	for _, o := range objects {
		kept, err := vouched(sound, o)
		if err == nil && !kept {
			own = append(own, o)
			err = ownOf(j, m, o.Name)
		}
		if err == nil && !kept && used(o.Name) {
			err = fmt.Errorf("%w: %s is of a checkpoint of this epoch that was dropped: what comes back is stored under another name", checkpoint.ErrManifest, o.Name)
		}
		if err != nil {
			return judged(ref, o.Name, err)
		}
	}
	if err := g.there(ctx, j, ref, own); err != nil {
		return err
	}
	g.read.at(j, func(k *remembered) { k.needs[ref.Name] = needs{m.Schema, objects} })
	return ctx.Err()
}

// judged makes of what was found wrong with a checkpoint a rejection, or a failure to find out.
func judged(ref checkpoint.Ref, path string, err error) error {
	switch {
	case err == nil:
		return nil
	case provenBad(err):
		return &checkpoint.Rejection{Ref: ref, Path: path, Err: err}
	}
	return fmt.Errorf("looking at checkpoint %s: %w", ref.Name, err)
}

// sound returns what the job's kept checkpoints need. One that did not restore
// vouches for nothing: what it shares with the next may be what is bad.
func (g *Gateway) sound(ctx context.Context, j failover.Job) ([]needs, error) {
	list := j.Resume()
	in := map[string]bool{}
	for _, c := range list {
		in[c.Name] = true
	}
	got, bad := g.needsOf(ctx, j, list, func(name string) bool { return in[name] })
	var out []needs
	for _, c := range list { // newest first: most is found there
		if err := bad[c.Name]; err != nil && !provenBad(err) {
			return nil, fmt.Errorf("reading the manifest of checkpoint %s: %w", c.Name, err)
		}
		if n, ok := got[c.Name]; ok {
			out = append(out, n)
		}
	}
	return out, nil
}

// vouched says whether a kept checkpoint needs the very same object.
func vouched(sound []needs, o checkpoint.Object) (bool, error) {
	for _, n := range sound {
		if size, ok := n.size(o.Name); ok {
			if size != o.Size {
				return false, fmt.Errorf("%w: %s has %d bytes here and %d in a checkpoint before", checkpoint.ErrManifest, o.Name, o.Size, size)
			}
			return true, nil
		}
	}
	return false, nil
}

// ownOf says why a checkpoint may not rely on an object that no kept one needs, or nil.
func ownOf(j failover.Job, m checkpoint.Manifest, name string) error {
	tenant, job := string(j.Attribution.Org), string(j.ID)
	epoch, ok := dataEpoch(tenant, job, name)
	switch {
	case ok && epoch == m.Epoch:
		return nil
	case ok:
		return fmt.Errorf("%w: %s is of epoch %d, and no kept checkpoint needs it", checkpoint.ErrManifest, name, epoch)
	case m.Schema == 1 && legacy(tenant, name):
		return nil // shared by the tenant's jobs, and never collected
	}
	return fmt.Errorf("%w: %s is not below what this job may use", checkpoint.ErrManifest, name)
}

// legacy says whether an object holds a whole file, as manifests of schema 1 name it.
func legacy(tenant, name string) bool { return strings.HasPrefix(name, "v1/"+tenant+"/files/") }

// dataEpoch returns the epoch that an object of a job's data was written in.
func dataEpoch(tenant, job, name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, checkpoint.DataPrefix(tenant, job))
	if !ok {
		return 0, false
	}
	number, hash, _ := strings.Cut(rest, "/")
	epoch, err := strconv.Atoi(number)
	if err != nil || !isHash(hash) || checkpoint.EpochPrefix(tenant, job, epoch)+hash != name {
		return 0, false
	}
	return epoch, true
}

// manifestEpoch returns the epoch of a manifest below a job's prefix.
func manifestEpoch(tenant, job, name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, checkpoint.Prefix(tenant, job))
	if !ok {
		return 0, false
	}
	parts := strings.Split(strings.TrimSuffix(rest, ".manifest"), "-")
	if len(parts) != 3 || len(parts[2]) != 16 || !isHex(parts[2]) {
		return 0, false
	}
	epoch, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, false
	}
	step, err := strconv.ParseInt(parts[1], 10, 64)
	return epoch, err == nil && rest == fmt.Sprintf("%010d-%020d-%s.manifest", epoch, step, parts[2])
}

func isHash(s string) bool { return len(s) == 64 && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// manyObjects is from how many objects a list is asked before each of the rest is.
const manyObjects = 32

// there looks at the objects that only this checkpoint needs: by a list, which
// may be late, and those that it does not show one by one.
func (g *Gateway) there(ctx context.Context, j failover.Job, ref checkpoint.Ref, own []checkpoint.Object) error {
	if len(own) >= manyObjects {
		list, err := g.cfg.Store.List(ctx, checkpoint.EpochPrefix(string(j.Attribution.Org), string(j.ID), ref.Epoch))
		if err != nil {
			return judged(ref, "", err)
		}
		shown := make(map[checkpoint.Object]bool, len(list))
		for _, o := range list {
			shown[o] = true
		}
		own = slices.DeleteFunc(own, func(o checkpoint.Object) bool { return shown[o] })
	}
	eg, ectx := errgroup.WithContext(ctx)
	eg.SetLimit(g.workers())
	for _, o := range own {
		if ectx.Err() != nil {
			break
		}
		eg.Go(func() error {
			size, err := g.cfg.Store.Stat(ectx, o.Name)
			if err == nil && size != o.Size {
				err = fmt.Errorf("%w: %d bytes, want %d", checkpoint.ErrCorrupt, size, o.Size)
			}
			return judged(ref, o.Name, err)
		})
	}
	return eg.Wait()
}

// maxLooks is how often a commit is looked at anew because checkpoints were
// dropped meanwhile, which happens once in a collection's round.
const maxLooks = 3

var errDropping = errors.New("checkpoints of the job are being dropped")
