package natsbus

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/spotferry/spotferry/events"
)

// Names of what is counted.
const (
	CountAppends     = "bus_appends_total"           // of an outcome
	CountDeadLetters = "bus_dead_letters_total"      // of a consumer: messages no handler could be given
	CountRetries     = "bus_handler_errors_total"    // of a consumer: events that come back
	CountRebuilds    = "bus_consumer_rebuilds_total" // of a consumer: made anew
)

// Counters counts what a Log does. The zero value is ready; an exporter reads Counts.
type Counters struct {
	mu sync.Mutex
	n  map[Count]uint64
}

// Count names one number: what is counted, and of which outcome or consumer.
type Count struct{ Name, Of string }

// Reading is one number.
type Reading struct {
	Count
	N uint64
}

// Get returns one number.
func (c *Counters) Get(name, of string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[Count{name, of}]
}

// Counts returns every number that is not zero, in order of its name.
func (c *Counters) Counts() []Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Reading
	for k, n := range c.n {
		out = append(out, Reading{k, n})
	}
	slices.SortFunc(out, func(a, b Reading) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Of, b.Of))
	})
	return out
}

func (c *Counters) add(name, of string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[Count]uint64{}
	}
	c.n[Count{name, of}]++
}

func (c *Counters) appended(err error) {
	outcome := "error"
	switch {
	case err == nil:
		outcome = "appended"
	case errors.Is(err, events.ErrConflict):
		outcome = "conflict"
	case errors.Is(err, events.ErrUnknown):
		outcome = "unknown"
	case errors.Is(err, events.ErrRegressed):
		outcome = "regressed"
	case errors.Is(err, ErrFull):
		outcome = "full"
	}
	c.add(CountAppends, outcome)
}
