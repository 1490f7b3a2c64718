package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// told is a span as somebody has it who got it from the programs.
type told struct {
	Trace, ID, Parent string
	Name, Service     string
	Began, Ended      int64 // ns
	Attributes        string
}

// TestComposeTellsAFailoverAsOneTree has the programs of compose.yaml tell a drill's trace to a
// collector and to one file, and reads both as a trace viewer does.
func TestComposeTellsAFailoverAsOneTree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight programs")
	}
	t.Parallel()
	c := newCollector(t)
	s, all := composed(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	lines := filepath.Join(s.root, "spans.jsonl")
	for i := range all {
		all[i].env = append(all[i].env, "SPOTFERRY_TRACE_FILE="+lines, "PATH="+s.bin+":"+os.Getenv("PATH")) // as in the image
	}
	programs := s.start(all)
	job := s.trains(calm{name: "traced", steps: 110, saveEvery: 25, hidden: 64, seed: 5, pace: 60 * time.Millisecond})
	drilled := s.says(t, "job", "drill", job, "-y", "--reason", "weekly rehearsal", "-o", "json")
	var shown struct {
		Trace  string
		Record record
	}
	if err := json.Unmarshal([]byte(drilled), &shown); err != nil {
		t.Fatalf("%v: %.300q", err, drilled)
	}
	until(t, "the job is closed", func() bool {
		var j jobShown
		return json.Unmarshal([]byte(s.says(t, "job", "show", job, "-o", "json")), &j) == nil && j.Closed && j.Status == "succeeded"
	})
	until(t, "the move is told", func() bool {
		return slices.ContainsFunc(c.told(), func(s told) bool { return s.Name == "failover" })
	})
	file := filepath.Join(t.TempDir(), "f1.tar.gz")
	s.says(t, "failover", "show", job, "1", "--bundle", file)
	s.stops(programs) // and the last spans are out

	heard, written := c.told(), readSpans(t, lines)
	byTime := func(a, b told) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(heard, byTime)
	slices.SortFunc(written, byTime)
	if !slices.Equal(heard, written) {
		t.Errorf("the collector has\n%v\nthe file has\n%v", heard, written)
	}
	isOneTree(t, heard, shown.Trace)
	isTheRecord(t, heard, job, shown.Record)

	root := slices.IndexFunc(heard, func(s told) bool { return s.Parent == "" })
	want := fmt.Sprintf("00-%s-%s-01", shown.Trace, heard[root].ID)
	b := openBundle(t, file)
	for _, e := range b.events {
		if e.Subject == shown.Record.To.Lease && (e.kind() == "lease.intended" || e.kind() == "lease.launched") || e.ID == b.told.Event || slices.Contains(shown.Record.Evidence, e.ID) {
			if e.Traceparent != want {
				t.Errorf("event %s (%s) has traceparent %q, want %q", e.ID, e.Type, e.Traceparent, want)
			}
		}
	}
}

// says runs a command that must succeed and returns what it printed.
func (s site) says(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t, append(args, "--state", s.dir)...)
	if r.code != 0 {
		t.Fatalf("%v exited with %d: %s", args, r.code, r.err)
	}
	return r.out
}

