package gateway

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// silentTraining is how many renewals in training without any step told make a
// start: such a trainer tells no steps, and its first checkpoint may be hours away.
const silentTraining = 3

func (a ask) renew() (any, error) {
	var hb events.Heartbeat
	if err := a.read(&hb); err != nil {
		return nil, err
	}
	j, s, err := a.g.job(a.ctx, a.job, a.epoch, hb.Lease)
	if err != nil {
		return nil, err
	}
	switch s {
	case strange:
		return nil, errFenced
	case restarted:
		jwt, err := a.g.cfg.Accounts.User(a.job, j.Epoch, j.Current.Key)
		return events.RenewReply{Epoch: j.Epoch, JWT: jwt}, err
	}
	hb.At = a.g.cfg.Now().Control
	if err := a.g.cfg.Signals.PutSignal(a.ctx, j.Attribution.Org, a.job, a.epoch, hb); err != nil {
		return nil, err
	}
	reply := events.RenewReply{PaidFor: a.g.paidFor(hb.Lease, hb.At)}
	if s == next {
		return reply, nil
	}
	if j.Current.Started.IsZero() && !j.Over() && a.g.started(a.job, a.epoch, hb) {
		from := hb.From
		j, err = a.apply(failover.Stepped{JobStarted: events.JobStarted{
			Epoch: a.epoch, Lease: hb.Lease, From: from, Step: max(hb.Step, from), Clock: hb.Clock,
		}})
		if err != nil {
			return nil, err
		}
	}
	return a.ordered(j, reply)
}

// started says whether a heartbeat proves the first step of an epoch.
func (g *Gateway) started(job events.JobID, epoch int, hb events.Heartbeat) bool {
	if hb.Step > hb.From {
		return true
	}
	if hb.State != "training" || hb.Step >= 0 {
		return false
	}
	key := fmt.Sprintf("%s-%d", job, epoch)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trained[key]++
	return g.trained[key] >= silentTraining
}

// ordered adds the current order to a renewal's reply. A start is handed out only
// once every older epoch's credentials are revoked.
func (a ask) ordered(j failover.Job, r events.RenewReply) (any, error) {
	if j.Epoch != a.epoch || j.Current == nil {
		return nil, errFenced
	}
	for _, c := range failover.Owed(j) {
		if c.Kind == events.Tell && c.Epoch == a.epoch {
			r.Order, r.OrderID = c.Order, c.ID
		}
	}
	if r.Order == events.OrderStart {
		r.Resume = j.Resume()
		if len(r.Resume) > 5 {
			r.Resume = r.Resume[:5]
		}
	}
	return r, a.g.fence(a.ctx, j)
}

// fence revokes the credentials of every epoch of j that is over. It is
// idempotent and remembers, in memory only, that it has been done.
func (g *Gateway) fence(ctx context.Context, j failover.Job) error {
	done := fmt.Sprintf("%s-%d", j.ID, j.Epoch)
	g.mu.Lock()
	old := map[int]string{}
	for epoch, key := range g.keys[j.ID] {
		if epoch < j.Epoch && j.Current != nil && key != j.Current.Key {
			old[epoch] = key
		}
	}
	skip := g.fenced[done]
	g.mu.Unlock()
	if skip {
		return nil
	}
	for epoch := 1; epoch < j.Epoch; epoch++ {
		if key := old[epoch]; key != "" {
			if err := g.cfg.Accounts.Revoke(ctx, j.ID, key); err != nil {
				return fmt.Errorf("fencing epoch %d of job %s: %w", epoch, j.ID, err)
			}
			g.cfg.Logger.Info("epoch fenced", zap.String("job", string(j.ID)), zap.Int("epoch", epoch))
		}
	}
	g.mu.Lock()
	g.fenced[done] = true
	g.mu.Unlock()
	return nil
}

// paidFor is how long, in control time, the machine is paid for; 0 when nobody said.
func (g *Gateway) paidFor(lease events.LeaseID, now time.Time) time.Duration {
	g.mu.Lock()
	till, ok := g.paid[lease]
	g.mu.Unlock()
	if !ok {
		return 0
	}
	return max(g.cfg.Control(till).Sub(now), time.Millisecond)
}
