package gateway

import (
	"context"
	"errors"
	"fmt"

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
		sub := events.Subscription{Filters: []string{events.FilterMoney}, CaughtUp: g.purse.caughtUp}
		return g.cfg.Log.Consume(ectx, sub, func(_ context.Context, e events.Event) error { g.purse.take(e); return nil })
	})
	eg.Go(func() error {
		sub := events.Subscription{Name: "gateway-closed", Filters: []string{events.FilterClosed}}
		return g.cfg.Log.Consume(ectx, sub, g.closed)
	})
	eg.Go(func() error { return g.announce(ectx) })
	eg.Go(func() error { return g.rounds(ectx) })
	err := eg.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

func (g *Gateway) jobEvent(ctx context.Context, e events.Event) error {
	g.cfg.Book.Observe(e)
	g.forget(ctx, e)
	job := events.JobID(e.Aggregate.ID)
	g.collector.learn(job)
	for _, c := range events.Owed(e, events.Tell) {
		g.push(job, c)
	}
	if _, closed := e.Fact.(events.JobClosed); closed {
		g.read.forget(job)
		g.mu.Lock()
		delete(g.jobs, job)
		g.mu.Unlock()
	}
	return nil
}

// closed removes the account of a job that is closed: once, by whichever replica gets it.
func (g *Gateway) closed(ctx context.Context, e events.Event) error {
	if err := g.cfg.Accounts.DropJob(ctx, events.JobID(e.Aggregate.ID)); err != nil {
		return fmt.Errorf("dropping the account of closed job %s: %w", e.Aggregate.ID, err)
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
