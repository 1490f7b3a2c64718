package bidder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/budget"
	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
)

// errand is one job's purchase, from the first command until none is owed any more.
type errand struct {
	s       *Service
	a       events.Aggregate // the job
	command string
	tried   []events.Pool           // refused under this command
	called  map[events.LeaseID]bool // launches made or repeated by this errand
}

// acquire buys for a job until its newest event owes no machine. It is the only
// one at it in this process; another process that is at it too meets it at the
// expectation of the lease's aggregate and at the seller's token.
func (s *Service) acquire(ctx context.Context, a events.Aggregate) error {
	e := &errand{s: s, a: a, called: map[events.LeaseID]bool{}}
	for ctx.Err() == nil {
		changed, market := s.world.change(events.JobID(a.ID)), s.cfg.Market.Changed()
		j, err := s.freshJob(ctx, a)
		if err != nil {
			return err
		}
		owed := events.Owed(j.newest, events.Acquire)
		if len(owed) == 0 {
			return nil
		}
		next, err := e.advance(ctx, j, owed[0])
		if err != nil {
			return err
		}
		if next.after > 0 {
			if !next.market {
				market = nil
			}
			s.pause(ctx, next.after, changed, market)
			s.cfg.Turn("acquire-" + a.ID)
		}
	}
	return nil
}

// next says when an errand goes on: after a time at the latest, earlier when the
// job changes, or the market if market is set. Zero: at once.
type next struct {
	after  time.Duration
	market bool
}

// pause waits for after, for a change of the job, or for one of the market. The market's is
// answered a fifth of a heartbeat later, so that a burst of changes is one.
func (s *Service) pause(ctx context.Context, after time.Duration, changed, market <-chan struct{}) {
	t := time.NewTimer(after)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
		return
	case <-changed:
		return
	case <-market:
	}
	burst := time.NewTimer(s.cfg.Timers.Heartbeat / 5)
	defer burst.Stop()
	// What else was due at the same instant counts too, whichever came first.
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-changed:
	case <-burst.C:
	}
}

// advance makes one step: the first lease of the command whose fate is open decides which.
func (e *errand) advance(ctx context.Context, j job, c events.Command) (next, error) {
	if c.ID != e.command {
		e.command, e.tried = c.ID, nil
	}
	answered := next{after: e.s.cfg.Takeover}
	for n := max(c.N, 1); ; n++ {
		l, err := e.s.freshLease(ctx, j.org, j.id.Lease(c.Epoch, n))
		if err != nil {
			return next{}, err
		}
		switch l.phase {
		case absent:
			if rest := c.NotTill.Sub(e.s.cfg.Now().Control); rest > 0 {
				return next{after: rest}, nil // whatever the market does
			}
			return e.decide(ctx, j, c, l)
		case intended, unknown:
			if !e.called[l.id] {
				e.called[l.id] = true
				return next{}, e.s.launch(ctx, l)
			}
		case refused:
			e.tried = append(e.tried, l.intent.Offer.Pool)
		case launched:
			return answered, nil
		case declined:
			// An answer that came while nothing was wanted was heard by nobody. One that
			// is owed again long after is given again, under the next lease id.
			if l.decline.Reason != superseded && e.s.cfg.Now().Control.Sub(l.newest.Time) < e.s.cfg.Takeover {
				return answered, nil
			}
		case terminating, ended:
			if l.launch.Instance != "" {
				return answered, nil
			}
		}
	}
}

// superseded is the reason of a decline that answers nothing: it only closes a lease id.
const superseded = "superseded"

func (e *errand) decide(ctx context.Context, j job, c events.Command, l lease) (next, error) {
	s := e.s
	now := s.cfg.Now()
	sit, err := s.situation(ctx, j, now, without(c, e.tried))
	if err != nil {
		return next{}, err
	}
	d := Decide(sit)
	s.cfg.Metrics.decided(d)
	if d.Action == Buy {
		l, after, err := s.purchase(ctx, j, l, d, c.Purpose)
		if err != nil || l.phase != intended {
			return after, err // what another replica made of this lease is looked at next
		}
		e.called[l.id] = true
		return after, s.launch(ctx, l)
	}
	if before := s.world.lease(j.id.Lease(c.Epoch, max(l.n()-1, 1))); d.Action == Wait && before.phase == declined &&
		before.decline.Reason == d.Reason && now.Control.Sub(before.newest.Time) < s.cfg.Timers.GC {
		return next{after: max(d.RetryAt.Sub(now.Control), time.Millisecond), market: true}, nil // the job knows already
	}
	_, err = s.record(ctx, l, events.LeaseDeclined{
		Job: j.id, Epoch: c.Epoch, N: l.n(), Reason: d.Reason, Detail: d.Detail, RetryAt: d.RetryAt, Decision: d,
	}, j.newest.ID)
	return next{}, err
}

