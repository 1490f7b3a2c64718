package tracing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/spotferry/spotferry/events"
)

// Span is one span of a failover's trace.
type Span struct {
	Trace      events.TraceID
	ID         events.SpanID
	Parent     events.SpanID // zero: the root
	Name       string
	Began      time.Time
	Ended      time.Time
	Attributes []attribute.KeyValue
	Marks      []Mark
	Failed     string // why, if it did
}

// Mark is something that happened within a span: an event of the job or its leases.
type Mark struct {
	At         time.Time
	Name       string
	Attributes []attribute.KeyValue
}

// Spans returns the trace of a failover as a tree: the root first, every parent
// before its children, no child outside its parent. The children of the root are
// the record's phases, to the millisecond, and the purchases that came to nothing;
// the call to the seller is a child of the phase that it belongs to.
//
// evs are events of the job and its leases, any number and in any order; what is
// not of this failover is left out.
func Spans(job events.JobID, name string, r events.Failover, evs []events.Event) []Span {
	t := tree{trace: r.Trace()}
	root := Span{Name: events.RootSpan, Began: r.Began, Ended: r.Ended, Attributes: rootAttributes(job, name, r)}
	made := launches(r, evs)
	for _, p := range r.Phases {
		root.cover(p.Began, p.Began.Add(time.Duration(p.MS)*time.Millisecond))
	}
	bought := slices.ContainsFunc(r.Phases, func(p events.Phase) bool { return p.Name == "acquire" })
	for _, c := range made {
		if c.lease != r.To.Lease || !bought {
			root.cover(c.span.Began, c.span.Ended)
		}
	}
	root.Marks = marks(job, root, evs)
	t.add("", root)
	for _, p := range wholesFirst(r.Phases) {
		s := Span{Name: p.Name, Began: p.Began, Ended: p.Began.Add(time.Duration(p.MS) * time.Millisecond)}
		for _, c := range made {
			if p.Name == "acquire" && c.lease == r.To.Lease {
				s.holds(c.span)
			}
		}
		s.Attributes = []attribute.KeyValue{attribute.String("spotferry.clock", p.Clock), attribute.String("spotferry.actor", actor(p.Name))}
		t.add(partOf(p, r.Phases), s)
	}
	for _, c := range made {
		parent := ""
		if c.lease == r.To.Lease {
			parent = "acquire"
		}
		t.addAs(events.LaunchSpan(c.lease), parent, c.span)
	}
	return t.spans
}

// cover widens a span.
func (s *Span) cover(from, to time.Time) {
	if from.Before(s.Began) {
		s.Began = from
	}
	if to.After(s.Ended) {
		s.Ended = to
	}
}

// holds has a phase reach to the end of what happened in it, where only the record's rounding to
// milliseconds cut it off: what a seller's own clock says would stand out of it.
func (s *Span) holds(part Span) {
	if late := part.Ended.Sub(s.Ended); late > 0 && late < time.Millisecond {
		s.Ended = part.Ended
	}
}

// tree collects spans; ids are derived from names.
type tree struct {
	trace events.TraceID
	spans []Span
	names map[string]int // the last span of that name
}

func (t *tree) add(parent string, s Span) {
	key := s.Name
	for n := 2; t.has(key); n++ { // a phase that comes twice
		key = fmt.Sprintf("%s %d", s.Name, n)
	}
	t.addAs(key, parent, s)
}

func (t *tree) has(key string) bool { _, ok := t.names[key]; return ok }

func (t *tree) addAs(key, parent string, s Span) {
	s.Trace, s.ID = t.trace, t.trace.Span(key)
	if len(t.spans) > 0 {
		i := t.names[parent] // the root when there is none of that name
		s.Parent = t.spans[i].ID
		s.within(t.spans[i])
	}
	if t.names == nil {
		t.names = map[string]int{}
	}
	t.names[key] = len(t.spans)
	t.spans = append(t.spans, s)
}

// within keeps a child inside its parent: clocks of two machines differ by less than a phase, but they differ.
func (s *Span) within(p Span) {
	clamp := func(at time.Time) time.Time {
		switch {
		case at.Before(p.Began):
			return p.Began
		case at.After(p.Ended):
			return p.Ended
		}
		return at
	}
	s.Began, s.Ended = clamp(s.Began), clamp(s.Ended)
}

