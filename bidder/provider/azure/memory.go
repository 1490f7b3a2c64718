package azure

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// remembered is for how long, in market time, ended machines are listed and what
// was seen of machines is kept.
const remembered = 24 * time.Hour

// memory is how machines looked while they lived, so that the end of one that is
// there no more can be told. After a restart such ends are not told.
type memory struct {
	mu   sync.Mutex
	seen map[events.InstanceID]*sighting
}

type sighting struct {
	provider.Instance
	digest string
	asked  bool // to be deleted, by us
	at     time.Time
}

func newMemory() *memory { return &memory{seen: map[events.InstanceID]*sighting{}} }

// saw keeps how a machine looks, and returns it with the end that was seen first.
func (m *memory) saw(i provider.Instance, digest string, now time.Time) provider.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[i.ID]
	if s == nil {
		s = &sighting{}
		m.seen[i.ID] = s
	}
	if i.State == provider.Gone {
		if s.State == provider.Gone {
			i.Ended, i.EndedBy = s.Ended, s.EndedBy
		} else if i.Ended.IsZero() {
			i.Ended = now
		}
		i.Ended = latest(i.Ended, i.Started)
	}
	s.Instance, s.digest, s.at = i, digest, now
	return i
}

// drop forgets a machine that never was one.
func (m *memory) drop(id events.InstanceID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, id)
}

// asking notes that we delete a machine.
func (m *memory) asking(id events.InstanceID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.seen[id]; s != nil && s.State != provider.Gone {
		s.asked = true
	}
}

// vanished notes that a machine is there no more. Nobody but us and Azure deletes
// spot machines; what else was deleted on demand was deleted with our rights.
func (m *memory) vanished(id events.InstanceID, now time.Time) (provider.Instance, string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[id]
	if s == nil {
		return provider.Instance{}, "", false
	}
	if s.State != provider.Gone {
		s.State, s.Ended, s.EndedBy = provider.Gone, latest(now, s.Started), "us"
		if !s.asked && s.Pool.Capacity == events.Spot {
			s.EndedBy = "seller"
		}
	}
	s.Remains, s.at = false, now
	return s.Instance, s.digest, true
}

// all are the ids that are known, sorted.
func (m *memory) all() []events.InstanceID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.seen))
}

// buried is a machine that is known to be there no more.
func (m *memory) buried(id events.InstanceID) (provider.Instance, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[id]
	if s == nil || s.State != provider.Gone || s.Remains {
		return provider.Instance{}, false
	}
	return s.Instance, true
}

// forget drops what ended, or was last seen, too long ago.
func (m *memory) forget(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(_ events.InstanceID, s *sighting) bool {
		at := s.at
		if s.State == provider.Gone && !s.Remains {
			at = s.Ended
		}
		return now.Sub(at) > remembered
	})
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
