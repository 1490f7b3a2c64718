package bidder

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

const source = "/spotferry/bidder"

// freshJob reads what is new of a job and returns it; one that nobody submitted is empty.
func (s *Service) freshJob(ctx context.Context, a events.Aggregate) (job, error) {
	id := events.JobID(a.ID)
	j, _ := s.world.job(id)
	fresh, err := s.cfg.Log.Read(ctx, a, j.newest.Position)
	if err != nil {
		return job{}, fmt.Errorf("reading job %s: %w", id, err)
	}
	for _, e := range fresh {
		s.world.apply(e)
	}
	j, _ = s.world.job(id)
	return j, nil
}

// freshLease reads a lease anew; one without events is absent.
func (s *Service) freshLease(ctx context.Context, org events.OrgID, id events.LeaseID) (lease, error) {
	all, err := s.cfg.Log.Read(ctx, events.LeaseAggregate(org, id), 0)
	if err != nil {
		return lease{}, fmt.Errorf("reading lease %s: %w", id, err)
	}
	l := lease{id: id, org: org}
	for _, e := range all {
		l = l.apply(e)
		s.world.apply(e)
	}
	return l, nil
}

// estimated is an end that the seller never confirmed: the charge stays provisional.
type estimated struct{ events.LeaseEnded }

// record appends a fact to a lease as it was last seen and returns the lease
// afterwards. Losing a race, or the answer, is no error: the lease is returned as it
// stands, and the caller looks whether that is what it wanted.
func (s *Service) record(ctx context.Context, l lease, fact events.Fact, cause events.EventID) (lease, error) {
	var prev *events.Event
	if l.phase != absent {
		prev = &l.newest
	}
	guess, isGuess := fact.(estimated)
	if isGuess {
		fact = guess.LeaseEnded
	}
	e, err := events.Follow(events.LeaseAggregate(l.org, l.id), prev, fact)
	if err != nil {
		return l, err
	}
	e.Source, e.Time, e.Causation, e.Correlation = source, s.cfg.Now().Control, cause, string(l.id.Job())
	e.Attribution, e.Trace = s.ownerOf(l), s.traceOf(l)
	if isGuess {
		e.Finality = events.Provisional
	}
	e, err = s.cfg.Log.Append(ctx, l.newest.Position, e)
	switch {
	case err == nil:
		s.world.apply(e)
		l = l.apply(e)
		s.logLease(l, fact)
		return l, nil
	case errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrUnknown):
		return s.freshLease(ctx, l.org, l.id)
	}
	return l, fmt.Errorf("appending %T to lease %s: %w", fact, l.id, err)
}

// recordUntil repeats record while the lease stands as want says and the fact is not there.
func (s *Service) recordUntil(ctx context.Context, l lease, want func(lease) bool, fact events.Fact, cause events.EventID) (lease, error) {
	for want(l) {
		next, err := s.record(ctx, l, fact, cause)
		if err != nil || ctx.Err() != nil {
			return next, err
		}
		l = next
	}
	return l, nil
}

func (s *Service) ownerOf(l lease) events.Attribution {
	if l.newest.Attribution.Org != "" {
		return l.newest.Attribution
	}
	if j, ok := s.world.job(l.id.Job()); ok {
		return j.owner
	}
	return events.Attribution{Org: l.org}
}

func (s *Service) logLease(l lease, fact events.Fact) {
	row, _ := events.TypeOf(fact)
	fields := []zap.Field{
		zap.String("job", string(l.id.Job())), zap.String("lease", string(l.id)), zap.String("event", row.Family+"."+row.Event),
		zap.String("id", string(l.newest.ID)),
	}
	switch f := fact.(type) {
	case events.LeaseIntended:
		fields = append(fields, zap.Stringer("pool", f.Offer.Pool), zap.Stringer("price", f.Offer.Price), zap.Stringer("max_price", f.MaxPrice),
			zap.Stringer("reserved", f.Reserved), zap.Time("market_paid_until", f.PaidTill), zap.String("rule", f.Decision.Rule),
			zap.String("why", f.Decision.Detail), zap.Int("candidates", len(f.Decision.Candidates)))
	case events.LeaseDeclined:
		fields = append(fields, zap.String("reason", f.Reason), zap.String("why", f.Detail), zap.Time("retry_at", f.RetryAt), zap.Int("candidates", len(f.Decision.Candidates)))
	case events.LeaseRefused:
		fields = append(fields, zap.Stringer("pool", l.intent.Offer.Pool), zap.String("kind", f.Kind), zap.String("why", f.Detail))
	case events.LeaseUnknown:
		fields = append(fields, zap.Stringer("pool", l.intent.Offer.Pool), zap.String("why", f.Detail))
	case events.LeaseLaunched:
		fields = append(fields, zap.Stringer("pool", l.intent.Offer.Pool), zap.String("instance", string(f.Instance)), zap.Stringer("price", f.Price),
			zap.Int64("took_ms", f.TookMS), zap.Bool("found", f.Found))
	case events.LeaseTerminating:
		fields = append(fields, zap.String("why", f.Reason), zap.String("instance", string(l.instance)))
	case events.LeaseEnded:
		fields = append(fields, zap.String("instance", string(f.Instance)), zap.String("by", f.EndedBy), zap.Time("market_end", f.Ended))
	}
	s.cfg.Logger.Info("lease transition", fields...)
}
