package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// remains is what an earlier process of the same epoch has left.
type remains struct {
	found  map[string]int64 // what may be relied on once it is read back, with its size
	named  map[string]bool  // see knowledge
	spent  map[string]bool
	allOld bool
	// unlisted: the store cannot be listed. resumed: there was such a process.
	unlisted, resumed bool
}

// entering prepares for saves of an epoch, once: an earlier process of the same
// epoch, killed, may have left objects that need not be sent again.
func (e *Engine) entering(ctx context.Context, epoch int) error {
	k := e.known
	k.mu.Lock()
	if k.epoch != epoch {
		k.enterEpoch(epoch)
		k.name(k.base)
	}
	listed := k.listed
	k.mu.Unlock()
	if listed {
		return nil
	}
	l, err := e.leftovers(ctx, epoch)
	if err != nil {
		return fmt.Errorf("looking for what epoch %d has sent: %w", epoch, err)
	}
	k.mu.Lock()
	if k.epoch == epoch && !k.listed {
		k.found, k.named, k.allOld, k.resumed, k.listed = l.found, l.named, l.allOld, l.resumed, true
		k.spent = l.spent
	}
	k.mu.Unlock()
	if l.unlisted {
		e.remember()
	}
	return nil
}

// remember writes down what a new process of this epoch has to know.
func (e *Engine) remember() {
	e.cache.note(e.known.uploaded())
	if err := e.cache.save(); err != nil {
		e.cfg.Log.Warn("what was read and sent is not remembered beyond this process", zap.Error(err))
	}
}

// leftovers finds what an earlier process of the epoch has left. What no
// manifest of the epoch names, and what the newest does, may be relied on once it
// is read back; what only an older manifest names is spent. A manifest that is
// bad leaves all of it open.
func (e *Engine) leftovers(ctx context.Context, epoch int) (remains, error) {
	l := remains{found: map[string]int64{}, named: map[string]bool{}, spent: map[string]bool{}}
	prefix := Prefix(e.cfg.Tenant, e.cfg.Job)
	manifests, err := e.cfg.Store.List(ctx, fmt.Sprintf("%s%010d-", prefix, epoch))
	if errors.Is(err, errors.ErrUnsupported) {
		return e.cache.remains(epoch), nil
	}
	if err != nil {
		return l, err
	}
	var newest map[string]bool
	for _, o := range slices.Backward(manifests) {
		m, err := e.manifestNamed(ctx, strings.TrimPrefix(o.Name, prefix))
		if err != nil && !proves(err) {
			return l, err
		}
		if err != nil {
			l.allOld = true
			return l, nil
		}
		names := m.dataOf(epoch)
		if newest == nil {
			newest = names
		}
		for hash := range names {
			l.named[hash] = true
			if !newest[hash] {
				l.spent[hash] = true
			}
		}
	}
	list, err := e.cfg.Store.List(ctx, EpochPrefix(e.cfg.Tenant, e.cfg.Job, epoch))
	if err != nil {
		return l, err
	}
	for _, o := range list {
		if hash := path.Base(o.Name); !l.spent[hash] {
			l.found[hash] = o.Size
		}
	}
	return l, nil
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
