// Package process is what every program of Spotferry is started with: the bus
// as its services want it, a logger, signals.
package process

import (
	"context"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// Bus is the log with heartbeats and output lines in the shape that the services declare.
type Bus struct{ *natsbus.Log }

// WatchSignals calls handle with the newest heartbeat of every job's epoch, then with each new one.
func (b Bus) WatchSignals(ctx context.Context, handle func(events.JobID, int, events.Heartbeat)) error {
	return b.Log.WatchSignals(ctx, nil, func(_ context.Context, p natsbus.Place, hb events.Heartbeat) {
		handle(p.Job, p.Epoch, hb)
	})
}

// PutSignal keeps hb as the newest heartbeat of a job's epoch.
func (b Bus) PutSignal(ctx context.Context, org events.OrgID, job events.JobID, epoch int, hb events.Heartbeat) error {
	return b.Log.PutSignal(ctx, natsbus.Place{Org: org, Job: job, Epoch: epoch}, hb)
}

// Signal returns the newest heartbeat of a job's epoch, or false.
func (b Bus) Signal(ctx context.Context, org events.OrgID, job events.JobID, epoch int) (events.Heartbeat, bool, error) {
	return b.Log.Signal(ctx, natsbus.Place{Org: org, Job: job, Epoch: epoch})
}

// AppendLog keeps a run of output lines.
func (b Bus) AppendLog(ctx context.Context, org events.OrgID, job events.JobID, l events.LogBatch) error {
	return b.Log.AppendLog(ctx, natsbus.Place{Org: org, Job: job, Epoch: l.Epoch}, l)
}

// ReadLog returns output lines kept at or after since, oldest first.
func (b Bus) ReadLog(ctx context.Context, org events.OrgID, job events.JobID, epoch int, since time.Time, tail int) ([]events.LogBatch, error) {
	return b.Log.ReadLog(ctx, natsbus.LogQuery{Org: org, Job: job, Epoch: epoch, Since: since, Tail: tail})
}
