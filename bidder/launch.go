package bidder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// MarkLabel is the label that tells our machines from those of another installation.
const MarkLabel = "env"

// launchSpec is a function of the intent alone: a repeated call is the same call.
func (s *Service) launchSpec(ctx context.Context, l lease) (provider.LaunchSpec, error) {
	data, err := s.cfg.Bootstrap(ctx, l.id.Job(), l.epoch(), l.id)
	if err != nil {
		return provider.LaunchSpec{}, fmt.Errorf("making user data for lease %s: %w", l.id, err)
	}
	return provider.LaunchSpec{
		Pool: l.intent.Offer.Pool, MaxPrice: l.intent.MaxPrice, UserData: data,
		Labels: map[string]string{MarkLabel: s.cfg.Mark, "org": string(l.org), "job": string(l.id.Job()), "lease": string(l.id)},
	}, nil
}

// call asks the seller once and records the answer. Unless the answer is certain the
// lease comes back unknown.
func (s *Service) call(ctx context.Context, p *poller, l lease, spec provider.LaunchSpec) (lease, error) {
	if !s.enter(ctx) {
		return l, ctx.Err()
	}
	began := s.cfg.Now().Control
	callCtx, cancel := context.WithTimeout(traced(ctx, l), s.cfg.Launch)
	inst, callErr := p.seller.Launch(callCtx, spec, string(l.id))
	cancel()
	took := s.cfg.Now().Control.Sub(began)
	s.leave()
	s.cfg.Crash(CrashAfterCall)
	p.kick()
	if callErr == nil {
		s.cfg.Metrics.answered(p.name, "launched", took)
		return s.bought(ctx, l, inst, took, false)
	}
	kind := provider.KindOf(callErr)
	s.cfg.Metrics.answered(p.name, kind.String(), took)
	if !certain(callErr) || l.phase == unknown && !ofTheToken(callErr) {
		if l.phase == unknown {
			return l, ctx.Err()
		}
		return s.recordUntil(ctx, l, func(l lease) bool { return l.phase == intended }, events.LeaseUnknown{Detail: callErr.Error()}, l.newest.ID)
	}
	s.cfg.Crash(CrashBeforeRecord)
	fact := events.LeaseRefused{Kind: kind.String(), Detail: callErr.Error()}
	if e, ok := errors.AsType[*provider.Error](callErr); ok {
		fact.Code = e.Code
	}
	if kind == provider.Auth || kind == provider.Quota || kind == provider.Invalid {
		s.cfg.Logger.Error("a seller needs a person", zap.String("seller", p.name), zap.String("kind", kind.String()), zap.Error(callErr))
	}
	return s.recordUntil(ctx, l, pending, fact, l.newest.ID)
}

// ofTheToken says whether a refusal says something of an earlier launch under the
// same token too. A call that was held back here never reached the seller, and one
// that it was too busy for, or would not read for want of rights, it turned away
// before it looked for the token.
func ofTheToken(err error) bool {
	k := provider.KindOf(err)
	return !errors.Is(err, provider.ErrHeldBack) && k != provider.Throttled && k != provider.Auth && k != provider.Transient
}

// certain says whether a failed launch has surely made no machine.
func certain(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && !e.MaybeCreated && e.Kind != provider.UnknownOutcome && e.Kind != provider.Conflict
}

// bought records a machine that a launch or a list says is ours. One that costs more
// than was agreed is given back at once, before anything runs on it; so is
// one that the seller denied before.
func (s *Service) bought(ctx context.Context, l lease, inst provider.Instance, took time.Duration, found bool) (lease, error) {
	if price := inst.Price(); price > l.intent.MaxPrice {
		reason := fmt.Sprintf("bought at %s an hour, quoted %s, at most %s agreed", price, l.intent.Offer.Price, l.intent.MaxPrice)
		s.cfg.Logger.Warn("not what was quoted", zap.String("lease", string(l.id)), zap.Stringer("pool", inst.Pool), zap.String("why", reason))
		return s.discard(ctx, l, inst.ID, reason)
	}
	s.cfg.Crash(CrashBeforeRecord)
	now := s.cfg.Now()
	fact := events.LeaseLaunched{
		Instance: inst.ID, Price: inst.Price(), Started: inst.Started, BootBy: now.Control.Add(s.cfg.Timers.Boot),
		TookMS: took.Milliseconds(), Found: found,
	}
	if fact.Price == 0 {
		fact.Price = l.intent.Offer.Price
	}
	if fact.Started.IsZero() {
		fact.Started = now.Market
	}
	l, err := s.recordUntil(ctx, l, pending, fact, l.newest.ID)
	if err == nil && l.phase == refused {
		return s.discard(ctx, l, inst.ID, "the seller denied it, then it turned up")
	}
	return l, err
}

// discard gives back a machine that the lease never counted as launched.
func (s *Service) discard(ctx context.Context, l lease, id events.InstanceID, reason string) (lease, error) {
	l, err := s.recordUntil(ctx, l, func(l lease) bool { return pending(l) || l.phase == refused },
		events.LeaseTerminating{Reason: reason, Instance: id, Pool: l.intent.Offer.Pool}, l.newest.ID)
	if err == nil && l.phase == terminating {
		s.startTerminate(l)
	}
	return l, err
}

// enter takes one of the slots for calls that sellers feel; leave gives it back.
func (s *Service) enter(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Service) leave() { <-s.slots }
