package tracing

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The variables that say where spans go.
const (
	EnvEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	EnvTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	EnvFile           = "SPOTFERRY_TRACE_FILE"
)

// Exporter sends a program's spans where the environment says. One that was
// asked for nowhere does nothing, at no cost; nor does nil.
type Exporter struct {
	to   []sdk.SpanExporter
	from *resource.Resource
	live *sdk.TracerProvider // nil: nowhere
}

// Open returns the exporter of a program. It connects to nothing yet: a collector
// that is down holds nobody up. Close flushes it.
func Open(getenv func(string) string, service, version string) (*Exporter, error) {
	x := &Exporter{from: describe(service, version)}
	if getenv(EnvEndpoint) != "" || getenv(EnvTracesEndpoint) != "" {
		e, err := otlptracehttp.New(context.Background()) // starts nothing; reads the usual variables itself
		if err != nil {
			return nil, fmt.Errorf("%s: %w", EnvEndpoint, err)
		}
		x.to = append(x.to, e)
	}
	if path := getenv(EnvFile); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", EnvFile, err)
		}
		x.to = append(x.to, &lines{file: f})
	}
	if len(x.to) == 0 {
		return x, nil
	}
	opts := []sdk.TracerProviderOption{sdk.WithResource(x.from), sdk.WithSampler(sdk.ParentBased(sdk.NeverSample()))}
	for _, e := range x.to {
		opts = append(opts, sdk.WithBatcher(e))
	}
	x.live = sdk.NewTracerProvider(opts...)
	return x, nil
}

// On says whether spans go anywhere.
func (x *Exporter) On() bool { return x != nil && x.live != nil }

// Tracer makes spans of calls under way. Only what belongs to a failover's trace is
// kept: the root of every span is one that Spans makes.
func (x *Exporter) Tracer() trace.Tracer {
	if !x.On() {
		return noop.NewTracerProvider().Tracer(scope)
	}
	return x.live.Tracer(scope)
}

// Export sends spans at once and returns when they are taken.
func (x *Exporter) Export(ctx context.Context, spans []Span) error {
	ready := snapshot(spans, x.from)
	for _, e := range x.to {
		if err := e.ExportSpans(ctx, ready); err != nil {
			return fmt.Errorf("exporting %d spans: %w", len(ready), err)
		}
	}
	return nil
}

// Close sends what is left. The exporter is not used after it.
func (x *Exporter) Close(ctx context.Context) error {
	if !x.On() {
		return nil
	}
	if err := x.live.Shutdown(ctx); err != nil { // and every exporter with it
		return fmt.Errorf("flushing spans: %w", err)
	}
	return nil
}

// lines writes one OTLP request a line to a file.
type lines struct {
	mu   sync.Mutex
	file *os.File
}

// ExportSpans implements sdk.SpanExporter. A line is written whole or not at all, also
// when several programs write the same file.
func (l *lines) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	b, err := json.Marshal(request(spans))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.file.Write(append(b, '\n'))
	return err
}

// Shutdown implements sdk.SpanExporter.
func (l *lines) Shutdown(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
