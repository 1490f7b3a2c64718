package bidder

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// barred is asked right before every paid call: it says whether operations have
// decided that it must not be made, by the log as its leader has it now.
//
// An intent that stands after a freeze, or after a hold of its pool, is void.
// Every replica finds the same, whatever has been decided since, so that none
// has called or ever will: the lease is closed. One that stands before it was
// a commitment already; it is not called any more either, but somebody may have
// called it, so the seller's list has to tell.
func (s *Service) barred(ctx context.Context, l lease) (bool, error) {
	pool := l.intent.Offer.Pool
	then, now, err := s.ops.At(ctx, l.org, l.intentPos)
	if err != nil {
		return true, err
	}
	if why := then.Bars(pool); why != "" {
		_, err := s.recordUntil(ctx, l, func(l lease) bool { return l.phase == intended }, s.void(l, why), l.newest.ID)
		return true, err
	}
	why := now.Bars(pool)
	if why == "" {
		return false, nil
	}
	s.cfg.Logger.Info("not ordered any more", zap.String("lease", string(l.id)), zap.Stringer("pool", pool), zap.String("why", why))
	_, err = s.recordUntil(ctx, l, func(l lease) bool { return l.phase == intended },
		events.LeaseUnknown{Detail: "not ordered any more, " + why + "; whether it had been is for the seller's list to tell"}, l.newest.ID)
	return true, err
}

// void closes a lease whose intent came too late. It answers no request: the
// next lease of the same command is decided on what holds then.
func (s *Service) void(l lease, why string) events.LeaseDeclined {
	now := s.cfg.Now()
	in := l.intent.Decision.Inputs
	return events.LeaseDeclined{
		Job: l.id.Job(), Epoch: l.epoch(), N: l.n(), Reason: superseded, Detail: "nothing was ordered, " + why, RetryAt: now.Control,
		Decision: events.Decision{Rule: "ops", Action: Wait, Control: now.Control, Market: now.Market, Inputs: in, Chosen: -1, Detail: why},
	}
}

// ordered carries out what operations ask of the bidder. Freezes and holds need
// nothing: they are looked at before every purchase.
func (s *Service) ordered(ctx context.Context, e events.Event) error {
	f, ok := e.Fact.(events.OpsReapRequested)
	if !ok {
		return nil
	}
	for _, p := range s.sortedPollers() {
		if err := s.reapAll(ctx, p, f); err != nil {
			return fmt.Errorf("reaping for %s: %w", f.By, err)
		}
	}
	return nil
}

// reapAll gives back those of the named machines that one seller has, that carry
// our mark, and that no lease wants.
func (s *Service) reapAll(ctx context.Context, p *poller, f events.OpsReapRequested) error {
	callCtx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	listing, err := p.seller.List(callCtx)
	cancel()
	if err != nil {
		return err
	}
	for _, inst := range listing.Instances {
		if !slices.Contains(f.Instances, inst.ID) || inst.Labels[MarkLabel] != s.cfg.Mark || inst.State == provider.Gone {
			continue
		}
		s.cfg.Logger.Info("reaping on request", zap.String("seller", p.name), zap.String("instance", string(inst.ID)), zap.String("by", f.By), zap.String("reason", f.Reason))
		if err := s.reap(ctx, p, inst); err != nil {
			return err
		}
	}
	return nil
}
