package bidder

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/spotferry/spotferry/events"
)

// traceOf is the trace of a lease's next event: while it is bought, that of the move for which it
// was ordered; later, that of the move which its job is in, else its own. "" is none.
func (s *Service) traceOf(l lease) string {
	j, _ := s.world.job(l.id.Job())
	switch l.phase {
	case absent:
		return j.orderedIn(l.id)
	case intended, unknown:
		return l.newest.Trace
	}
	return cmp.Or(j.newest.Trace, l.newest.Trace)
}

// orderedIn is the trace of the move that owes a machine under the lease, "" when nobody ordered it.
func (j job) orderedIn(id events.LeaseID) string {
	_, epoch, n, err := id.Parts()
	for _, c := range events.Owed(j.newest, events.Acquire) {
		if err == nil && c.Epoch == epoch && c.N <= n {
			return c.Trace
		}
	}
	return ""
}

// traced returns a context in which a seller's own spans of a launch are part of the move's trace. They
// are below its root: the launch ends when the machine is known, which may be before the seller answers.
func traced(ctx context.Context, l lease) context.Context {
	t, root, err := events.ParseTraceparent(l.newest.Trace)
	if err != nil {
		return ctx // no move
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(t), SpanID: trace.SpanID(root), TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}
