package ledger

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// Crash points of the service, for Config.Crash.
const (
	CrashReadFacts  = "read-meter"   // the lease's facts are read, nothing is posted
	CrashEntryNoAck = "entry-no-ack" // the entry stands, its cause is not acknowledged
)

// Config of a Service. Every field but Crash is required.
type Config struct {
	Log    events.Log
	Book   *Book
	Logger *zap.Logger
	// Crash is called at the named points; tests end the service there. nil: nothing.
	Crash func(point string)
}

// Service charges for leases that ended and gives back what was reserved for
// leases that came to nothing.
type Service struct {
	cfg Config
}

// New returns a service; Run starts it.
func New(cfg Config) *Service {
	if cfg.Crash == nil {
		cfg.Crash = func(string) {}
	}
	return &Service{cfg}
}

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	return s.cfg.Log.Consume(ctx, events.Subscription{Name: "ledger", Filters: []string{events.FilterLeases}}, s.handle)
}

func (s *Service) handle(ctx context.Context, e events.Event) error {
	switch f := e.Fact.(type) {
	case events.LeaseEnded:
		return s.settle(ctx, e, f)
	case events.LeaseRefused:
		return s.release(ctx, e, "refused: "+f.Kind)
	case events.LeaseDeclined:
		return s.release(ctx, e, f.Reason)
	}
	return nil
}

func (s *Service) settle(ctx context.Context, e events.Event, ended events.LeaseEnded) error {
	lease := events.LeaseID(e.Aggregate.ID)
	history, err := s.cfg.Log.Read(ctx, e.Aggregate, 0)
	if err != nil {
		return fmt.Errorf("reading lease %s: %w", lease, err)
	}
	s.cfg.Crash(CrashReadFacts)
	added, err := s.cfg.Book.Append(ctx, e.Aggregate.Org, func(st *State) (*Draft, error) {
		money, _ := st.Lease(lease)
		if money.Phase == Settled {
			return nil, nil
		}
		charge := Settle(ended, lease, money.Reserved, money.Price)
		charge.Cause = e.ID
		charge.OnDemand = onDemandFor(history, ended)
		return &Draft{
			Fact: charge, Attribution: e.Attribution, Correlation: lease.Job(), Causation: e.ID, Finality: finality(e, ended),
		}, nil
	})
	if err != nil {
		return err
	}
	s.cfg.Crash(CrashEntryNoAck)
	s.logged(added, lease)
	return nil
}

// finality of a charge: only confirmed times at prices the seller named are final.
func finality(e events.Event, ended events.LeaseEnded) events.Finality {
	if len(ended.Prices) == 0 {
		return events.Provisional
	}
	return e.Finality
}

func (s *Service) release(ctx context.Context, e events.Event, reason string) error {
	lease := events.LeaseID(e.Aggregate.ID)
	added, err := s.cfg.Book.Append(ctx, e.Aggregate.Org, func(st *State) (*Draft, error) {
		if money, ok := st.Lease(lease); !ok || money.Phase != Open {
			return nil, nil
		}
		return &Draft{
			Fact:        events.MoneyReleased{Job: lease.Job(), Lease: lease, Reason: reason},
			Attribution: e.Attribution, Correlation: lease.Job(), Causation: e.ID,
		}, nil
	})
	if err != nil {
		return err
	}
	s.cfg.Crash(CrashEntryNoAck)
	s.logged(added, lease)
	return nil
}

func (s *Service) logged(e events.Event, lease events.LeaseID) {
	switch f := e.Fact.(type) {
	case events.MoneySettled:
		s.cfg.Logger.Info("lease settled", zap.String("job", string(f.Job)), zap.String("lease", string(lease)),
			zap.Stringer("pool", f.Pool), zap.Stringer("amount", f.Amount), zap.String("event", string(e.ID)))
		if f.Overrun > 0 {
			s.cfg.Logger.Error("budget overrun: the seller's bill exceeds what was reserved",
				zap.String("job", string(f.Job)), zap.String("lease", string(lease)), zap.Stringer("overrun", f.Overrun))
		}
	case events.MoneyReleased:
		s.cfg.Logger.Info("reservation released", zap.String("job", string(f.Job)), zap.String("lease", string(lease)),
			zap.String("reason", f.Reason), zap.String("event", string(e.ID)))
	}
}

// onDemandFor prices the billed time at the cheapest on-demand offer of the same
// GPUs that the decision to buy knew of; 0 when it knew none.
func onDemandFor(history []events.Event, ended events.LeaseEnded) events.MicroUSD {
	var best events.PerInstanceHour
	for _, e := range history {
		intended, ok := e.Fact.(events.LeaseIntended)
		if !ok {
			continue
		}
		for _, c := range intended.Decision.Candidates {
			same := c.Offer.GPU.Model == intended.Offer.GPU.Model && c.Offer.GPU.Count == intended.Offer.GPU.Count
			if c.Offer.Pool.Capacity == events.OnDemand && same && c.Offer.Price > 0 && (best == 0 || c.Offer.Price < best) {
				best = c.Offer.Price
			}
		}
	}
	b := billedSpan(ended)
	return events.Cost(best, b.to.Sub(b.from))
}
