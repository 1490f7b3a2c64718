package bidder

import (
	"context"
	"fmt"
	"sort"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/budget"
	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
)

// reservation is what stands in the money record for a lease.
type reservation struct {
	amount events.MicroUSD
	until  time.Time // market
}

func purse(a ledger.Account) budget.Account {
	return budget.Account{Limit: a.Limit, Spent: a.Spent, Reserved: a.Reserved}
}

// reserve sets money aside for a purchase, or *budget.Exceeded. What an earlier
// try for the same lease set aside counts; it is topped up where it is too little.
func (s *Service) reserve(ctx context.Context, j job, id events.LeaseID, c events.Candidate, d events.Decision) (reservation, error) {
	if err := s.setBudget(ctx, j); err != nil {
		return reservation{}, err
	}
	var out reservation
	_, err := s.cfg.Book.Append(ctx, j.org, func(st *ledger.State) (*ledger.Draft, error) {
		fact, r, err := reserveIn(st, j.id, id, c, d)
		out = r
		if err != nil || fact == nil {
			return nil, err
		}
		return draft(j, fact), nil
	})
	if err != nil {
		return reservation{}, fmt.Errorf("reserving for lease %s: %w", id, err)
	}
	return out, nil
}

// setBudget writes the job's limit down once, from its submission.
func (s *Service) setBudget(ctx context.Context, j job) error {
	set := false
	s.cfg.Book.Peek(j.org, func(st *ledger.State) { set = st.Account(j.id).Set })
	if set { // what was set stays set
		return nil
	}
	_, err := s.cfg.Book.Append(ctx, j.org, func(st *ledger.State) (*ledger.Draft, error) {
		if st.Account(j.id).Set {
			return nil, nil
		}
		return draft(j, events.BudgetSet{Job: j.id, Limit: j.spec.Policy.Budget, By: j.by, Reason: "submission"}), nil
	})
	return err
}

func draft(j job, f events.Fact) *ledger.Draft {
	return &ledger.Draft{Fact: f, Attribution: j.owner, Correlation: j.id, Causation: j.newest.ID}
}

// reserveIn decides on the money record as it stands: the fact to add, if any, and the
// reservation that there is then.
func reserveIn(st *ledger.State, jobID events.JobID, id events.LeaseID, c events.Candidate, d events.Decision) (events.Fact, reservation, error) {
	a := purse(st.Account(jobID))
	have, known := st.Lease(id)
	if known && have.Phase != ledger.Open {
		return nil, reservation{}, fmt.Errorf("lease %s is closed in the money record", id)
	}
	teardown := time.Duration(d.Inputs.TeardownS) * time.Second
	least := time.Duration(min(d.Inputs.RestartS+d.Inputs.TeardownS, d.Inputs.HorizonS)) * time.Second
	until, ok := budget.Horizon(a.Free()+have.Reserved, c.Max, d.Market, least, time.Duration(d.Inputs.HorizonS)*time.Second, c.Offer.Terms, teardown)
	if !ok {
		return nil, reservation{}, &budget.Exceeded{Account: a, Wanted: budget.Exposure(c.Max, d.Market, d.Market.Add(least), c.Offer.Terms, teardown) - have.Reserved}
	}
	if have.PaidTill.After(until) {
		until = have.PaidTill
	}
	r := reservation{max(budget.Exposure(c.Max, d.Market, until, c.Offer.Terms, teardown), have.Reserved), until}
	add := r.amount - have.Reserved
	if err := a.Check(add); err != nil {
		return nil, reservation{}, err
	}
	switch {
	case !known:
		return events.MoneyReserved{Job: jobID, Lease: id, Amount: r.amount, Price: c.Max, PaidTill: until, Terms: c.Offer.Terms}, r, nil
	case add > 0 || until.After(have.PaidTill):
		return events.MoneyExtended{Job: jobID, Lease: id, Amount: add, PaidTill: until}, r, nil
	}
	return nil, r, nil
}

// payOn extends the reservation of a machine in use before it runs out. When the
// budget refuses, the job is told in time to save and stop; a machine that is
// still there when its money ends is given back. A limit that was lowered below
// what is committed ends the money sooner: the job is told as soon as what is left
// of it does not cover an orderly stop, and the reservation pays for that stop.
func (s *Service) payOn(ctx context.Context, l lease, j job, now events.Moment) error {
	var money ledger.Lease
	var short events.MicroUSD                       // by which the limit is exceeded by what is committed
	s.cfg.Book.Peek(l.org, func(st *ledger.State) { // the sweep has just looked
		money, _ = st.Lease(l.id)
		short = max(-purse(st.Account(l.id.Job())).Free(), 0)
	})
	stop := s.stopTime(j)
	if money.Phase != ledger.Open || (short == 0 && money.PaidTill.Sub(now.Market) > 2*stop) {
		return nil
	}
	if short == 0 && !j.over && (l.id == j.lease || l.epoch() > j.epoch) {
		until, err := s.extend(ctx, l, j, now)
		if err != nil {
			return err
		}
		money.PaidTill = until
	}
	switch left := s.coveredTill(l, money, short, now).Sub(now.Market); {
	case !now.Market.Before(money.PaidTill), left <= 0 && l.epoch() > j.epoch:
		return s.giveBack(ctx, l, string(events.OutOfBudget))
	case left <= stop && l.id == j.lease && !j.over && !j.stopping:
		return s.tellOutOfBudget(ctx, j, money, now)
	}
	return nil
}

