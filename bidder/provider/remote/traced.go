package remote

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// carry puts the caller's trace into a request.
func carry(ctx context.Context, h nats.Header) {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() && c.IsSampled() {
		h.Set(events.HeaderTraceparent, events.Traceparent(events.TraceID(c.TraceID()), events.SpanID(c.SpanID())))
	}
}

// span begins the seller's part of a traced call, and returns what ends it. A
// header that cannot be read is no trace.
func (s *server) span(ctx context.Context, op string, h micro.Headers) (context.Context, func(error)) {
	t, parent, err := events.ParseTraceparent(h.Get(events.HeaderTraceparent))
	if err != nil {
		return ctx, func(error) {}
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(t), SpanID: trace.SpanID(parent), TraceFlags: trace.FlagsSampled, Remote: true,
	}))
	ctx, span := s.cfg.Tracer.Start(ctx, "seller "+op, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("spotferry.seller", s.cfg.Seller)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, provider.KindOf(err).String())
		}
		span.End()
	}
}
