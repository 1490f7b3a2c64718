package failover

import "github.com/spotferry/spotferry/events"

// traceOf is the trace of an event: that of the move which it begins, belongs to
// or ends; "" when nothing moves. It follows from the job's record, so it outlives
// every restart.
func traceOf(before, after Job) string {
	m := before.Move
	if m == nil {
		m = after.Move
	}
	return m.trace()
}

// trace is the traceparent of a move, "" of none.
func (m *Move) trace() string {
	if m == nil || len(m.Evidence) == 0 {
		return ""
	}
	t := events.FailoverTrace(m.Evidence[0])
	return events.Traceparent(t, t.Span(events.RootSpan))
}
