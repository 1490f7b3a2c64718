package bidder

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/spotferry/spotferry/events"
)

// traceOf is the trace of a lease's next event: that of the move which its job is
// in, else that in which the lease was bought. "" is none.
func (s *Service) traceOf(l lease) string {
	j, _ := s.world.job(l.id.Job())
	return cmp.Or(j.newest.Trace, l.newest.Trace)
}

// traced returns a context in which a seller's own spans of a launch are part of the move's trace.
func traced(ctx context.Context, l lease) context.Context {
	t, _, err := events.ParseTraceparent(l.newest.Trace)
	if err != nil {
		return ctx // no move
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(t), SpanID: trace.SpanID(t.Span(events.LaunchSpan(l.id))), TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}
