package bidder

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// poller looks at one seller's list. Its memory is of looks, never of truth.
type poller struct {
	name   string
	seller seller
	wanted chan struct{} // a look is wanted soon

	mu      sync.Mutex
	looks   map[events.InstanceID]sight // newest sight of each machine
	missing map[events.LeaseID]int      // complete lists in a row without a lease's machine
	strays  map[events.InstanceID]*stray
}

// sight is what a machine has cost so far, at a market time not after the list.
type sight struct {
	prices []events.PriceFrom
	at     time.Time
}

func newPoller(name string, p seller) *poller {
	return &poller{
		name: name, seller: p, wanted: make(chan struct{}, 1),
		looks: map[events.InstanceID]sight{}, missing: map[events.LeaseID]int{}, strays: map[events.InstanceID]*stray{},
	}
}

// kick asks for a look soon.
func (p *poller) kick() {
	select {
	case p.wanted <- struct{}{}:
	default:
	}
}

func (p *poller) sighted(id events.InstanceID) (sight, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.looks[id]
	return l, ok
}

// poll looks at a seller's list at the configured pace: often while machines of ours
// may be there, rarely otherwise, and soon when somebody waits for a confirmation.
func (s *Service) poll(ctx context.Context, p *poller) error {
	for ctx.Err() == nil {
		s.cfg.Turn("poll-" + p.name)
		busy := s.look(ctx, p)
		wait := s.cfg.Idle
		if busy {
			wait = s.cfg.Poll
		}
		if !sleep(ctx, s.cfg.Poll/5) {
			break
		}
		t := time.NewTimer(max(wait-s.cfg.Poll/5, 0))
		select {
		case <-ctx.Done():
		case <-p.wanted:
		case <-t.C:
		}
		t.Stop()
	}
	return ctx.Err()
}

// look takes one list and acts on it. It says whether there is anything to look at again soon.
func (s *Service) look(ctx context.Context, p *poller) (busy bool) {
	now := s.cfg.Now() // before the call: the list is newer than this
	callCtx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	listing, err := p.seller.List(callCtx)
	cancel()
	mine := s.world.openLeases(func(l lease) bool { return l.seller == p.name })
	s.cfg.Metrics.leases(p.name, len(mine))
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Warn("listing machines", zap.String("seller", p.name), zap.Error(err))
		}
		return true
	}
	ours := p.remember(listing, s.cfg.Mark, now)
	for _, inst := range ours {
		if err := s.met(ctx, p, inst, listing.Complete, now); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("acting on a listed machine", zap.String("seller", p.name), zap.String("instance", string(inst.ID)), zap.Error(err))
		}
	}
	if listing.Complete {
		s.miss(ctx, p, mine, ours, now)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(mine) > 0 || len(p.strays) > 0
}

// remember keeps the sight of our machines and returns them, each once, in a fixed
// order. Machines with another mark, or none, are not looked at at all.
func (p *poller) remember(l provider.Listing, mark string, now events.Moment) []provider.Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ours []provider.Instance
	listed := map[events.InstanceID]bool{}
	for _, inst := range l.Instances {
		if inst.Labels[MarkLabel] != mark || listed[inst.ID] {
			continue
		}
		listed[inst.ID] = true
		ours = append(ours, inst)
		p.looks[inst.ID] = sight{slices.Clone(inst.Prices), now.Market}
	}
	if l.Complete {
		for id := range p.looks {
			if !listed[id] {
				delete(p.looks, id)
			}
		}
		for id := range p.strays {
			if !listed[id] {
				delete(p.strays, id)
			}
		}
	}
	slices.SortFunc(ours, func(a, b provider.Instance) int {
		if x := a.Started.Compare(b.Started); x != 0 {
			return x
		}
		return compareIDs(a.ID, b.ID)
	})
	return ours
}

func compareIDs(a, b events.InstanceID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// met acts on one of our machines in a list.
func (s *Service) met(ctx context.Context, p *poller, inst provider.Instance, complete bool, now events.Moment) error {
	if inst.State == provider.Gone && inst.Remains {
		s.clearAway(p, inst.ID)
	}
	if l, ok := s.world.leaseOf(inst.ID); ok {
		p.forget(l.id, inst.ID)
		if inst.State == provider.Gone && l.hasMachine() {
			return s.ended(ctx, l, inst)
		}
		if l.phase != ended || inst.State == provider.Gone {
			return nil
		}
		// The lease was closed on an estimate and the machine is back.
		return s.suspect(ctx, p, inst, complete, now)
	}
	id := events.LeaseID(inst.Token)
	if l := s.world.lease(id); pending(l) {
		p.forget(id, inst.ID)
		_, err := s.bought(ctx, l, inst, now.Control.Sub(l.intentAt), true)
		return err
	}
	return s.suspect(ctx, p, inst, complete, now)
}

// clearAway has a seller remove what it keeps of a machine that it has ended. It
// is asked at each look until nothing remains.
func (s *Service) clearAway(p *poller, id events.InstanceID) {
	s.flights.start("clear-"+string(id), func(ctx context.Context) {
		err := s.askEnd(ctx, p, id)
		if ctx.Err() == nil {
			s.cfg.Logger.Info("clearing away what remains of a machine", zap.String("instance", string(id)), zap.Error(err))
		}
	})
}

func (p *poller) forget(id events.LeaseID, inst events.InstanceID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.missing, id)
	delete(p.strays, inst)
}

