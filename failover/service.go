package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/events"
)

// signals is what the service needs of the bus beside events.Log: heartbeats,
// which belong to no aggregate.
type signals interface {
	// WatchSignals calls handle with the newest heartbeat of every job's epoch, then with each new one.
	WatchSignals(ctx context.Context, handle func(job events.JobID, epoch int, hb events.Heartbeat)) error
	// Signal returns the newest heartbeat of a job's epoch, or false.
	Signal(ctx context.Context, org events.OrgID, job events.JobID, epoch int) (events.Heartbeat, bool, error)
}

// logs reads what agents' trainers wrote.
type logs interface {
	// ReadLog returns what was kept at or after since, oldest first, only the last tail
	// lines if that is more than zero.
	ReadLog(ctx context.Context, org events.OrgID, job events.JobID, epoch int, since time.Time, tail int) ([]events.LogBatch, error)
}

// Config of a Service. Every field is required but Logs and Slot.
type Config struct {
	Log     events.Log
	Signals signals
	Logs    logs // nil: last words are kept without lines
	Book    *Book
	Timers  events.Timers
	Now     func() events.Moment
	Logger  *zap.Logger
	// Healthy returns since when the control plane's own connection has been up
	// without a break; silence is counted from then at the earliest.
	Healthy func() time.Time
	// Slot, if set, is called before each timer-driven round: a simulation gives every actor its own instant.
	Slot func()
}

// Service carries what happens to leases and agents into the jobs concerned,
// and lets due times pass.
type Service struct {
	cfg Config

	mu    sync.Mutex
	heard map[events.JobID]map[int]Heard // by epoch: the next machine speaks while the current one still does
	live  map[events.JobID]bool
}

// New returns a Service; Run starts it.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, heard: map[events.JobID]map[int]Heard{}, live: map[events.JobID]bool{}}
}

// Run serves until ctx is cancelled or a part of the service fails, and returns
// nil in the first case. Every goroutine it starts has ended when it returns.
func (s *Service) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watchJobs(gctx) })
	g.Go(func() error {
		return s.cfg.Signals.WatchSignals(gctx, s.heartbeat)
	})
	g.Go(func() error {
		return s.cfg.Log.Consume(gctx, events.Subscription{Name: "failover", Filters: []string{events.FilterLeases}}, s.lease)
	})
	g.Go(func() error {
		return s.cfg.Log.Consume(gctx, events.Subscription{Name: "failover-money", Filters: []string{events.FilterBudgets}}, s.budget)
	})
	g.Go(func() error { return s.sweep(gctx) })
	err := g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil // asked to stop: not a failure
	}
	return err
}

// watchJobs keeps the book warm and knows which jobs still need timers.
func (s *Service) watchJobs(ctx context.Context) error {
	return s.cfg.Log.Consume(ctx, events.Subscription{Filters: []string{events.FilterJobs}}, func(_ context.Context, e events.Event) error {
		j := s.cfg.Book.Observe(e)
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.Closed {
			delete(s.live, j.ID)
			delete(s.heard, j.ID)
		} else if j.ID != "" {
			s.live[j.ID] = true
			maps.DeleteFunc(s.heard[j.ID], func(epoch int, _ Heard) bool { return epoch < j.Epoch })
		}
		return nil
	})
}

// lease carries a lease's fate to its job.
func (s *Service) lease(ctx context.Context, e events.Event) error {
	lease := events.LeaseID(e.Aggregate.ID)
	job := lease.Job()
	if job == "" {
		s.cfg.Logger.Warn("lease of no job", zap.String("lease", string(lease)))
		return nil
	}
	switch e.Fact.(type) {
	case events.LeaseLaunched:
		return s.launched(ctx, job, lease, e)
	case events.LeaseDeclined:
		return s.apply(ctx, job, Declined{Event: e})
	case events.LeaseEnded:
		return s.gone(ctx, job, e)
	}
	return nil
}

