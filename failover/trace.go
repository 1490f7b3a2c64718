package failover

import "github.com/spotferry/spotferry/events"

// traceOf is the trace of an event: that of the move which it begins, belongs to
// or ends, or tells more about. It is derived from the job's record alone, so it outlives every
// restart and every service knows it.
func traceOf(before, after Job, fact events.Fact) string {
	n := before.Failovers + 1
	if later, ok := fact.(events.JobFailoverRefined); ok {
		n = later.N
	} else if before.Move == nil && after.Move == nil {
		return ""
	}
	t := events.FailoverTrace(after.ID, n)
	return events.Traceparent(t, t.Span(events.RootSpan))
}
