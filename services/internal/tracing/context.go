package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/spotferry/spotferry/events"
)

// Resume returns a context in which spans continue the trace of a traceparent.
func Resume(ctx context.Context, traceparent string) (context.Context, error) {
	t, s, err := events.ParseTraceparent(traceparent)
	if err != nil {
		return ctx, err
	}
	return trace.ContextWithRemoteSpanContext(ctx, contextOf(t, s).WithRemote(true)), nil
}

// Parent is the traceparent of a context, "" when it has none.
func Parent(ctx context.Context) string {
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		return ""
	}
	return events.Traceparent(events.TraceID(c.TraceID()), events.SpanID(c.SpanID()))
}
