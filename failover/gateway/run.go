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
	j := g.cfg.Book.Observe(e)
	switch f := e.Fact.(type) {
	case events.JobJoined:
		g.remember(j.ID, f.Epoch, f.Key)
	case events.JobPlaced:
		if k := g.keyOf(j.ID, f.Lease, f.Epoch); k != "" {
			g.remember(j.ID, f.Epoch, k)
		}
	case events.JobClosed:
		g.forget(j.ID)
		if err := g.cfg.Accounts.DropJob(ctx, j.ID); err != nil {
			g.cfg.Logger.Warn("dropping the account of a closed job", zap.String("job", string(j.ID)), zap.Error(err))
		}
	}
	for _, c := range events.Owed(e, events.Tell) {
		g.cfg.Push(j.ID, c.Epoch)
	}
	return nil
}

func (g *Gateway) remember(job events.JobID, epoch int, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys[job] == nil {
		g.keys[job] = map[int]string{}
	}
	g.keys[job][epoch] = key
}

// keyOf returns the key of the machine placed under epoch: a restart in place keeps its machine's.
func (g *Gateway) keyOf(job events.JobID, lease events.LeaseID, epoch int) string {
	j, ok := g.cfg.Book.Cached(job)
	if ok && j.Current != nil && j.Current.Lease == lease && j.Epoch == epoch {
		return j.Current.Key
	}
	return ""
}

func (g *Gateway) forget(job events.JobID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.keys, job)
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
