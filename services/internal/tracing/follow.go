package tracing

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Follow exports the trace of every failover once its record is appended, or once it
// is called off, until ctx ends, and returns nil then. Replicas share the work: each
// trace is exported by one of them. When nobody takes it, it is tried again; a trace sent
// twice is the same trace, id by id. An exporter that is not On has nothing to follow.
func (x *Exporter) Follow(ctx context.Context, log events.Log, logger *zap.Logger) error {
	if !x.On() {
		<-ctx.Done()
		return nil
	}
	return log.Consume(ctx, events.Subscription{Name: "traces", Filters: []string{events.FilterJobs}}, func(ctx context.Context, e events.Event) error {
		if !mayEnd(e) {
			return nil
		}
		spans, err := endedBy(ctx, log, e)
		if err != nil || len(spans) == 0 {
			return err
		}
		if err := x.Export(ctx, spans); err != nil {
			return fmt.Errorf("the move of job %s that ended with %s: %w", e.Aggregate.ID, e.ID, err)
		}
		logger.Info("failover traced", zap.String("job", e.Aggregate.ID), zap.String("ended_by", string(e.ID)),
			zap.String("trace", spans[0].Trace.String()), zap.Int("spans", len(spans)))
		return nil
	})
}

// mayEnd says whether an event can be a move's last.
func mayEnd(e events.Event) bool {
	switch e.Fact.(type) {
	case events.JobFailedOver, events.JobNoticeWithdrawn, events.JobHeard, events.JobPaused, events.JobEnded:
		return e.Trace != ""
	}
	return false
}

// endedBy returns the trace of the move that an event ended, none if it goes on, and those
// of the moves that had become part of it.
func endedBy(ctx context.Context, log events.Log, e events.Event) ([]Span, error) {
	evs, err := log.Read(ctx, e.Aggregate, 0)
	if err != nil {
		return nil, fmt.Errorf("reading job %s: %w", e.Aggregate.ID, err)
	}
	evs = evs[:min(e.Sequence, uint64(len(evs)))]
	before, job := failover.Replay(evs[:len(evs)-1]), failover.Replay(evs)
	if f, ok := e.Fact.(events.JobFailedOver); ok {
		if f.Record.To.Lease != f.Record.From.Lease {
			evs, err = withLeases(ctx, log, e.Aggregate, evs, f.Record.From.Epoch+1, job.NextEpoch, job.NextN-1)
		}
		return append(Spans(job.ID, job.Spec.Name, f.Record, evs), joined(job, f.Record.Evidence, e, evs)...), err
	}
	if goesOn := job.Move != nil && (!job.Over() || job.Move.First != nil); goesOn {
		return nil, nil
	}
	from := job.Epoch
	if before.Move != nil {
		from = before.Move.From.Epoch
	}
	evs, err = withLeases(ctx, log, e.Aggregate, evs, from+1, job.NextEpoch, job.NextN-1)
	spans := calledOff(job.ID, job.Spec.Name, e, evs)
	if m := before.Move; m != nil {
		spans = append(spans, joined(job, m.Evidence, e, evs)...)
	}
	return spans, err
}

// joined are the traces of moves that became part of another, which has ended: a machine
// that was just arriving had to be left as well, and then was given up for the next one. What was bought until then
// was bought in a trace of its own.
func joined(job failover.Job, evidence []events.EventID, end events.Event, evs []events.Event) (out []Span) {
	for i, id := range evidence {
		if i == 0 || !job.Over() && job.Move != nil && slices.Contains(job.Move.Evidence, id) {
			continue // the move itself, or one that goes on
		}
		t := events.FailoverTrace(id)
		end.Trace = events.Traceparent(t, t.Span(events.RootSpan))
		if slices.ContainsFunc(evs, func(e events.Event) bool { return e.Trace == end.Trace }) {
			out = append(out, calledOff(job.ID, job.Spec.Name, end, evs)...)
		}
	}
	return out
}

// withLeases adds the events of the leases of some epochs; n is the last of the last epoch's.
func withLeases(ctx context.Context, log events.Log, a events.Aggregate, evs []events.Event, epoch, last, n int) ([]events.Event, error) {
	for ; epoch <= last; epoch++ {
		for i := 1; ; i++ { // numbered without gaps
			l := events.JobID(a.ID).Lease(epoch, i)
			more, err := log.Read(ctx, events.LeaseAggregate(a.Org, l), 0)
			if err != nil {
				return nil, fmt.Errorf("reading lease %s: %w", l, err)
			}
			if len(more) == 0 && (epoch < last || i > n) {
				break
			}
			evs = append(evs, more...)
		}
	}
	return evs, nil
}
