package checkpoint

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// entering prepares for saves of an epoch, once: an earlier process of the same
// epoch, killed, may have left objects that need not be sent again.
func (e *Engine) entering(ctx context.Context, epoch int) error {
	k := e.known
	k.mu.Lock()
	if k.epoch != epoch {
		k.enterEpoch(epoch)
	}
	listed := k.listed
	k.mu.Unlock()
	if listed {
		return nil
	}
	found, spent, err := e.leftovers(ctx, epoch)
	allOld := err != nil && proves(err)
	if err != nil && !allOld {
		return fmt.Errorf("looking for what epoch %d has sent: %w", epoch, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epoch == epoch && !k.listed {
		k.found, k.spent, k.allOld, k.listed = found, spent, allOld, true
	}
	return nil
}

// leftovers returns the objects of an epoch that a save of it may rely on once
// they are read back: those that no manifest of the epoch names, and those of
// the newest. What only an older manifest names is spent. A manifest that is bad
// leaves all of it open; its error proves that.
func (e *Engine) leftovers(ctx context.Context, epoch int) (found map[string]int64, spent map[string]bool, err error) {
	found, spent = map[string]int64{}, map[string]bool{}
	prefix := Prefix(e.cfg.Tenant, e.cfg.Job)
	manifests, err := e.cfg.Store.List(ctx, fmt.Sprintf("%s%010d-", prefix, epoch))
	if err != nil {
		return nil, nil, err
	}
	var newest map[string]bool
	for _, o := range slices.Backward(manifests) {
		m, err := e.manifestNamed(ctx, strings.TrimPrefix(o.Name, prefix))
		if err != nil {
			return map[string]int64{}, spent, err
		}
		names := m.dataOf(epoch)
		if newest == nil {
			newest = names
		}
		for hash := range names {
			if !newest[hash] {
				spent[hash] = true
			}
		}
	}
	list, err := e.cfg.Store.List(ctx, EpochPrefix(e.cfg.Tenant, e.cfg.Job, epoch))
	if err != nil {
		return nil, nil, err
	}
	for _, o := range list {
		if hash := path.Base(o.Name); !spent[hash] {
			found[hash] = o.Size
		}
	}
	return found, spent, nil
}

// dataOf returns the names of m's chunks and packs that were put in an epoch.
func (m Manifest) dataOf(epoch int) map[string]bool {
	names, prefix := map[string]bool{}, EpochPrefix(m.Tenant, m.Job, epoch)
	for _, o := range m.Objects() {
		if hash, ok := strings.CutPrefix(o.Name, prefix); ok {
			names[hash] = true
		}
	}
	return names
}

// manifestNamed reads a manifest of which only the name is known: enough to tell
// what it names, not to restore it.
func (e *Engine) manifestNamed(ctx context.Context, name string) (Manifest, error) {
	data, err := readAll(ctx, e.cfg.Store, Prefix(e.cfg.Tenant, e.cfg.Job)+name)
	if err != nil {
		return Manifest{}, err
	}
	m, err := Decode(data)
	if err == nil && m.ref(data).Name != name {
		err = fmt.Errorf("%w: it is not %s", ErrManifest, quote(name))
	}
	return m, err
}