// purchase reserves and writes the intent. The lease comes back intended when
// its machine is to be launched now, by whoever wrote the intent.
func (s *Service) purchase(ctx context.Context, j job, l lease, d events.Decision, purpose events.Purpose) (lease, next, error) {
	s.cfg.Crash(CrashBeforeIntent)
	c := d.Candidates[d.Chosen]
	money, err := s.reserve(ctx, j, l.id, c, d)
	if over, ok := errors.AsType[*budget.Exceeded](err); ok {
		s.cfg.Logger.Info("the money went elsewhere meanwhile", zap.String("job", string(j.id)), zap.Error(over))
		return l, next{after: s.cfg.Timers.Heartbeat / 5}, nil
	}
	if err != nil {
		return l, next{}, err
	}
	s.cfg.Crash(CrashReserved)
	l, err = s.record(ctx, l, events.LeaseIntended{
		Job: j.id, Epoch: l.epoch(), N: l.n(), Purpose: purpose, Offer: c.Offer, MaxPrice: c.Max,
		Reserved: money.amount, PaidTill: money.until, Decision: d,
	}, j.newest.ID)
	if err != nil {
		return l, next{}, err
	}
	if l.phase == refused || l.phase == declined { // another replica closed this lease id
		return l, next{}, s.releaseMoney(ctx, j.org, ledger.Lease{ID: l.id, Job: j.id})
	}
	if l.phase == intended {
		s.cfg.Crash(CrashAfterIntent)
	}
	return l, next{}, nil
}

// reconsider weighs a voluntary move after a commit, and buys the machine for it.
// Nobody owes this purchase: if it comes to nothing it is not repeated.
func (s *Service) reconsider(ctx context.Context, a events.Aggregate) error {
	j, err := s.freshJob(ctx, a)
	if err != nil || !j.moves() {
		return err
	}
	cur := s.world.lease(j.lease)
	if cur.phase != launched || s.buying(j) {
		return nil
	}
	sit, err := s.situation(ctx, j, s.cfg.Now(), nil)
	if err != nil {
		return err
	}
	in := &sit.Inputs
	in.Voluntary, in.GPU, in.SpeedPct = true, cur.intent.Offer.GPU.Model, cur.intent.Offer.SpeedPct
	in.Current = &events.Side{Epoch: j.epoch, Lease: j.lease, Pool: cur.intent.Offer.Pool, Price: s.priceNow(cur)}
	d := Decide(sit)
	s.cfg.Metrics.decided(d)
	if d.Action != Move {
		s.cfg.Logger.Debug("staying", zap.String("job", string(j.id)), zap.String("why", d.Detail))
		return nil
	}
	l, err := s.freshLease(ctx, j.org, j.id.Lease(j.epoch+1, s.world.nextN(j.id, j.epoch+1)))
	if err != nil || l.phase != absent {
		return err
	}
	l, _, err = s.purchase(ctx, j, l, d, PurposeOf(*in.Current, d.Candidates[d.Chosen]))
	if err != nil || l.phase != intended {
		return err
	}
	return s.launch(ctx, l)
}

// buying says whether a machine for a later epoch is on its way.
func (s *Service) buying(j job) bool {
	for _, l := range s.world.leasesOf(j.id) {
		if l.open() && l.epoch() > j.epoch {
			return true
		}
	}
	return false
}

// launch makes the paid call of an intent, or repeats it after an answer that was lost.
func (s *Service) launch(ctx context.Context, l lease) error {
	p, ok := s.pollers[l.intent.Offer.Pool.Seller]
	if !ok {
		_, err := s.recordUntil(ctx, l, pending, events.LeaseRefused{Kind: "invalid", Detail: fmt.Sprintf("no seller %q is configured", l.intent.Offer.Pool.Seller)}, l.newest.ID)
		return err
	}
	spec, err := s.launchSpec(ctx, l)
	if err != nil {
		return err
	}
	for try := range launchTries {
		if j, err := s.freshJob(ctx, events.JobAggregate(l.org, l.id.Job())); err != nil || j.over {
			return err // the poller finds out what became of it
		}
		if try > 0 && !sleep(ctx, s.cfg.Timers.Heartbeat/5<<try) {
			return ctx.Err()
		}
		if try > 0 {
			s.cfg.Turn("acquire-" + string(l.id.Job()))
		}
		if stop, err := s.barred(ctx, l); err != nil || stop {
			return err
		}
		l, err = s.call(ctx, p, l, spec)
		if err != nil || !pending(l) {
			return err
		}
	}
	return nil
}

// launchTries is how often a launch without an answer is repeated before another
// machine is sought; the poller goes on looking for the first.
const launchTries = 3

// pending says whether nobody knows yet what a launch came to.
func pending(l lease) bool { return l.phase == intended || l.phase == unknown }
