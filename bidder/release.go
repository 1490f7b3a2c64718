package bidder

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// release answers a release command: the lease is given back, and the poller sees it gone.
func (s *Service) release(ctx context.Context, org events.OrgID, c events.Command) error {
	l, err := s.freshLease(ctx, org, c.Lease)
	if err != nil {
		return err
	}
	return s.giveBack(ctx, l, c.Reason)
}

// giveBack wants a machine gone. It does nothing for leases without one: a purchase
// on its way becomes launched or refused first.
func (s *Service) giveBack(ctx context.Context, l lease, reason string) error {
	l, err := s.recordUntil(ctx, l, func(l lease) bool { return l.phase == launched }, events.LeaseTerminating{Reason: reason}, l.newest.ID)
	if err == nil && l.phase == terminating {
		s.startTerminate(l)
	}
	return err
}

func (s *Service) startTerminate(l lease) {
	s.flights.start("terminate-"+string(l.id), func(ctx context.Context) { s.terminate(ctx, l) })
}

// terminate asks the seller to end a machine, with growing pauses and for as long as it takes
// until the lease is ended: only the seller's list says that.
func (s *Service) terminate(ctx context.Context, l lease) {
	p, ok := s.pollers[l.seller]
	if !ok {
		s.cfg.Logger.Error("a machine of a seller that is not configured", zap.String("lease", string(l.id)), zap.String("instance", string(l.instance)))
		return
	}
	asked := s.cfg.Now().Control
	for pause := s.cfg.Timers.Heartbeat; ctx.Err() == nil; pause = min(2*pause, 12*s.cfg.Timers.Heartbeat) {
		s.cfg.Turn("terminate-" + string(l.id))
		if s.world.lease(l.id).phase == ended {
			return
		}
		s.cfg.Crash(CrashBeforeTerminate)
		err := s.askEnd(ctx, p, l.instance)
		s.cfg.Crash(CrashNoConfirm)
		took := s.cfg.Now().Control.Sub(asked)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("ending a machine", zap.String("lease", string(l.id)), zap.String("instance", string(l.instance)),
				zap.Duration("since", took), zap.Error(err))
		}
		if took > s.cfg.Timers.GC {
			s.cfg.Logger.Error("a machine does not end; it goes on costing", zap.String("lease", string(l.id)), zap.String("instance", string(l.instance)), zap.Duration("since", took))
		}
		p.kick()
		s.awaitEnd(ctx, l, pause)
	}
}

func (s *Service) askEnd(ctx context.Context, p *poller, id events.InstanceID) error {
	if !s.enter(ctx) {
		return ctx.Err()
	}
	defer s.leave()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	return p.seller.Terminate(ctx, id)
}

// awaitEnd waits until a lease has ended, for pause at most.
func (s *Service) awaitEnd(ctx context.Context, l lease, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		changed := s.world.change(l.id.Job())
		if s.world.lease(l.id).phase == ended {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-changed:
		}
	}
}
