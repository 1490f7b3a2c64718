package console

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Budget is what a job may cost, what it has, and who said so.
type Budget struct {
	Job      events.JobID    `json:"job"`
	Name     string          `json:"name"`
	Status   string          `json:"status"`
	Limit    events.MicroUSD `json:"budget"`
	Spent    events.MicroUSD `json:"spent"`    // charged
	Reserved events.MicroUSD `json:"reserved"` // the most that machines in use can come to
	Free     events.MicroUSD `json:"free"`     // negative: the limit is below what is spent and reserved
	Overrun  events.MicroUSD `json:"overrun"`
	Limits   []Limit         `json:"limits"` // every one there was, oldest first
}

// Limit is what a job might cost from a time on.
type Limit struct {
	Amount events.MicroUSD `json:"amount"`
	By     string          `json:"by"`
	Reason string          `json:"reason"`
	At     time.Time       `json:"at"`
}

func (s *Server) budgets(ctx context.Context, job string) (out []Budget, err error) {
	out = []Budget{}
	e := s.cfg.Money.View(ctx, s.cfg.Org, func(money *ledger.State) {
		s.model.mu.Lock()
		defer s.model.mu.Unlock()
		ids := s.model.order
		if job != "" {
			r, p := s.model.find(job)
			if p != nil {
				err = p
				return
			}
			ids = []events.JobID{r.job.ID}
		}
		for _, id := range ids {
			out = append(out, budgetOf(s.model.jobs[id].job, money))
		}
	})
	if e != nil {
		return nil, e
	}
	return out, err
}

func budgetOf(j failover.Job, money *ledger.State) Budget {
	a := money.Account(j.ID)
	b := Budget{
		Job: j.ID, Name: j.Spec.Name, Status: j.Status(), Limit: a.Limit, Spent: a.Spent, Reserved: a.Reserved,
		Overrun: a.Overrun, Limits: []Limit{},
	}
	for _, l := range money.Limits(j.ID) {
		b.Limits = append(b.Limits, Limit(l))
	}
	if !a.Set { // nothing was bought yet
		b.Limit = j.Spec.Policy.Budget
		b.Limits = append(b.Limits, Limit{b.Limit, j.By, "submission", j.Submitted.Control})
	}
	b.Free = b.Limit - b.Spent - b.Reserved
	return b
}

// setBudget gives a job another limit, at any time until it has ended. One below
// what is spent and reserved is taken too: the bidder then pays nothing on, and has
// the job save and stop.
func (s *Server) setBudget(ctx context.Context, who asker, r BudgetRequest) (Budget, error) {
	reason, err := because(DoBudget, r.Reason)
	if err != nil {
		return Budget{}, err
	}
	if r.Limit <= 0 {
		return Budget{}, &Problem{Code: "invalid", Message: fmt.Sprintf("a budget of %s is no limit", r.Limit.Dollars()), Remedy: "to stop a job now, pause or cancel it"}
	}
	id, err := with(s, r.Job, func(r *jobRecord) (events.JobID, error) { return r.job.ID, nil })
	if err != nil {
		return Budget{}, err
	}
	j, err := s.cfg.Book.Job(ctx, id)
	if err != nil {
		return Budget{}, err
	}
	if j.Over() {
		return Budget{}, &Problem{Code: "conflict", Message: fmt.Sprintf("job %s has already ended: %s", id, j.Outcome), Remedy: "what it has cost stands: 'spotferry bill show'"}
	}
	done := false
	_, err = s.cfg.Money.Append(ctx, s.cfg.Org, func(st *ledger.State) (*ledger.Draft, error) {
		// An answer that was lost is not asked for twice: then it stands there already.
		if l := st.Limits(id); done && len(l) > 0 && l[len(l)-1].Amount == r.Limit && l[len(l)-1].By == who.name && l[len(l)-1].Reason == reason {
			return nil, nil
		}
		done = true
		return &ledger.Draft{
			Fact: events.BudgetSet{Job: id, Limit: r.Limit, By: who.name, Reason: reason}, Attribution: j.Attribution, Correlation: id,
		}, nil
	})
	if err != nil {
		return Budget{}, err
	}
	s.cfg.Logger.Info("budget set", zap.String("job", string(id)), zap.Stringer("limit", r.Limit), zap.String("by", who.name), zap.String("reason", reason))
	var out Budget
	if err = s.cfg.Money.View(ctx, s.cfg.Org, func(st *ledger.State) { out = budgetOf(j, st) }); err != nil || out.Free <= 0 {
		return out, err
	}
	if j.Phase == failover.Paused && j.Pause.Reason == events.PausedByBudget {
		var evs []events.Event
		j, evs, err = s.cfg.Book.Apply(ctx, id, failover.Resume{By: failover.ByBudget, Reason: fmt.Sprintf("%s has raised it to %s: %s", who.name, r.Limit.Dollars(), reason)})
		if _, refused := failover.IsRefused(err); refused {
			err = nil // it goes on already
		}
		failover.LogTransitions(s.cfg.Logger, evs)
		out.Status = j.Status()
	}
	return out, err
}
