package market

import (
	"slices"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Book is the newest believable offer of every pool, folded from offer events.
// Events may come in any order and any number of times: the book is the same. It is
// safe for concurrent use.
type Book struct {
	limits Limits

	mu    sync.RWMutex
	pools map[events.Pool]*shelf
}

// shelf is one pool. quotes are those that could still be the answer at some
// time: none of them is at once older in effect, seen earlier and shorter-lived than another.
// There is nearly always one.
type shelf struct {
	quotes  []events.Offer
	expired time.Time // nothing seen until then counts
	newest  time.Time // last time anything was seen
	since   time.Time // the pool has been on offer without a break since
}

// NewBook returns an empty book. Limits are its own guard, independent of the watcher's.
func NewBook(limits Limits) *Book {
	return &Book{limits: limits.withDefaults(), pools: map[events.Pool]*shelf{}}
}

// Apply takes an event and says whether the book changed. Events that are not
// about offers change nothing, nor do offers that make no sense: an
// effective time is compared with nothing here, as events carry no market time of their own.
func (b *Book) Apply(e events.Event) bool {
	switch f := e.Fact.(type) {
	case events.OfferChanged:
		if b.limits.Check(f.Offer, events.Moment{Control: e.Time}) != nil || f.Offer.TTLS > int64(b.limits.MaxTTL/time.Second) {
			return false
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.shelf(f.Offer.Pool).put(f.Offer)
	case events.OfferExpired:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.shelf(f.Pool).expire(e.Time)
	}
	return false
}

func (b *Book) shelf(p events.Pool) *shelf {
	if b.pools[p] == nil {
		b.pools[p] = &shelf{}
	}
	return b.pools[p]
}

func until(o events.Offer) time.Time { return o.Seen.Add(time.Duration(o.TTLS) * time.Second) }

// covers says whether o makes other superfluous at every time.
func covers(o, other events.Offer) bool {
	return !newer(other, o) && !o.Seen.Before(other.Seen) && !until(o).Before(until(other))
}

func (s *shelf) put(o events.Offer) bool {
	if !o.Seen.After(s.expired) || until(o).Before(s.newest) {
		return false
	}
	for _, q := range s.quotes {
		if covers(q, o) {
			return false
		}
	}
	if !s.standsAt(o.Seen) {
		s.since = o.Seen
	}
	s.quotes = append(slices.DeleteFunc(s.quotes, func(q events.Offer) bool { return covers(o, q) }), o)
	if o.Seen.After(s.newest) {
		s.newest = o.Seen
		s.quotes = slices.DeleteFunc(s.quotes, func(q events.Offer) bool { return until(q).Before(s.newest) })
	}
	return true
}

func (s *shelf) standsAt(t time.Time) bool {
	return slices.ContainsFunc(s.quotes, func(q events.Offer) bool { return q.Fresh(t) })
}

func (s *shelf) expire(at time.Time) bool {
	if !at.After(s.expired) {
		return false
	}
	s.expired = at
	before := len(s.quotes)
	s.quotes = slices.DeleteFunc(s.quotes, func(q events.Offer) bool { return !q.Seen.After(at) })
	return len(s.quotes) < before
}

// best is the newest in effect of what is fresh at now.
func (s *shelf) best(now time.Time) (events.Offer, bool) {
	var best events.Offer
	found := false
	for _, q := range s.quotes {
		if q.Fresh(now) && (!found || newer(q, best)) {
			best, found = q, true
		}
	}
	return best, found
}

// Offer returns what a pool is sold at, if it may be bought at now (control time).
func (b *Book) Offer(p events.Pool, now time.Time) (events.Offer, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.pools[p]; s != nil {
		return s.best(now)
	}
	return events.Offer{}, false
}

// Snapshot returns everything that may be bought at now (control time), ordered by pool.
func (b *Book) Snapshot(now time.Time) []events.Offer {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]events.Offer, 0, len(b.pools))
	for _, s := range b.pools {
		if o, ok := s.best(now); ok {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, c events.Offer) int { return comparePools(a.Pool, c.Pool) })
	return out
}

// Since returns the control time from which a pool has been on offer without a
// break, as far as this book has seen, and false if it is not on offer at now.
// Unlike the offers it depends on what the book happened to witness: it can only be too late.
func (b *Book) Since(p events.Pool, now time.Time) (time.Time, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.pools[p]; s != nil && s.standsAt(now) {
		return s.since, true
	}
	return time.Time{}, false
}
