package bidder

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// stray is a machine with our mark that no lease owns.
type stray struct {
	first time.Time // control
	lists int       // complete ones that had it, after the settle time
}

// listsToReap is how many complete lists must have a stray before it is given back.
const listsToReap = 2

// suspect counts a stray, and gives it back when two complete lists had it that
// are older than its intent, or its first sight, and the settle time.
func (s *Service) suspect(ctx context.Context, p *poller, inst provider.Instance, complete bool, now events.Moment) error {
	since := s.world.lease(events.LeaseID(inst.Token)).intentAt
	p.mu.Lock()
	st, ok := p.strays[inst.ID]
	if !ok {
		st = &stray{first: now.Control}
		p.strays[inst.ID] = st
	}
	if since.IsZero() {
		since = st.first
	}
	if complete && !now.Control.Before(since.Add(s.cfg.Timers.Settle)) {
		st.lists++
	}
	due := st.lists >= listsToReap
	p.mu.Unlock()
	if !due {
		return nil
	}
	return s.reap(ctx, p, inst)
}

// reap gives a stray back and sees that it is paid for. The intent is read once
// more from the log before. A stray whose lease id is free, or was denied, takes that id; a second
// machine under one token takes the next free id of its epoch. A stray of no
// job is ended without a record but the log line.
func (s *Service) reap(ctx context.Context, p *poller, inst provider.Instance) error {
	id := events.LeaseID(inst.Token)
	jobID, epoch, _, err := id.Parts()
	org := events.OrgID(inst.Labels["org"])
	if j, ok := s.world.job(jobID); ok {
		org = j.org
	}
	if err != nil || events.CheckToken("org", string(org)) != nil {
		if inst.State == provider.Gone {
			return nil
		}
		s.strayed(p, inst, "", "its token names no lease")
		return s.askEnd(ctx, p, inst.ID)
	}
	l, err := s.freshLease(ctx, org, id)
	if err != nil || pending(l) || l.instance == inst.ID && l.phase != ended {
		return err
	}
	s.cfg.Crash(CrashBeforeAdopt)
	for l.hasMachine() || l.phase == ended {
		if owner, ok := s.world.leaseOf(inst.ID); ok && owner.phase != ended {
			return nil // another replica was first
		}
		if l, err = s.freshLease(ctx, org, jobID.Lease(epoch, s.world.nextN(jobID, epoch))); err != nil {
			return err
		}
	}
	reason := fmt.Sprintf("stray: token %s, in no lease", inst.Token)
	l, err = s.record(ctx, l, events.LeaseTerminating{Reason: reason, Instance: inst.ID, Pool: inst.Pool}, l.newest.ID)
	if err != nil || l.phase != terminating || l.instance != inst.ID {
		return err // a race was lost; the next list shows how it stands
	}
	s.strayed(p, inst, l.id, reason)
	s.startTerminate(l)
	return nil
}

func (s *Service) strayed(p *poller, inst provider.Instance, l events.LeaseID, reason string) {
	s.cfg.Metrics.stray(p.name)
	s.cfg.Logger.Error("giving back a machine that nobody ordered", zap.String("seller", p.name), zap.String("instance", string(inst.ID)),
		zap.String("token", inst.Token), zap.String("lease", string(l)), zap.Stringer("pool", inst.Pool), zap.String("why", reason))
}

// closeIdleReservations gives back money that was set aside for nothing: a
// service died between the reservation and the intent, or another one closed the
// lease id in between, when the ledger had nothing to release yet.
func (s *Service) closeIdleReservations(ctx context.Context, org events.OrgID, now events.Moment) error {
	var open []ledger.Lease
	if err := s.cfg.Book.View(ctx, org, func(st *ledger.State) { open = st.OpenLeases() }); err != nil {
		return err
	}
	for _, m := range open {
		if now.Control.Sub(m.Opened) < s.cfg.Takeover+s.cfg.Timers.Heartbeat {
			continue
		}
		switch s.world.lease(m.ID).phase {
		case absent:
			if err := s.closeIdle(ctx, org, m, now); err != nil {
				return err
			}
		case refused, declined:
			if err := s.releaseMoney(ctx, org, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeIdle declines a lease that nobody is at any more; the ledger then releases the money.
func (s *Service) closeIdle(ctx context.Context, org events.OrgID, m ledger.Lease, now events.Moment) error {
	j, _ := s.world.job(m.Job)
	if s.flights.has("acquire-"+string(m.Job)) || s.flights.has("move-"+string(m.Job)) || len(events.Owed(j.newest, events.Acquire)) > 0 {
		return nil
	}
	l, err := s.freshLease(ctx, org, m.ID)
	if err != nil || l.phase != absent {
		return err
	}
	_, err = s.record(ctx, l, events.LeaseDeclined{
		Job: m.Job, Epoch: l.epoch(), N: l.n(), Reason: superseded, Detail: "money was set aside and nothing was bought", RetryAt: now.Control,
		Decision: events.Decision{Rule: "reaper", Action: Wait, Control: now.Control, Market: now.Market, Chosen: -1},
	}, j.newest.ID)
	return err
}

// releaseMoney releases the reservation of a lease that is closed without a machine.
func (s *Service) releaseMoney(ctx context.Context, org events.OrgID, m ledger.Lease) error {
	l, err := s.freshLease(ctx, org, m.ID)
	if err != nil || (l.phase != refused && l.phase != declined) {
		return err
	}
	_, err = s.cfg.Book.Append(ctx, org, func(st *ledger.State) (*ledger.Draft, error) {
		if have, ok := st.Lease(m.ID); !ok || have.Phase != ledger.Open {
			return nil, nil
		}
		return &ledger.Draft{
			Fact:        events.MoneyReleased{Job: m.Job, Lease: m.ID, Reason: string(l.phase)},
			Attribution: s.ownerOf(l), Correlation: m.Job, Causation: l.newest.ID,
		}, nil
	})
	return err
}
