package tracing

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/spotferry/spotferry/events"
)

// receiver is a collector that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	down  int // requests to refuse
	spans []*otlp.Span
	from  map[string]bool // services
	got   chan int        // spans kept so far
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{from: map[string]bool{}, got: make(chan int, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case err != nil || q.URL.Path != "/v1/traces":
			t.Errorf("%s: %v", q.URL.Path, err)
		case r.down > 0:
			r.down--
			http.Error(w, "not now", http.StatusBadRequest) // which the client does not repeat by itself
			return
		}
		for _, rs := range req.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					r.from[a.Value.GetStringValue()] = true
				}
			}
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		r.got <- len(r.spans)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) wait(t *testing.T, n int) []*otlp.Span {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case have := <-r.got:
			if have >= n {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.spans
			}
		case <-limit:
			t.Fatalf("fewer than %d spans came", n)
		}
	}
}

// oneTree says what is wrong with spans as a collector has them.
func oneTree(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	byID := map[string]*otlp.Span{}
	for _, s := range spans {
		byID[string(s.SpanId)] = s
	}
	roots := 0
	for _, s := range spans {
		p, ok := byID[string(s.ParentSpanId)]
		switch {
		case len(s.ParentSpanId) == 0:
			roots++
			if s.Name != events.RootSpan {
				t.Errorf("%s is a root", s.Name)
			}
		case !ok:
			t.Errorf("%s has no parent", s.Name)
		case s.StartTimeUnixNano < p.StartTimeUnixNano || s.EndTimeUnixNano > p.EndTimeUnixNano:
			t.Errorf("%s is not inside %s", s.Name, p.Name)
		}
		if !bytes.Equal(s.TraceId, spans[0].TraceId) || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s: trace %x, from %d to %d", s.Name, s.TraceId, s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
	}
	if roots != 1 || len(byID) != len(spans) {
		t.Errorf("%d roots; %d spans, %d ids", roots, len(spans), len(byID))
	}
}

func TestAFailoversTraceIsExportedAsOneTreeOnceItIsRecorded(t *testing.T) {
	r := newReceiver(t)
	r.down = 1 // at first
	t.Setenv(EnvEndpoint, r.URL)
	l := moved(t)
	x, err := Open(os.Getenv, "spotferry-failover", "v1")
	if err != nil || !x.On() {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- x.Follow(ctx, l.log, zap.NewNop()) }()
	record, evs := l.record()
	want := Spans(job, "tuned", record, evs)
	got := r.wait(t, len(want))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	oneTree(t, got)
	if len(got) != len(want) || !r.from["spotferry-failover"] {
		t.Fatalf("%d spans of %v, want %d", len(got), r.from, len(want))
	}
	for i, s := range want {
		g := got[i]
		if g.Name != s.Name || !bytes.Equal(g.SpanId, s.ID[:]) || !bytes.Equal(g.TraceId, s.Trace[:]) ||
			g.StartTimeUnixNano != uint64(s.Began.UnixNano()) || g.EndTimeUnixNano != uint64(s.Ended.UnixNano()) ||
			len(g.Attributes) != len(s.Attributes) || len(g.Events) != len(s.Marks) {
			t.Errorf("%s came as %s", s.Name, g)
		}
	}
}

func TestACallUnderWayIsPartOfTheTree(t *testing.T) {
	r := newReceiver(t)
	t.Setenv(EnvEndpoint, r.URL)
	x, err := Open(os.Getenv, "spotferry-provider-local", "v1")
	if err != nil {
		t.Fatal(err)
	}
	record, evs := moved(t).record()
	tree := Spans(job, "tuned", record, evs)
	ctx, err := Resume(t.Context(), events.Traceparent(tree[0].Trace, tree[0].Trace.Span(events.LaunchSpan(record.To.Lease))))
	if err != nil {
		t.Fatal(err)
	}
	_, span := x.Tracer().Start(ctx, "launch", trace.WithSpanKind(trace.SpanKindServer))
	span.End()
	_, alone := x.Tracer().Start(t.Context(), "offers") // of no failover
	alone.End()
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := r.wait(t, 1)
	var parent string
	for _, s := range tree {
		if hex.EncodeToString(got[0].ParentSpanId) == s.ID.String() {
			parent = s.Name
		}
	}
	if len(got) != 1 || parent != "launch" || !bytes.Equal(got[0].TraceId, tree[0].Trace[:]) {
		t.Errorf("%d spans, the first is below %q", len(got), parent)
	}
	if back := Parent(ctx); back[:2] != "00" || back[3:35] != tree[0].Trace.String() {
		t.Errorf("traceparent %q", back)
	}
	if _, err := Resume(t.Context(), "garbage"); err == nil || Parent(t.Context()) != "" {
		t.Error("garbage is a trace")
	}
}

func TestAFileGetsOneRequestALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	t.Setenv(EnvFile, path)
	record, evs := moved(t).record()
	spans := Spans(job, "tuned", record, evs)
	for range 2 { // and again after a restart
		x, err := Open(os.Getenv, "spotferry-failover", "v1")
		if err == nil {
			err = x.Export(t.Context(), spans)
		}
		if err == nil {
			err = x.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := JSON("spotferry-failover", "v1", spans)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var line bytes.Buffer
		if err := json.Compact(&line, want); err != nil || line.String() != s.Text() {
			t.Errorf("line %d is %s", n, s.Text())
		}
	}
	if n != 2 {
		t.Errorf("%d lines", n)
	}
}

func TestNowhereIsNoError(t *testing.T) {
	t.Parallel()
	x, err := Open(func(string) string { return "" }, "s", "v")
	if err != nil || x.On() {
		t.Fatal(err, x.On())
	}
	_, s := x.Tracer().Start(t.Context(), "x")
	s.End()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Follow(ctx, nil, nil); err != nil {
		t.Error(err)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var none *Exporter
	if err := none.Close(t.Context()); err != nil || none.On() || none.Follow(ctx, nil, nil) != nil || none.Tracer() == nil {
		t.Error("nil is not nowhere")
	}
	if _, err := Open(func(k string) string { return map[string]string{EnvFile: "/nowhere/at/all"}[k] }, "s", "v"); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}
