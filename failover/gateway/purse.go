package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spotferry/spotferry/events"
)

// purse knows until when each lease is paid. Until the money's record has been
// read to its end it knows too little, and what it has may be long outdated:
// the organisation's money is then read on the spot.
type purse struct {
	turn chan struct{} // full while somebody reads

	mu    sync.Mutex
	whole bool                         // everything there was at the start has been read
	paid  map[events.LeaseID]time.Time // market time
	at    map[events.OrgID]uint64      // position of the newest event taken
}

func newPurse() purse {
	return purse{turn: make(chan struct{}, 1), paid: map[events.LeaseID]time.Time{}, at: map[events.OrgID]uint64{}}
}

func (p *purse) caughtUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = true
}

// take folds an event of the money; one that is not newer changes nothing.
func (p *purse) take(e events.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Position <= p.at[e.Aggregate.Org] {
		return
	}
	p.at[e.Aggregate.Org] = e.Position
	switch f := e.Fact.(type) {
	case events.MoneyReserved:
		p.paid[f.Lease] = f.PaidTill
	case events.MoneyExtended:
		p.paid[f.Lease] = f.PaidTill
	case events.MoneySettled:
		delete(p.paid, f.Lease)
	case events.MoneyReleased:
		delete(p.paid, f.Lease)
	}
}

func (p *purse) state(org events.OrgID) (whole bool, at uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.whole, p.at[org]
}

func (p *purse) till(l events.LeaseID) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.paid[l]
	return t, ok
}

// ask reads what the purse has not taken yet of an organisation's money, unless it is followed.
func (p *purse) ask(ctx context.Context, log events.Log, org events.OrgID) error {
	if whole, _ := p.state(org); whole {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	whole, at := p.state(org)
	if whole {
		return nil
	}
	evs, err := log.Read(ctx, events.MoneyAggregate(org), at)
	if err != nil {
		return fmt.Errorf("reading the money of %s: %w", org, err)
	}
	for _, e := range evs {
		p.take(e)
	}
	return nil
}

// paidFor is how long, in control time, the machine is paid for; 0 when nobody limits it.
func (g *Gateway) paidFor(ctx context.Context, org events.OrgID, lease events.LeaseID, now time.Time) (time.Duration, error) {
	if err := g.purse.ask(ctx, g.cfg.Log, org); err != nil {
		return 0, err
	}
	till, ok := g.purse.till(lease)
	if !ok {
		return 0, nil
	}
	return max(g.cfg.Control(till).Sub(now), time.Millisecond), nil
}
