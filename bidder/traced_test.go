package bidder

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/spotferry/spotferry/events"
)

func TestALaunchIsPartOfItsMovesTrace(t *testing.T) {
	t.Parallel()
	move := events.FailoverTrace("a-7")
	l := lease{id: events.JobID("a").Lease(4, 2)}
	l.newest.Trace = events.Traceparent(move, move.Span(events.RootSpan))
	c := trace.SpanContextFromContext(traced(t.Context(), l))
	if c.TraceID() != trace.TraceID(move) || c.SpanID() != trace.SpanID(move.Span(events.RootSpan)) || !c.IsSampled() || !c.IsRemote() {
		t.Errorf("%+v", c)
	}
	for _, none := range []string{"", "garbage"} {
		l.newest.Trace = none
		if c := trace.SpanContextFromContext(traced(t.Context(), l)); c.IsValid() {
			t.Errorf("%q is a trace: %+v", none, c)
		}
	}
}

func TestALeasesEventsContinueTheTraceOfTheMoveElseTheirOwn(t *testing.T) {
	t.Parallel()
	s := &Service{world: newWorld(0, 1)}
	l := lease{id: events.JobID("a").Lease(2, 1)}
	if got := s.traceOf(l); got != "" {
		t.Errorf("a job that nobody knows is traced: %s", got)
	}
	s.world.jobs["a"] = job{newest: events.Event{Trace: "another", Commands: []events.Command{{Kind: events.Acquire, Epoch: 2, N: 1, Trace: "ordered"}}}}
	if got := s.traceOf(l); got != "ordered" {
		t.Errorf("%q", got)
	}
	s.world.jobs["a"] = job{newest: events.Event{Trace: "another"}}
	if got := s.traceOf(l); got != "" {
		t.Errorf("what nobody ordered is of %q", got)
	}
	l.newest.Trace = "own"
	for _, l.phase = range []phase{intended, unknown} {
		if got := s.traceOf(l); got != "own" {
			t.Errorf("%s: %q", l.phase, got)
		}
	}
	l.phase = launched
	s.world.jobs["a"] = job{newest: events.Event{}}
	if got := s.traceOf(l); got != "own" {
		t.Errorf("%q", got)
	}
	s.world.jobs["a"] = job{newest: events.Event{Trace: "move"}}
	if got := s.traceOf(l); got != "move" {
		t.Errorf("%q", got)
	}
}