// trains submits a job that saves when asked to, and waits until it has committed a checkpoint.
func (s site) trains(c calm) (job string) {
	s.t.Helper()
	file := filepath.Join(s.root, "traced.yaml")
	if err := os.WriteFile(file, []byte(c.onNotice()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	job = strings.TrimSpace(s.says(s.t, "run", file, "-y", "--accept-risk", "--detach", "-o", "name"))
	until(s.t, "it has committed a checkpoint", func() bool {
		var j jobShown
		return json.Unmarshal([]byte(s.says(s.t, "job", "show", job, "-o", "json")), &j) == nil && j.Status == "running" && j.Checkpoint.Step > 0
	})
	return job
}

// isOneTree checks what a strict reader of traces checks.
func isOneTree(t *testing.T, spans []told, trace string) {
	t.Helper()
	byID := map[string]told{}
	for _, s := range spans {
		byID[s.ID] = s
	}
	roots := 0
	for _, s := range spans {
		if s.Trace != trace || s.Ended < s.Began {
			t.Errorf("%s is of trace %s, from %d to %d; the failover's is %s", s.Name, s.Trace, s.Began, s.Ended, trace)
		}
		if s.Parent == "" {
			roots++
			continue
		}
		p, ok := byID[s.Parent]
		if !ok {
			t.Errorf("%s of %s has no parent", s.Name, s.Service)
		} else if s.Began < p.Began || s.Ended > p.Ended {
			t.Errorf("%s is not within %s: it begins %v after it and ends %v after it", s.Name, p.Name, time.Duration(s.Began-p.Began), time.Duration(s.Ended-p.Ended))
		}
	}
	if roots != 1 || len(byID) != len(spans) {
		t.Errorf("%d roots; %d spans with %d ids", roots, len(spans), len(byID))
	}
	for name, want := range map[string]string{
		"seller launch": "seller launch of provider-local, failover of failover, ",
		"launch":        "launch of failover, acquire of failover, failover of failover, ",
	} {
		path := ""
		for i := slices.IndexFunc(spans, func(s told) bool { return s.Name == name }); i >= 0; {
			s := spans[i]
			path += s.Name + " of " + strings.TrimPrefix(s.Service, "spotferry-") + ", "
			i = slices.IndexFunc(spans, func(p told) bool { return p.ID == s.Parent })
		}
		if path != want {
			t.Errorf("from the %s it leads up by %q, want %q", name, path, want)
		}
	}
}

// isTheRecord compares spans with a record.
func isTheRecord(t *testing.T, spans []told, job string, r record) {
	t.Helper()
	for _, s := range spans {
		if s.Parent != "" {
			continue
		}
		for _, want := range []string{
			"spotferry.job=" + job, "spotferry.job_name=traced", fmt.Sprintf("spotferry.failover=%d", r.N), "spotferry.cause=operator", "spotferry.drill=true",
			fmt.Sprintf("spotferry.lost_steps=%d", r.LostSteps), "spotferry.to.lease=" + r.To.Lease, "spotferry.decision=" + r.Decision,
		} {
			if !strings.Contains(s.Attributes, want+"\n") {
				t.Errorf("the root has no %s: %s", want, s.Attributes)
			}
		}
		if s.Name != "failover" || s.Began > r.Began.UnixNano() || s.Ended != r.Ended.UnixNano() {
			t.Errorf("the root is %q from %d to %d, the record's %d to %d", s.Name, s.Began, s.Ended, r.Began.UnixNano(), r.Ended.UnixNano())
		}
	}
	for _, p := range r.Phases {
		i := slices.IndexFunc(spans, func(s told) bool { return s.Name == p.Name })
		if i < 0 {
			t.Errorf("there is no span of %s", p.Name)
			continue
		}
		// The record has whole milliseconds.
		if s := spans[i]; s.Began != p.Began.UnixNano() || s.Ended < p.ended().UnixNano() || s.Ended >= p.ended().Add(time.Millisecond).UnixNano() || !strings.Contains(s.Attributes, "spotferry.clock="+p.Clock+"\n") {
			t.Errorf("%+v is not phase %+v", s, p)
		}
	}
	t.Logf("%d spans, %d phases", len(spans), len(r.Phases))
}

// listener is a collector of traces.
type listener struct {
	*httptest.Server
	mu    sync.Mutex
	spans []told
}

func newCollector(t *testing.T) *listener {
	c := &listener{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector got %s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, from := range req.ResourceSpans {
			service := attribute("service.name", from.Resource.Attributes)
			for _, scope := range from.ScopeSpans {
				for _, s := range scope.Spans {
					one := told{
						Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
						Name: s.Name, Service: service, Began: int64(s.StartTimeUnixNano), Ended: int64(s.EndTimeUnixNano),
					}
					for _, a := range s.Attributes {
						one.Attributes += a.Key + "=" + attribute(a.Key, s.Attributes) + "\n"
					}
					c.spans = append(c.spans, one)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func attribute(key string, all []*common.KeyValue) string {
	for _, a := range all {
		if a.Key != key {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			return v.StringValue
		case *common.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			return fmt.Sprint(v.BoolValue)
		}
	}
	return ""
}

func (c *listener) told() []told {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// readSpans reads a file of OTLP JSON, a request a line.
func readSpans(t *testing.T, path string) (out []told) {
	t.Helper()
	type pair struct {
		Key   string
		Value map[string]any
	}
	write := func(p pair) string {
		for _, v := range p.Value {
			return fmt.Sprint(v)
		}
		return ""
	}
	for _, r := range readRows[struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []pair }
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					StartTimeUnixNano, EndTimeUnixNano  int64 `json:",string"`
					Attributes                          []pair
				}
			}
		}
	}](t, path) {
		for _, from := range r.ResourceSpans {
			service := ""
			for _, a := range from.Resource.Attributes {
				if a.Key == "service.name" {
					service = write(a)
				}
			}
			for _, scope := range from.ScopeSpans {
				for _, s := range scope.Spans {
					one := told{Trace: s.TraceID, ID: s.SpanID, Parent: s.ParentSpanID, Name: s.Name, Service: service, Began: s.StartTimeUnixNano, Ended: s.EndTimeUnixNano}
					for _, a := range s.Attributes {
						one.Attributes += a.Key + "=" + write(a) + "\n"
					}
					out = append(out, one)
				}
			}
		}
	}
	return out
}