// ended records that the seller says a machine is gone.
func (s *Service) ended(ctx context.Context, l lease, inst provider.Instance) error {
	s.cfg.Crash(CrashConfirmed)
	f := events.LeaseEnded{
		Instance: inst.ID, Started: inst.Started, Ended: inst.Ended, EndedBy: inst.EndedBy,
		Prices: inst.Prices, Terms: inst.Terms, Pool: inst.Pool,
	}
	if f.Pool.InstanceType == "" { // nor all of this, of one that was deleted
		f.Pool = l.intent.Offer.Pool
	}
	if f.Started.IsZero() {
		f.Started = l.launch.Started
	}
	if f.Ended.IsZero() {
		f.Ended = s.cfg.Now().Market
	}
	if f.Terms == (events.Terms{}) { // the seller does not repeat them
		f.Terms = l.intent.Offer.Terms
	}
	if f.EndedBy == "" {
		f.EndedBy = "fault"
		if l.phase == terminating {
			f.EndedBy = "us"
		}
	}
	if len(f.Prices) == 0 && l.launch.Price > 0 {
		f.Prices = []events.PriceFrom{{From: f.Started, Price: l.launch.Price}}
	}
	_, err := s.recordUntil(ctx, l, lease.hasMachine, f, l.newest.ID)
	return err
}

// listsOfAbsence is how many complete lists in a row, taken after the settle
// time, prove that a machine is not there.
const listsOfAbsence = 3

// miss counts the leases whose machine a complete list does not have.
func (s *Service) miss(ctx context.Context, p *poller, mine []lease, ours []provider.Instance, now events.Moment) {
	for _, l := range mine {
		l = s.world.lease(l.id)
		there := slices.ContainsFunc(ours, func(i provider.Instance) bool { return i.ID == l.instance || i.Token == string(l.id) })
		if there || !l.open() || s.atWork(l) || now.Control.Before(s.shownBy(l)) {
			continue
		}
		p.mu.Lock()
		p.missing[l.id]++
		gone := p.missing[l.id] >= listsOfAbsence
		p.mu.Unlock()
		if gone {
			if err := s.absentFor(ctx, l, now); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("closing an absent lease", zap.String("lease", string(l.id)), zap.Error(err))
			}
		}
	}
}

// atWork says whether a purchase in this process may still bring the machine about.
func (s *Service) atWork(l lease) bool {
	return l.phase == intended && (s.flights.has("acquire-"+string(l.id.Job())) || s.flights.has("move-"+string(l.id.Job())))
}

// shownBy is when a list must have the machine, if there is one. An intent of another replica
// may be called as late as its launch may take.
func (s *Service) shownBy(l lease) time.Time {
	switch l.phase {
	case intended:
		return l.intentAt.Add(s.cfg.Launch + s.cfg.Timers.Settle)
	case unknown:
		return l.unknownAt.Add(s.cfg.Timers.Settle)
	}
	return l.newest.Time.Add(s.cfg.Timers.Settle)
}

// absentFor closes a lease whose machine three complete lists do not have.
func (s *Service) absentFor(ctx context.Context, l lease, now events.Moment) error {
	if pending(l) {
		_, err := s.recordUntil(ctx, l, pending, events.LeaseRefused{
			Kind: provider.UnknownOutcome.String(), Detail: "absent from three complete lists after the settle time",
		}, l.newest.ID)
		return err
	}
	s.cfg.Logger.Error("a machine vanished from its seller's list; its charge is an estimate", zap.String("lease", string(l.id)), zap.String("instance", string(l.instance)))
	f := events.LeaseEnded{
		Instance: l.instance, Started: l.launch.Started, Ended: now.Market, EndedBy: "fault", Pool: l.intent.Offer.Pool, Terms: l.intent.Offer.Terms,
		Prices: s.seen(l).prices,
	}
	_, err := s.recordUntil(ctx, l, lease.hasMachine, estimated{f}, l.newest.ID)
	return err
}

// seen is the newest sight of a lease's machine, else what its launch told.
func (s *Service) seen(l lease) sight {
	if p, ok := s.pollers[l.seller]; ok {
		if k, ok := p.sighted(l.instance); ok && len(k.prices) > 0 {
			return k
		}
	}
	return sight{prices: []events.PriceFrom{{From: l.launch.Started, Price: l.launch.Price}}, at: l.launch.Started}
}

// priceNow is the newest price known of a running machine.
func (s *Service) priceNow(l lease) events.PerInstanceHour {
	prices := s.seen(l).prices
	return prices[len(prices)-1].Price
}
