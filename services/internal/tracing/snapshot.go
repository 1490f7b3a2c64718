package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/spotferry/spotferry/events"
)

// scope is who made the spans.
const scope = "github.com/spotferry/spotferry"

// describe is the resource that spans come from.
func describe(service, version string) *resource.Resource {
	return resource.NewSchemaless(
		attribute.String("service.name", service),
		attribute.String("service.namespace", "spotferry"),
		attribute.String("service.version", version),
	)
}

// snapshot turns spans into what exporters take. It runs them through the SDK
// with their own ids and times; nothing of it outlives the call.
func snapshot(spans []Span, from *resource.Resource) []sdk.ReadOnlySpan {
	var out shelf
	limits := sdk.NewSpanLimits()
	limits.EventCountLimit = -1
	tracer := sdk.NewTracerProvider(
		sdk.WithIDGenerator(planned{}), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(from),
		sdk.WithRawSpanLimits(limits), sdk.WithSpanProcessor(&out),
	).Tracer(scope)
	for _, s := range spans {
		ctx := context.WithValue(context.Background(), planKey{}, s) // waits for nothing
		if s.Parent != (events.SpanID{}) {
			ctx = trace.ContextWithSpanContext(ctx, contextOf(s.Trace, s.Parent))
		}
		kind := trace.SpanKindInternal
		if s.Name == "launch" {
			kind = trace.SpanKindClient
		}
		_, span := tracer.Start(ctx, s.Name, trace.WithTimestamp(s.Began), trace.WithSpanKind(kind), trace.WithAttributes(s.Attributes...))
		for _, m := range s.Marks {
			span.AddEvent(m.Name, trace.WithTimestamp(m.At), trace.WithAttributes(m.Attributes...))
		}
		if s.Failed != "" {
			span.SetStatus(codes.Error, s.Failed)
		}
		span.End(trace.WithTimestamp(s.Ended))
	}
	return out.spans
}

func contextOf(t events.TraceID, s events.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(t), SpanID: trace.SpanID(s), TraceFlags: trace.FlagsSampled})
}

// planned gives spans the ids that they have already.
type planned struct{}

type planKey struct{}

func (planned) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s, _ := ctx.Value(planKey{}).(Span)
	return trace.TraceID(s.Trace), trace.SpanID(s.ID)
}

func (planned) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	s, _ := ctx.Value(planKey{}).(Span)
	return trace.SpanID(s.ID)
}

// shelf keeps what ends.
type shelf struct{ spans []sdk.ReadOnlySpan }

func (*shelf) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (s *shelf) OnEnd(span sdk.ReadOnlySpan)              { s.spans = append(s.spans, span) }
func (*shelf) Shutdown(context.Context) error             { return nil }
func (*shelf) ForceFlush(context.Context) error           { return nil }
