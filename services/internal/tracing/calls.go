package tracing

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/spotferry/spotferry/events"
)

// call is a launch at a seller.
type call struct {
	lease events.LeaseID
	span  Span
}

// launches are the calls to sellers that a move made: the one that gave its machine,
// those before it that gave none, and one whose machine went before its first step.
func launches(r events.Failover, evs []events.Event) []call {
	if r.To.Lease == r.From.Lease {
		return nil
	}
	own := events.Traceparent(r.Trace(), r.Trace().Span(events.RootSpan))
	return calls(evs, r.Ended, func(e events.Event) bool { return led(r, events.LeaseID(e.Aggregate.ID)) || e.Trace == own },
		func(c call) bool { return c.lease == r.To.Lease || !c.span.Began.Before(r.Began) })
}

// calls are the launches that lease events tell of until a time, oldest first. One that had no answer by
// then ends there: a seller may tell of it all the same.
func calls(evs []events.Event, till time.Time, of func(events.Event) bool, keep func(call) bool) []call {
	found := map[events.LeaseID]*call{}
	for _, e := range ordered(evs, func(events.Event, events.Event) int { return 0 }) {
		if e.Aggregate.Kind != "lease" || e.Time.After(till) || !of(e) {
			continue
		}
		id := events.LeaseID(e.Aggregate.ID)
		c := found[id]
		if c == nil {
			c = &call{lease: id, span: Span{Name: "launch"}}
			found[id] = c
		}
		c.fold(e)
	}
	var out []call
	for _, c := range found {
		if c.span.Ended.IsZero() {
			c.span.Ended, c.span.Failed = till, "no answer yet"
		}
		if !c.span.Began.IsZero() && !c.span.Ended.Before(c.span.Began) && keep(*c) {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b call) int {
		return cmp.Or(a.span.Began.Compare(b.span.Began), cmp.Compare(a.lease, b.lease))
	})
	return out
}

// led says whether a lease is one on the way to where a move led: of an epoch after the one
// that was left, and none after the one that was taken. A restart in place has none.
func led(r events.Failover, id events.LeaseID) bool {
	job, last, most, err := r.To.Lease.Parts()
	if err != nil || r.To.Lease == r.From.Lease {
		return false
	}
	j, epoch, n, err := id.Parts()
	return err == nil && j == job && epoch > r.From.Epoch && (epoch < last || epoch == last && n <= most)
}

func (c *call) fold(e events.Event) {
	s := &c.span
	switch f := e.Fact.(type) {
	case events.LeaseIntended:
		if s.Began.IsZero() {
			s.Began = e.Time
		}
		s.Attributes = append(s.Attributes, attribute.String("spotferry.lease", string(c.lease)),
			attribute.String("spotferry.seller", f.Offer.Pool.Seller), attribute.String("spotferry.pool", f.Offer.Pool.String()))
	case events.LeaseLaunched:
		s.Ended, s.Failed = e.Time, ""
		s.Attributes = append(s.Attributes, attribute.String("spotferry.instance", string(f.Instance)),
			attribute.Bool("spotferry.reconciled", f.Found), attribute.Int64("spotferry.took_ms", f.TookMS))
	case events.LeaseRefused:
		s.Ended, s.Failed = e.Time, f.Kind
		s.Attributes = append(s.Attributes, attribute.String("spotferry.kind", f.Kind), attribute.String("spotferry.code", f.Code))
	case events.LeaseUnknown:
		s.Ended, s.Failed = e.Time, "outcome unknown"
	}
}
