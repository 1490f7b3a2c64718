package bidder

import (
	"context"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// told takes a job event that the shared consumer handed to this replica. It
// only starts work, and whoever does the work reads the job anew: a thousand
// events in a row must not wait for a thousand answers of the log. What is owed
// stays in the log until it is answered.
func (s *Service) told(_ context.Context, e events.Event) error {
	s.world.apply(e)
	j, _ := s.world.job(events.JobID(e.Aggregate.ID))
	s.drive(j)
	if f, ok := e.Fact.(events.JobCommitted); ok && f.Epoch == j.epoch && j.moves() {
		s.begin("move-"+string(j.id), func(ctx context.Context) error { return s.reconsider(ctx, e.Aggregate) })
	}
	return nil
}

// begin starts a task under a key, and repeats it while it fails.
func (s *Service) begin(key string, task func(context.Context) error) {
	s.flights.start(key, func(ctx context.Context) {
		s.attempts(ctx, key, func() error { return task(ctx) })
	})
}

// drive starts everything that a job's newest event owes and nobody here is at.
func (s *Service) drive(j job) {
	for _, c := range j.newest.Commands {
		switch c.Kind {
		case events.Acquire:
			s.begin("acquire-"+string(j.id), func(ctx context.Context) error { return s.acquire(ctx, events.JobAggregate(j.org, j.id)) })
		case events.Release:
			if s.world.lease(c.Lease).phase != ended {
				s.begin("release-"+string(c.Lease), func(ctx context.Context) error { return s.release(ctx, j.org, c) })
			}
		}
	}
}

// attempts repeats a task that failed for a reason of the bus, with growing pauses.
func (s *Service) attempts(ctx context.Context, key string, task func() error) {
	for pause := s.cfg.Timers.Heartbeat / 5; ctx.Err() == nil; pause = min(2*pause, s.cfg.Timers.Hold) {
		s.cfg.Turn(key)
		err := task()
		if err == nil || ctx.Err() != nil {
			return
		}
		s.cfg.Logger.Warn("task failed, trying again", zap.String("task", key), zap.Duration("in", pause), zap.Error(err))
		sleep(ctx, pause)
	}
}

// sweep takes over what is owed for long, pays machines on, and lets go of the
// leases of closed jobs.
func (s *Service) sweep(ctx context.Context) error {
	first := true
	for ctx.Err() == nil {
		s.cfg.Turn("bidder")
		now := s.cfg.Now()
		for _, j := range s.world.jobList() {
			if first || now.Control.Sub(j.newest.Time) > s.cfg.Takeover {
				s.drive(j)
			}
		}
		for _, org := range s.world.orgs() {
			if err := s.closeIdleReservations(ctx, org, now); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("closing reservations", zap.String("org", string(org)), zap.Error(err))
			}
		}
		for _, l := range s.world.openLeases(lease.hasMachine) {
			if err := s.tend(ctx, l, now); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("tending a lease", zap.String("lease", string(l.id)), zap.Error(err))
			}
		}
		first = false
		sleep(ctx, s.cfg.Timers.Heartbeat/2)
	}
	return ctx.Err()
}

// tend does for one machine what time alone calls for.
func (s *Service) tend(ctx context.Context, l lease, now events.Moment) error {
	if l.phase == terminating {
		s.startTerminate(l)
		return nil
	}
	j, known := s.world.job(l.id.Job())
	if known && j.closed {
		return s.giveBack(ctx, l, "the job is closed")
	}
	return s.payOn(ctx, l, j, now)
}