// stopTime is the market time that an orderly save and stop of a job may take: as
// long as failover waits for it, which is the grace of the job's own trainer if that is longer.
func (s *Service) stopTime(j job) time.Duration {
	return s.market(max(s.cfg.Stop, time.Duration(j.spec.Policy.Checkpoint.GraceS)*time.Second))
}

// horizon is the market time that a job's machine is paid ahead.
func (s *Service) horizon(j job) time.Duration { return max(s.cfg.Horizon, 6*s.stopTime(j)) }

// coveredTill is until when a machine is paid for: as reserved, or, when the limit
// is short of what is committed, until its worst case has used up the rest.
func (s *Service) coveredTill(l lease, money ledger.Lease, short events.MicroUSD, now events.Moment) time.Time {
	if short == 0 {
		return money.PaidTill
	}
	bound := s.bound(l, money)
	return longest(now.Market, money.PaidTill, func(t time.Time) bool { return bound(t) <= money.Reserved-short })
}

// bound returns what a machine can come to at worst if it is paid for until a time.
func (s *Service) bound(l lease, money ledger.Lease) func(time.Time) events.MicroUSD {
	seen := s.seen(l)
	return func(t time.Time) events.MicroUSD {
		return budget.Continue(seen.prices, l.launch.Started, seen.at, t, money.Price, money.Terms, s.market(s.cfg.Teardown))
	}
}

// extend pays a machine further ahead if the budget bears it, by what it has really cost so
// far and the worst case of the rest. It returns until when the machine is paid then.
func (s *Service) extend(ctx context.Context, l lease, j job, now events.Moment) (time.Time, error) {
	var until time.Time
	_, err := s.cfg.Book.Append(ctx, l.org, func(st *ledger.State) (*ledger.Draft, error) {
		money, _ := st.Lease(l.id)
		until = money.PaidTill
		if money.Phase != ledger.Open {
			return nil, nil
		}
		bound := s.bound(l, money)
		most := money.Reserved + max(purse(st.Account(j.id)).Free(), 0)
		to := longest(money.PaidTill, now.Market.Add(s.horizon(j)), func(t time.Time) bool { return bound(t) <= most })
		if to.Sub(money.PaidTill) < s.stopTime(j) {
			return nil, nil // too little to be worth an event; the end is near
		}
		until = to
		return draft(j, events.MoneyExtended{Job: j.id, Lease: l.id, Amount: max(bound(to)-money.Reserved, 0), PaidTill: to}), nil
	})
	return until, err
}

// longest is the latest second from from to to that fits; from if none does.
func longest(from, to time.Time, fits func(time.Time) bool) time.Time {
	n := max(int(to.Sub(from)/time.Second), 0)
	i := sort.Search(n, func(i int) bool { return !fits(from.Add(time.Duration(i+1) * time.Second)) })
	return from.Add(time.Duration(i) * time.Second)
}

// tellOutOfBudget declines the next lease of the current epoch, once: failover then has the job save and stop.
func (s *Service) tellOutOfBudget(ctx context.Context, j job, money ledger.Lease, now events.Moment) error {
	for _, l := range s.world.leasesOf(j.id) {
		if l.epoch() == j.epoch && l.phase == declined && l.decline.Reason == string(events.OutOfBudget) {
			return nil
		}
	}
	l, err := s.freshLease(ctx, j.org, j.id.Lease(j.epoch, s.world.nextN(j.id, j.epoch)))
	if err != nil || l.phase != absent {
		return err
	}
	sit, err := s.situation(ctx, j, now, nil)
	if err != nil {
		return err
	}
	free := sit.Inputs.Budget - sit.Inputs.Spent - sit.Inputs.Reserved
	detail := fmt.Sprintf("paid until %s market time and the budget does not bear more: %s free of %s",
		money.PaidTill.UTC().Format(time.RFC3339), free.Dollars(), sit.Inputs.Budget.Dollars())
	if free < 0 {
		detail = fmt.Sprintf("the budget of %s is below what is spent (%s) and reserved (%s)", sit.Inputs.Budget.Dollars(), sit.Inputs.Spent.Dollars(), sit.Inputs.Reserved.Dollars())
	}
	s.cfg.Logger.Warn("the budget is at its end", zap.String("job", string(j.id)), zap.String("lease", string(money.ID)), zap.String("why", detail))
	_, err = s.record(ctx, l, events.LeaseDeclined{
		Job: j.id, Epoch: j.epoch, N: l.n(), Reason: string(events.OutOfBudget), Detail: detail, RetryAt: now.Control,
		Decision: events.Decision{Rule: "budget-guard", Action: Stop, Reason: string(events.OutOfBudget), Control: now.Control, Market: now.Market, Inputs: sit.Inputs, Chosen: -1, Detail: detail},
	}, j.newest.ID)
	return err
}
