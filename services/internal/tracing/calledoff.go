package tracing

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/spotferry/spotferry/events"
)

// calledOff is the trace of a move that came to nothing: its warning was taken
// back, its agent was heard again, or its job ended first. There is no record
// of it; its root reaches from its first event to the one that ended it.
func calledOff(job events.JobID, name string, end events.Event, evs []events.Event) []Span {
	trace, _, err := events.ParseTraceparent(end.Trace)
	if err != nil {
		return nil
	}
	kind, _ := events.TypeOf(end.Fact)
	root := Span{Name: events.RootSpan, Began: end.Time, Ended: end.Time, Attributes: []attribute.KeyValue{
		attribute.String("spotferry.job", string(job)), attribute.String("spotferry.job_name", name),
		attribute.Bool("spotferry.called_off", true), attribute.String("spotferry.called_off_by", kind.Family+"."+kind.Event),
	}}
	ofMove := func(e events.Event) bool { return e.Trace == end.Trace }
	for _, e := range evs {
		if ofMove(e) && ofJob(job, e) && !e.Time.After(end.Time) {
			root.cover(e.Time, e.Time)
		}
	}
	made := calls(evs, end.Time, ofMove, func(call) bool { return true })
	root.Marks = marks(job, root, evs)
	t := tree{trace: trace}
	t.add("", root)
	for _, c := range made {
		t.addAs(events.LaunchSpan(c.lease), "", c.span)
	}
	return t.spans
}
