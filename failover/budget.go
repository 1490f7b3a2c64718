package failover

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// budget takes a job up again that was paused for want of money. One that still
// saves for its pause is come back to.
func (s *Service) budget(ctx context.Context, e events.Event) error {
	f, ok := e.Fact.(events.BudgetSet)
	if !ok {
		return nil
	}
	j, err := s.cfg.Book.Job(ctx, f.Job)
	if errors.Is(err, ErrNoJob) {
		return nil // its budget comes first
	}
	if err != nil {
		return err
	}
	if j.Pause.Reason != events.PausedByBudget || j.Over() {
		return nil
	}
	if j.Phase == Pausing {
		return fmt.Errorf("job %s saves before its pause: its new budget waits", f.Job)
	}
	err = s.apply(ctx, f.Job, Resume{By: ByBudget, Reason: fmt.Sprintf("the budget is %s", f.Limit.Dollars())})
	if r, refused := IsRefused(err); refused {
		s.cfg.Logger.Info("not resumed by its new budget", zap.String("job", string(f.Job)), zap.Error(r))
		return nil
	}
	return err
}
