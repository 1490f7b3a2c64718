package gcp

import (
	"sync"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// remembered is for how long, in market time, ended machines are listed and what
// was seen of machines is kept.
const remembered = 24 * time.Hour

// memory is how machines looked while they lived, so that the end of one that was
// deleted can be told with its price and its pool. It is a convenience: after a
// restart ends are told without them.
type memory struct {
	mu   sync.Mutex
	seen map[events.InstanceID]sighting
}

type sighting struct {
	provider.Instance
	at time.Time
}

func newMemory() *memory { return &memory{seen: map[events.InstanceID]sighting{}} }

func (m *memory) saw(i provider.Instance, at time.Time) {
	if len(i.Prices) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[i.ID] = sighting{i, at}
}

func (m *memory) of(id events.InstanceID) (provider.Instance, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.seen[id]
	return s.Instance, ok
}

// forget drops what was last seen too long ago.
func (m *memory) forget(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.seen {
		if now.Sub(s.at) > remembered {
			delete(m.seen, id)
		}
	}
}
