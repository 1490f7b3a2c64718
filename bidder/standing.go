package bidder

import (
	"context"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// standing remembers since when each pool could be bought without a break. It
// is not truth: after a restart every pool has stood since the restart, which
// only makes voluntary moves later.
type standing struct {
	mu    sync.Mutex
	since map[events.Pool]time.Time // market
}

func (s *standing) note(offers []events.Offer, now events.Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[events.Pool]bool, len(offers))
	for _, o := range offers {
		if !o.Available() || !o.Fresh(now.Control) {
			continue
		}
		there[o.Pool] = true
		if _, ok := s.since[o.Pool]; !ok {
			s.since[o.Pool] = now.Market
		}
	}
	for p := range s.since {
		if !there[p] {
			delete(s.since, p)
		}
	}
}

func (s *standing) of(p events.Pool, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since, ok := s.since[p]; ok {
		return now.Sub(since)
	}
	return 0
}

// watch follows the market's changes.
func (s *Service) watch(ctx context.Context) error {
	for {
		changed := s.cfg.Market.Changed()
		s.stood.note(s.cfg.Market.Offers(), s.cfg.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
