package gateway

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// silentTraining is how many heartbeats in training without any step told make a
// start: such a trainer tells no steps, and its first checkpoint may be hours away.
// The agent measures it, so that it is the same whichever replica is asked.
const silentTraining = 2

func (a ask) renew() (any, error) {
	var hb events.Heartbeat
	if err := a.read(&hb); err != nil {
		return nil, err
	}
	hb = beat(hb)
	j, s, err := a.g.job(a.ctx, a.job, a.epoch, hb.Lease)
	if err != nil {
		return nil, err
	}
	switch s {
	case strange:
		a.lastWords(j, hb)
		return nil, errFenced
	case restarted:
		jwt, err := a.g.cfg.Accounts.User(a.job, j.Epoch, j.Current.Key)
		return events.RenewReply{Epoch: j.Epoch, JWT: jwt}, err
	}
	hb.At = a.g.cfg.Now().Control
	if err := a.g.cfg.Signals.PutSignal(a.ctx, j.Attribution.Org, a.job, a.epoch, hb); err != nil {
		return nil, err
	}
	paid, err := a.g.paidFor(a.ctx, j.Attribution.Org, hb.Lease, hb.At)
	if err != nil {
		return nil, err
	}
	reply := events.RenewReply{PaidFor: paid}
	if s == next {
		return reply, nil
	}
	if j.Current.Started.IsZero() && !j.Over() && a.g.started(hb) {
		j, err = a.apply(failover.Stepped{JobStarted: events.JobStarted{
			Epoch: a.epoch, Lease: hb.Lease, From: hb.From, Step: max(hb.Step, hb.From), Before: a.before(j), Clock: clock(hb.Clock),
		}})
		if err != nil {
			return nil, err
		}
	}
	reply.ReclaimEvery = a.reclaimEvery(j)
	return a.ordered(j, reply)
}

// lastWords keeps what the agent of an epoch that is over still tells: how far it came.
func (a ask) lastWords(j failover.Job, hb events.Heartbeat) {
	if j.Over() || a.epoch >= j.Epoch {
		return
	}
	hb.At = a.g.cfg.Now().Control
	if err := a.g.cfg.Signals.PutSignal(a.ctx, j.Attribution.Org, a.job, a.epoch, hb); err != nil {
		a.g.cfg.Logger.Warn("last words not kept", zap.String("job", string(a.job)), zap.Int("epoch", a.epoch), zap.Error(err))
	}
	back := failover.Returned{Epoch: a.epoch}
	if _, news := failover.Step(j, a.g.cfg.Now(), back); len(news) > 0 {
		if _, err := a.apply(back); err != nil {
			a.g.cfg.Logger.Warn("an agent's return not recorded", zap.String("job", string(a.job)), zap.Int("epoch", a.epoch), zap.Error(err))
		}
	}
}

// before is the newest step told of the machine that the job has just left, 0 if it left none.
func (a ask) before(j failover.Job) int64 {
	if j.Move == nil || j.Move.From.Epoch == 0 {
		return 0
	}
	hb, ok, err := a.g.cfg.Signals.Signal(a.ctx, j.Attribution.Org, a.job, j.Move.From.Epoch)
	if err != nil || !ok {
		return 0 // the record then counts from what was known when the machine went
	}
	return max(hb.Step, 0)
}

// started says whether a heartbeat proves the first step of an epoch.
func (g *Gateway) started(hb events.Heartbeat) bool {
	silent := hb.State == "training" && hb.Step < 0
	return hb.Step > hb.From || silent && hb.TrainingMS >= (silentTraining*g.cfg.Timers.Heartbeat).Milliseconds()
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
		r.Resume = firstFive(j.Resume())
	}
	return r, a.g.fence(a.ctx, j)
}

// fence revokes the credentials of every agent of j's earlier epochs. Revoking is
// idempotent, and remembered in memory only.
func (g *Gateway) fence(ctx context.Context, j failover.Job) error {
	for _, key := range g.unfenced(j) {
		if err := g.cfg.Accounts.Revoke(ctx, j.ID, key); err != nil {
			return fmt.Errorf("fencing the epochs of job %s before %d: %w", j.ID, j.Epoch, err)
		}
		g.cfg.Logger.Info("agent fenced", zap.String("job", string(j.ID)), zap.Int("before_epoch", j.Epoch), zap.String("key", key))
		g.recall(j.ID, func(m *memo) { m.revoked[key] = true })
	}
	g.recall(j.ID, func(m *memo) { m.fenced = max(m.fenced, j.Epoch) })
	return nil
}

// unfenced lists the keys that have to be revoked before j's current agent starts.
func (g *Gateway) unfenced(j failover.Job) (keys []string) {
	g.recall(j.ID, func(m *memo) {
		if m.fenced >= j.Epoch {
			return
		}
		for _, key := range j.Keys {
			ours := key == j.Current.Key || (j.Next != nil && key == j.Next.Key)
			if !ours && !m.revoked[key] {
				keys = append(keys, key)
			}
		}
	})
	return keys
}

// recall changes what is remembered of a job.
func (g *Gateway) recall(job events.JobID, change func(*memo)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.jobs[job]
	if !ok {
		m = &memo{revoked: map[string]bool{}}
		g.jobs[job] = m
	}
	change(m)
}