// partOf is the phase that another is a part of, "" for the move itself.
func partOf(p events.Phase, all []events.Phase) string {
	i := slices.IndexFunc(all, func(p events.Phase) bool { return p.Name == "setup" })
	if !isPart(p) || i < 0 {
		return ""
	}
	whole, end := all[i], p.Began.Add(time.Duration(p.MS)*time.Millisecond)
	if p.Began.Before(whole.Began) || end.After(whole.Began.Add(time.Duration(whole.MS)*time.Millisecond)) {
		return ""
	}
	return whole.Name
}

// isPart says whether a phase is measured within the setup.
func isPart(p events.Phase) bool { return p.Name == "image" || p.Name == "inputs" }

// wholesFirst keeps the order of the record but for what is part of another phase.
func wholesFirst(phases []events.Phase) []events.Phase {
	return slices.SortedStableFunc(slices.Values(phases), func(a, b events.Phase) int {
		return cmp.Compare(rank(a), rank(b))
	})
}

func rank(p events.Phase) int {
	if isPart(p) {
		return 1
	}
	return 0
}

// actor is who did the work of a phase.
func actor(phase string) string {
	switch phase {
	case "detect", "place":
		return "failover"
	case "wait", "decide", "acquire":
		return "bidder"
	case "boot":
		return "seller"
	case "restore", "save", "first-step":
		return "trainer"
	}
	return "agent"
}

func rootAttributes(job events.JobID, name string, r events.Failover) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("spotferry.job", string(job)),
		attribute.String("spotferry.job_name", name),
		attribute.Int("spotferry.failover", r.N),
		attribute.String("spotferry.cause", string(r.Cause)),
		attribute.Bool("spotferry.drill", r.Drill),
		attribute.String("spotferry.from.pool", r.From.Pool.String()),
		attribute.String("spotferry.from.lease", string(r.From.Lease)),
		attribute.Int("spotferry.from.epoch", r.From.Epoch),
		attribute.String("spotferry.to.pool", r.To.Pool.String()),
		attribute.String("spotferry.to.lease", string(r.To.Lease)),
		attribute.Int("spotferry.to.epoch", r.To.Epoch),
		attribute.Int64("spotferry.notice_ms", r.NoticeMS),
		attribute.Int64("spotferry.lost_steps", r.LostSteps),
		attribute.Int64("spotferry.lost_ms", r.LostMS),
		attribute.String("spotferry.lost_usd", r.LostCost.String()),
		attribute.String("spotferry.decision", string(r.Decision)),
		attribute.Int64("spotferry.took_ms", r.Ended.Sub(r.Began).Milliseconds()),
	}
}

// marks are the events of the job and its leases while it moved.
func marks(job events.JobID, within Span, evs []events.Event) []Mark {
	var out []Mark
	for _, e := range ordered(evs, func(a, b events.Event) int { return a.Time.Compare(b.Time) }) {
		if !ofJob(job, e) || e.Time.Before(within.Began) || e.Time.After(within.Ended) {
			continue
		}
		t, ok := events.TypeOf(e.Fact)
		if !ok {
			continue
		}
		out = append(out, Mark{At: e.Time, Name: t.Family + "." + t.Event, Attributes: []attribute.KeyValue{
			attribute.String("spotferry.event", string(e.ID)), attribute.String("spotferry.causation", string(e.Causation)),
		}})
	}
	return out[:min(len(out), mostMarks)]
}

// mostMarks is how many events the SDK keeps of a span.
const mostMarks = 128

// ordered returns events by a first criterion, then by aggregate and sequence.
func ordered(evs []events.Event, first func(a, b events.Event) int) []events.Event {
	return slices.SortedStableFunc(slices.Values(evs), func(a, b events.Event) int {
		return cmp.Or(first(a, b), cmp.Compare(a.Aggregate.Key(), b.Aggregate.Key()), cmp.Compare(a.Sequence, b.Sequence))
	})
}

func ofJob(job events.JobID, e events.Event) bool {
	switch e.Aggregate.Kind {
	case "job":
		return e.Aggregate.ID == string(job)
	case "lease":
		return events.LeaseID(e.Aggregate.ID).Job() == job
	}
	return false
}
