package ops

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// State is the fold of an organisation's decisions. It is a value; the zero one
// is the state before the first event.
type State struct {
	Freeze *Freeze // nil: not frozen
	Holds  []Hold  // by seller and pool, the whole seller first
	newest events.Event
}

// Freeze says that nothing is bought, on whose word and why.
type Freeze struct {
	events.OpsFrozen
	Since time.Time // control
	Event events.EventID
}

// Hold says that nothing is bought from a seller or a pool, on whose word and why.
type Hold struct {
	events.OpsHeld
	Since time.Time // control
	Event events.EventID
}

// Position is where the newest event stands in its stream; 0 before the first.
func (s State) Position() uint64 { return s.newest.Position }

// Fold returns the state after an event; one that is not newer changes nothing.
func Fold(s State, e events.Event) State {
	if e.Sequence <= s.newest.Sequence {
		return s
	}
	s.newest = e
	switch f := e.Fact.(type) {
	case events.OpsFrozen:
		if s.Freeze == nil {
			s.Freeze = &Freeze{f, e.Time, e.ID}
		}
	case events.OpsUnfrozen:
		s.Freeze = nil
	case events.OpsHeld:
		s.Holds = slices.Clone(s.Holds)
		i, there := s.find(f.Seller, f.Pool)
		if !there {
			s.Holds = slices.Insert(s.Holds, i, Hold{f, e.Time, e.ID})
		}
	case events.OpsReleased:
		if i, there := s.find(f.Seller, f.Pool); there {
			s.Holds = slices.Delete(slices.Clone(s.Holds), i, i+1)
		}
	}
	return s
}

// find returns where the hold of exactly this seller or pool stands, or would stand.
func (s State) find(seller string, pool *events.Pool) (int, bool) {
	return slices.BinarySearchFunc(s.Holds, events.OpsHeld{Seller: seller, Pool: pool}, func(h Hold, want events.OpsHeld) int {
		return compare(h.OpsHeld, want)
	})
}

func compare(a, b events.OpsHeld) int {
	if x := cmp.Compare(a.Seller, b.Seller); x != 0 {
		return x
	}
	switch {
	case a.Pool == nil && b.Pool == nil:
		return 0
	case a.Pool == nil:
		return -1
	case b.Pool == nil:
		return 1
	}
	return cmp.Or(cmp.Compare(a.Pool.Region, b.Pool.Region), cmp.Compare(a.Pool.Zone, b.Pool.Zone), cmp.Compare(a.Pool.InstanceType, b.Pool.InstanceType),
		cmp.Compare(a.Pool.Capacity, b.Pool.Capacity), cmp.Compare(a.Pool.Gang, b.Pool.Gang))
}

// Has returns the hold of exactly this seller, or of exactly this pool of it, or false.
func (s State) Has(seller string, pool *events.Pool) (Hold, bool) {
	if i, there := s.find(seller, pool); there {
		return s.Holds[i], true
	}
	return Hold{}, false
}

// Held returns the hold that keeps a pool from being bought, of its seller or its own, or false.
func (s State) Held(p events.Pool) (Hold, bool) {
	if h, ok := s.Has(p.Seller, nil); ok {
		return h, true
	}
	return s.Has(p.Seller, &p)
}

// Bars says why nothing may be bought from a pool, or "".
func (s State) Bars(p events.Pool) string {
	if f := s.Freeze; f != nil {
		return fmt.Sprintf("frozen: %s (by %s)", f.Reason, f.By)
	}
	if h, ok := s.Held(p); ok {
		return fmt.Sprintf("held: %s (by %s)", h.Reason, h.By)
	}
	return ""
}

// Recorded returns the holds and the freeze as a decision records them.
func (s State) Recorded() ([]events.OpsHeld, *events.OpsFrozen) {
	var holds []events.OpsHeld
	for _, h := range s.Holds {
		holds = append(holds, h.OpsHeld)
	}
	if s.Freeze == nil {
		return holds, nil
	}
	f := s.Freeze.OpsFrozen
	return holds, &f
}