// gone carries a lease's end to its job, with what was heard last if the job still was there.
func (s *Service) gone(ctx context.Context, job events.JobID, ended events.Event) error {
	in := Gone{Event: ended}
	j, known := s.cfg.Book.Cached(job)
	if !known { // just started
		j, _ = s.cfg.Book.Job(ctx, job) // apply tells what is wrong
	}
	if j.Current != nil && string(j.Current.Lease) == ended.Aggregate.ID {
		in.Heard = s.heardLast(ctx, j, j.Epoch)
	}
	return s.apply(ctx, job, in)
}

// launched carries a purchase to its job, and with it the lease's end if that is
// known: deliveries overtake each other, and the end of a lease that the job had not heard of
// said nothing to it.
func (s *Service) launched(ctx context.Context, job events.JobID, lease events.LeaseID, e events.Event) error {
	evs, err := s.cfg.Log.Read(ctx, e.Aggregate, 0)
	if err != nil {
		return fmt.Errorf("reading lease %s: %w", lease, err)
	}
	var intent, ended *events.Event
	for i := range evs {
		switch evs[i].Fact.(type) {
		case events.LeaseIntended:
			intent = &evs[i]
		case events.LeaseEnded:
			ended = &evs[i]
		}
	}
	if intent == nil {
		s.cfg.Logger.Error("lease launched without an intent", zap.String("lease", string(lease)))
		return nil
	}
	if err := s.apply(ctx, job, Bought{Lease: lease, Intent: *intent, Launched: e}); err != nil || ended == nil {
		return err
	}
	return s.gone(ctx, job, *ended)
}

func (s *Service) apply(ctx context.Context, job events.JobID, in Input) error {
	_, evs, err := s.cfg.Book.Apply(ctx, job, in)
	if errors.Is(err, ErrNoJob) {
		s.cfg.Logger.Warn("input for a job nobody submitted", zap.String("job", string(job)))
		return nil
	}
	LogTransitions(s.cfg.Logger, evs)
	return err
}

// sweep lets due times pass and judges silence, twice a heartbeat.
func (s *Service) sweep(ctx context.Context) error {
	t := time.NewTicker(s.cfg.Timers.Heartbeat / 2)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if s.cfg.Slot != nil {
			s.cfg.Slot()
		}
		for _, id := range s.jobs() {
			if err := s.check(ctx, id); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("sweeping a job", zap.String("job", string(id)), zap.Error(err))
			}
		}
		s.listen(ctx)
	}
}

func (s *Service) jobs() []events.JobID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]events.JobID, 0, len(s.live))
	for id := range s.live {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// check applies what time alone calls for. It asks the pure Step on the cached
// job first: a round in which nothing is due costs no traffic.
func (s *Service) check(ctx context.Context, id events.JobID) error {
	j, ok := s.cfg.Book.Cached(id)
	if !ok {
		return nil
	}
	now := s.cfg.Now()
	silence := s.silence(j, now.Control, s.heardFrom(j.ID, j.Epoch))
	if _, silent := silence.(Silent); silent { // nobody is given up on the word of a memory
		silence = s.silence(j, now.Control, s.heardLast(ctx, j, j.Epoch))
	}
	for _, in := range []Input{silence, Tick{}} {
		if in == nil {
			continue
		}
		if _, due := Step(j, now, in); len(due) > 0 {
			if err := s.apply(ctx, id, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// LogTransitions writes one line per event appended to a job: enough to replay the choice.
func LogTransitions(log *zap.Logger, evs []events.Event) {
	for _, e := range evs {
		t, _ := events.TypeOf(e.Fact)
		log.Info("job transition", zap.String("job", e.Aggregate.ID), zap.String("event", t.Family+"."+t.Event),
			zap.String("id", string(e.ID)), zap.String("causation", string(e.Causation)),
			zap.Int("owed", len(e.Commands)), zap.Any("fact", withoutOutput(e.Fact)))
	}
}

// withoutOutput leaves out what a trainer wrote: our log is no place for it.
func withoutOutput(f events.Fact) events.Fact {
	switch f := f.(type) {
	case events.JobLastWords:
		f.Lines = nil
		return f
	case events.JobTroubled:
		f.Evidence = nil
		return f
	}
	return f
}
