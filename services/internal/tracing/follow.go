package tracing

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// Follow exports the trace of every failover once its record is appended, until
// ctx ends, and returns nil then. Replicas share the work: each trace is exported by one of
// them. When nobody takes it, it is tried again; a trace sent twice is the same
// trace, id by id. An exporter that is not On has nothing to follow.
func (x *Exporter) Follow(ctx context.Context, log events.Log, logger *zap.Logger) error {
	if !x.On() {
		<-ctx.Done()
		return nil
	}
	return log.Consume(ctx, events.Subscription{Name: "traces", Filters: []string{events.FilterFailovers}}, func(ctx context.Context, e events.Event) error {
		f, ok := e.Fact.(events.JobFailedOver)
		if !ok {
			return nil
		}
		job := events.JobID(e.Aggregate.ID)
		name, evs, err := read(ctx, log, e.Aggregate, f.Record)
		if err != nil {
			return err
		}
		spans := Spans(job, name, f.Record, evs)
		if err := x.Export(ctx, spans); err != nil {
			return fmt.Errorf("job %s failover %d: %w", job, f.Record.N, err)
		}
		logger.Info("failover traced", zap.String("job", string(job)), zap.Int("failover", f.Record.N),
			zap.String("trace", spans[0].Trace.String()), zap.Int("spans", len(spans)))
		return nil
	})
}

// read returns the job's name and the events that its trace is made of.
func read(ctx context.Context, log events.Log, a events.Aggregate, r events.Failover) (name string, evs []events.Event, err error) {
	evs, err = log.Read(ctx, a, 0)
	if err != nil {
		return "", nil, fmt.Errorf("reading job %s: %w", a.ID, err)
	}
	if len(evs) > 0 {
		if f, ok := evs[0].Fact.(events.JobSubmitted); ok {
			name = f.Spec.Name
		}
	}
	add := func(l events.LeaseID) (int, error) {
		more, err := log.Read(ctx, events.LeaseAggregate(a.Org, l), 0)
		if err != nil {
			return 0, fmt.Errorf("reading lease %s: %w", l, err)
		}
		evs = append(evs, more...)
		return len(more), nil
	}
	if _, err := add(r.From.Lease); err != nil {
		return "", nil, err
	}
	job, last, most, err := r.To.Lease.Parts()
	if err != nil || r.To.Lease == r.From.Lease {
		return name, evs, nil
	}
	for epoch := r.From.Epoch + 1; epoch <= last; epoch++ {
		for n := 1; ; n++ { // numbered without gaps
			had, err := add(job.Lease(epoch, n))
			if err != nil {
				return "", nil, err
			}
			if had == 0 && (epoch < last || n > most) {
				break
			}
		}
	}
	return name, evs, nil
}
