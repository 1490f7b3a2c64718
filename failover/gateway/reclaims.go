package gateway

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// reclaimEvery is the mean time until a machine like the job's is taken back, in
// control time, as the choice of it saw the pool; 0: unknown, or never. It is
// asked of the log once per lease, and only for a job that can use it.
func (a ask) reclaimEvery(j failover.Job) time.Duration {
	if !j.Spec.Policy.Checkpoint.IntervalAuto || j.Current == nil {
		return 0
	}
	lease := j.Current.Lease
	var known rate
	a.g.recall(a.job, func(m *memo) { known = m.rate })
	if known.lease == lease {
		return known.every
	}
	every, err := a.g.rateOf(a.ctx, j.Attribution.Org, lease)
	if err != nil { // a renewal is worth more than this, and the next one asks again
		a.g.cfg.Logger.Warn("reading how often machines are taken back", zap.String("lease", string(lease)), zap.Error(err))
		return 0
	}
	a.g.recall(a.job, func(m *memo) { m.rate = rate{lease, every} })
	return every
}

// rate is how often machines like one are taken back.
type rate struct {
	lease events.LeaseID
	every time.Duration // see reclaimEvery
}

func (g *Gateway) rateOf(ctx context.Context, org events.OrgID, lease events.LeaseID) (time.Duration, error) {
	evs, err := g.cfg.Log.Read(ctx, events.LeaseAggregate(org, lease), 0)
	if err != nil {
		return 0, err
	}
	for _, e := range evs {
		if f, ok := e.Fact.(events.LeaseIntended); ok {
			return betweenReclaims(f.Decision), nil
		}
	}
	return 0, nil
}

// betweenReclaims is the mean time, control time, between reclaims of the machine
// that a decision chose. The expected life counts that machines live longer the
// older they are; where nobody knows it, the hazard has to do.
func betweenReclaims(d events.Decision) time.Duration {
	if d.Chosen < 0 || d.Chosen >= len(d.Candidates) {
		return 0
	}
	c := d.Candidates[d.Chosen]
	hours := c.Life // market hours
	if hours <= 0 && c.Hazard > 0 {
		hours = 1 / c.Hazard
	}
	hours /= float64(max(d.Inputs.Scale, 1))
	if hours <= 0 || hours > maxLife.Hours() {
		return 0
	}
	return time.Duration(hours * float64(time.Hour))
}

// maxLife is from when on a machine counts as never taken back.
const maxLife = 10 * 365 * 24 * time.Hour
