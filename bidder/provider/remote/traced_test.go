package remote_test

import (
	"testing"
	"testing/synctest"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote"
	"github.com/spotferry/spotferry/events"
)

func TestASellersPartOfACallContinuesTheCallersTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := tracetest.NewSpanRecorder()
		tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(kept)).Tracer("test")
		near, far := bus(t)
		serve(t, near, fake(providertest.Config{}), remote.ServerConfig{Tracer: tracer})
		c := dial(t, far, remote.ClientConfig{})
		move := events.FailoverTrace("job-7")
		parent := move.Span(events.LaunchSpan("job-2-1"))
		ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID(move), SpanID: trace.SpanID(parent), TraceFlags: trace.FlagsSampled,
		}))
		if _, err := c.Offers(t.Context()); err != nil { // of no trace
			t.Fatal(err)
		}
		if _, err := c.Launch(ctx, provider.LaunchSpec{Pool: offer.Pool, MaxPrice: offer.Price}, "job-2-1"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		spans := kept.Ended()
		if len(spans) != 1 || spans[0].Name() != "seller launch" || spans[0].SpanKind() != trace.SpanKindServer ||
			spans[0].SpanContext().TraceID() != trace.TraceID(move) || spans[0].Parent().SpanID() != trace.SpanID(parent) {
			t.Errorf("%d spans: %+v", len(spans), spans)
		}
	})
}
