package console

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func (s *Server) submit(ctx context.Context, user string, r SubmitRequest) (any, error) {
	if err := checkID(r.ID); err != nil {
		return nil, &Problem{Code: "invalid", Message: err.Error(), Remedy: "a lower-case ULID is one"}
	}
	if r.Spec.Policy.Budget <= 0 {
		return nil, &Problem{Code: "invalid", Message: "policy.budget is missing or not positive", Remedy: "every job needs a hard limit"}
	}
	r.Attribution.Org = s.cfg.Org
	if err := s.keepSecrets(ctx, r); err != nil {
		return nil, err
	}
	j, err := s.cfg.Book.Submit(ctx, r.ID, failover.Submit{Attribution: r.Attribution, Spec: r.Spec, By: user})
	if err != nil {
		return nil, err
	}
	if j.Aggregate.Org != s.cfg.Org {
		return nil, &Problem{Code: "conflict", Message: fmt.Sprintf("job id %s is taken", r.ID), Remedy: "submit under a new one"}
	}
	s.cfg.Logger.Info("job submitted", zap.String("job", string(j.ID)), zap.String("name", j.Spec.Name), zap.String("by", user))
	return s.viewOf(ctx, j)
}

// checkID says why an id cannot be a job's, or nil: leases are named
// <job>-<epoch>-<n>, and their names have to lead back to the job.
func checkID(id events.JobID) error {
	if err := events.CheckToken("job id", string(id)); err != nil {
		return err
	}
	first := id.Lease(1, 1)
	if first.Job() != id || len(id) > maxID {
		return fmt.Errorf("job id %q: at most %d characters, and no '-'", id, maxID)
	}
	return nil
}

// maxID leaves room for epoch and number in the name of a lease.
const maxID = 40

var readOnly = &Problem{Code: "unavailable", Message: "no server runs on this state; it can only be read", Remedy: "start 'spotferry dev'"}

// NotServing is the answer to whatever needs services when none run.
func NotServing() error { return readOnly }

func (s *Server) cancel(ctx context.Context, user string, r CancelRequest) (any, error) {
	reason, err := because(DoCancel, r.Reason)
	if err != nil {
		return nil, err
	}
	id, err := with(s, r.Job, func(r *jobRecord) (events.JobID, error) { return r.job.ID, nil })
	if err != nil {
		return nil, err
	}
	j, evs, err := s.cfg.Book.Apply(ctx, id, failover.Cancel{By: user, Reason: reason})
	if err != nil {
		return nil, err
	}
	failover.LogTransitions(s.cfg.Logger, evs)
	if j.Outcome != events.Cancelled {
		return nil, &Problem{Code: "conflict", Message: fmt.Sprintf("job %s has already ended: %s", id, j.Outcome)}
	}
	return s.viewOf(ctx, j)
}

// viewOf shows a job as just appended, which the read model may not have yet.
func (s *Server) viewOf(ctx context.Context, j failover.Job) (v Job, err error) {
	err = s.cfg.Money.View(ctx, s.cfg.Org, func(money *ledger.State) {
		s.model.mu.Lock()
		defer s.model.mu.Unlock()
		var r jobRecord
		if known, ok := s.model.jobs[j.ID]; ok {
			r = *known
		}
		r.job = j
		v = r.view(money)
	})
	return v, err
}
