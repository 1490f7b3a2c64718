package gateway

import (
	"context"
	"errors"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/events"
)

// Run keeps the gateway's view of jobs and money current and pushes to agents
// when there is something new for them, until ctx ends; then it returns nil.
// Requests are the caller's to receive and pass to Handle.
func (g *Gateway) Run(ctx context.Context) error {
	eg, ectx := errgroup.WithContext(ctx)
	eg.Go(func() error {
		return g.cfg.Log.Consume(ectx, events.Subscription{Filters: []string{events.FilterJobs}}, g.jobEvent)
	})
	eg.Go(func() error {
		return g.cfg.Log.Consume(ectx, events.Subscription{Filters: []string{events.FilterMoney}}, g.moneyEvent)
	})
	err := eg.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

func (g *Gateway) jobEvent(ctx context.Context, e events.Event) error {
	g.cfg.Book.Observe(e)
	job := events.JobID(e.Aggregate.ID)
	for _, c := range events.Owed(e, events.Tell) {
		g.push(job, c)
	}
	if _, closed := e.Fact.(events.JobClosed); closed {
		g.mu.Lock()
		delete(g.jobs, job)
		g.mu.Unlock()
		if err := g.cfg.Accounts.DropJob(ctx, job); err != nil {
			g.cfg.Logger.Warn("dropping the account of a closed job", zap.String("job", string(job)), zap.Error(err))
		}
	}
	return nil
}

// push hints at an order that is new. With a new epoch the agent of the one before is
// hinted as well: it is over there, or goes on under the new one on the same machine.
func (g *Gateway) push(job events.JobID, order events.Command) {
	var before events.Command
	g.recall(job, func(m *memo) { before, m.pushed = m.pushed, order })
	if before.ID == order.ID {
		return
	}
	g.cfg.Push(job, order.Epoch)
	if before.Epoch > 0 && before.Epoch != order.Epoch {
		g.cfg.Push(job, before.Epoch)
	}
}

func (g *Gateway) moneyEvent(_ context.Context, e events.Event) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch f := e.Fact.(type) {
	case events.MoneyReserved:
		g.paid[f.Lease] = f.PaidTill
	case events.MoneyExtended:
		g.paid[f.Lease] = f.PaidTill
	case events.MoneySettled:
		delete(g.paid, f.Lease)
	case events.MoneyReleased:
		delete(g.paid, f.Lease)
	}
	return nil
}
