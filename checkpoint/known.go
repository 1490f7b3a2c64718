package checkpoint

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
)

// holding is a chunk that the store has, and what is known about it.
type holding struct {
	Chunk          // with the epoch spelled out
	packSize int64 // of the pack it lies in
	// proven: this process has written these bytes or read them back. What is not
	// proven is read once before a checkpoint relies on it: otherwise one flipped
	// bit in a file that never changes would be in every checkpoint from then on.
	proven bool
}

// knowledge is which chunks a save may rely on: docs/decisions/0014.
//
// base has what the newest manifest names: the one restored, adopted or last
// uploaded, whichever came last. own has what was put, or found and proven, in
// the current epoch and is named by no manifest yet. A manifest that is uploaded
// becomes base, whether or not its commit succeeds: what an earlier one names
// and it does not is spent, since a collector may take that once the new one is
// committed. A spent name is neither relied on nor used again in its epoch: its
// deletion may be on its way for as long as a network likes. What only an
// uncommitted manifest names is never collected.
type knowledge struct {
	mu     sync.Mutex
	base   map[string]holding
	own    map[string]holding
	found  map[string]int64 // sizes of objects that an earlier process of this epoch left
	unsure map[string]bool  // objects that we put, but the answer was lost
	named  map[string]bool  // names of the epoch's chunks and packs that a manifest has had
	spent  map[string]bool  // those that the newest has not
	// resumed: an earlier process of this epoch may have left objects that cannot
	// be listed, so each is looked for by its name.
	resumed bool
	allOld  bool // which names are spent cannot be told: all may be
	flying  map[string]chan struct{}
	epoch   int
	listed  bool // found is of this epoch
}

func newKnowledge() *knowledge {
	k := &knowledge{base: map[string]holding{}, flying: map[string]chan struct{}{}}
	k.enterEpoch(0)
	return k
}

// enterEpoch forgets what belongs to another epoch's saves. mu is held, or
// nobody else has k yet.
func (k *knowledge) enterEpoch(epoch int) {
	k.epoch, k.listed = epoch, false
	k.own, k.found, k.unsure = map[string]holding{}, map[string]int64{}, map[string]bool{}
	k.named, k.spent, k.allOld, k.resumed = map[string]bool{}, map[string]bool{}, false, false
}

// adopt makes m the base.
func (k *knowledge) adopt(m Manifest, proven bool) {
	size := map[objectID]int64{}
	for _, p := range m.Packs {
		size[objectID{p.Epoch, p.Hash}] = p.Size
	}
	base := map[string]holding{}
	for _, f := range m.Files {
		for _, c := range f.Chunks {
			if c.Hash != "" {
				h := holding{c, size[objectID{c.Epoch, c.Pack}], proven}
				h.Epoch = m.epochOf(c.Epoch)
				base[c.Hash] = h
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.base = base
	k.name(base)
	k.resumed = k.resumed && !k.listed
	for hash := range base {
		delete(k.own, hash)
	}
}

// name notes which names of the epoch the newest manifest has. mu is held.
func (k *knowledge) name(newest map[string]holding) {
	k.spent = maps.Clone(k.named)
	for _, h := range newest {
		if h.Epoch == k.epoch {
			hash := cmp.Or(h.Pack, h.Hash)
			k.named[hash] = true
			delete(k.spent, hash)
		}
	}
}

// uploaded returns which names of the epoch manifests have had, and which the
// newest has, sorted.
func (k *knowledge) uploaded() (epoch int, named, newest []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	named = slices.Sorted(maps.Keys(k.named))
	newest = slices.DeleteFunc(slices.Clone(named), func(hash string) bool { return k.spent[hash] })
	return k.epoch, named, newest
}

// isSpent reports whether a name of the epoch must not be used any more, and
// whether that can only be feared.
func (k *knowledge) isSpent(hash string) (spent, feared bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.spent[hash], k.allOld
}

// forget drops everything, so that the next save relies on nothing it has not
// read back.
func (k *knowledge) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.base {
		if h.Epoch == k.epoch {
			k.spent[cmp.Or(h.Pack, h.Hash)] = true // by a manifest that the next does not build on
		}
	}
	k.base = map[string]holding{}
	for hash, h := range k.own {
		if h.Pack == "" {
			k.unsure[hash] = true
		}
	}
	for hash := range k.flying {
		k.unsure[hash] = true
	}
	k.own, k.found = map[string]holding{}, map[string]int64{}
}

// at returns where a chunk is, if a save of the epoch may rely on that as it
// is. A pack of its own epoch only: see place.
func (k *knowledge) at(hash string, size int64) (holding, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.look(hash, size)
	return h, ok && h.proven
}

// look finds a chunk in base or own. mu is held. A manifest cannot name an
// object of epoch zero except its own.
func (k *knowledge) look(hash string, size int64) (holding, bool) {
	if h, ok := k.own[hash]; ok && h.Size == size {
		return h, true
	}
	h, ok := k.base[hash]
	return h, ok && h.Size == size && (h.Epoch > 0 || k.epoch == 0) && h.Epoch <= k.epoch
}

// claim gives a chunk to one caller to bring into the store, or says where it
// is. If another has it, claim waits for the outcome. A claimed chunk comes with
// a holding to prove, if there is one; settle ends the claim.
func (k *knowledge) claim(ctx context.Context, hash string, size int64) (h holding, have bool, err error) {
	for {
		k.mu.Lock()
		h, ok := k.look(hash, size)
		if ok && h.proven {
			k.mu.Unlock()
			return h, true, nil
		}
		other := k.flying[hash]
		if other == nil {
			k.flying[hash] = make(chan struct{})
			k.mu.Unlock()
			return h, false, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return holding{}, false, ctx.Err()
		}
	}
}

// settle ends a claim, with the holding if there is one now.
func (k *knowledge) settle(hash string, h holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.proven {
		if was, ok := k.base[hash]; ok && was.Epoch == h.Epoch && was.Pack == h.Pack && was.Off == h.Off {
			k.base[hash] = h
		} else if h.Epoch == k.epoch {
			k.own[hash] = h
		}
	}
	if c := k.flying[hash]; c != nil {
		close(c)
		delete(k.flying, hash)
	}
}

// drop forgets a holding that turned out bad.
func (k *knowledge) drop(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.base, hash)
	delete(k.own, hash)
	delete(k.found, hash)
}

// left returns the size of an object of this epoch by that hash that an earlier
// process left or whose put had no answer; -1 when its size is not known. Of
// what has been named since and is spent nothing is left.
func (k *knowledge) left(hash string) (size int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.spent[hash] {
		return 0, false
	}
	if size, ok := k.found[hash]; ok {
		return size, true
	}
	return -1, k.unsure[hash] || k.resumed && !k.spent[hash]
}

// doubt notes a put whose outcome is not known.
func (k *knowledge) doubt(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsure[hash] = true
}

// chunkOf returns a holding as a manifest of the epoch says it.
func (h holding) chunkOf(epoch int) Chunk {
	c := h.Chunk
	if c.Epoch == epoch {
		c.Epoch = 0
	}
	return c
}
