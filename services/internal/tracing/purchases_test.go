package tracing

import (
	"slices"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Sellers tell their own spans of a call while nobody knows yet what becomes of the move:
// whatever does, their parent is exported once, in a tree with one root.
func TestEverySellersSpanHasAParent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		play   func(l *life, b events.LeaseID) // b has arrived and made no step yet
		traces int
	}{
		{"a move", func(l *life, b events.LeaseID) { l.steps(time.Second, 2, b, 10) }, 1},
		{"the machine that arrives is to be left as well, and still makes a step", func(l *life, b events.LeaseID) {
			l.notice(b)
			c := l.buy(3, 2)
			l.steps(time.Second, 2, b, 10)
			l.after(time.Hour, failover.Tick{})
			l.steps(time.Second, 3, c, 10)
		}, 2},
		{"it makes none, and what was bought meanwhile takes its place", func(l *life, b events.LeaseID) {
			l.notice(b)
			c := l.buy(3, 2)
			l.after(time.Hour, failover.Tick{})
			l.steps(time.Second, 3, c, 10)
		}, 2},
		{"it is lost, and another bought", func(l *life, b events.LeaseID) {
			ended := l.lease(b, events.LeaseEnded{Instance: "i-1", EndedBy: "seller", Pool: pool("b")})
			l.after(time.Second, failover.Gone{Event: ended})
			l.steps(2*time.Second, 3, l.buy(3, 2), 10)
		}, 1},
		{"it is silent, another is bought, and its step is told late", func(l *life, b events.LeaseID) {
			l.after(time.Second, failover.Silent{Epoch: 2, Heard: failover.Heard{At: l.now}})
			l.bid(job.Lease(3, 1))
			l.after(time.Second, failover.Returned{Epoch: 2})
			l.steps(time.Second, 2, b, 10)
		}, 1},
		{"its warning is taken back", func(l *life, b events.LeaseID) {
			l.notice(b)
			l.bid(job.Lease(3, 1))
			l.after(time.Second, failover.Withdrawn{JobNoticeWithdrawn: events.JobNoticeWithdrawn{Epoch: 2, Lease: b}})
			l.steps(time.Second, 2, b, 10)
		}, 2},
		{"the job ends on the way", func(l *life, b events.LeaseID) {
			l.notice(b)
			l.bid(job.Lease(3, 1))
			l.after(time.Second, failover.Cancel{By: "ann", Reason: "enough"})
		}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, b := arriving(t)
			tc.play(l, b)
			var spans []Span
			for _, e := range l.log.Events(events.FilterJobs) {
				if mayEnd(e) {
					more, err := endedBy(t.Context(), l.log, e)
					if err != nil {
						t.Fatal(err)
					}
					spans = append(spans, more...)
				}
			}
			roots := map[events.TraceID]int{}
			for _, s := range spans {
				if s.Parent == (events.SpanID{}) {
					roots[s.Trace]++
				}
			}
			for id, n := range roots {
				if n != 1 {
					t.Errorf("trace %s has %d roots", id, n)
				}
			}
			for _, e := range l.log.Events(events.FilterLeases) {
				id, _, err := events.ParseTraceparent(e.Trace)
				if _, ok := e.Fact.(events.LeaseIntended); !ok || err != nil {
					continue
				}
				want := id.Span(events.LaunchSpan(events.LeaseID(e.Aggregate.ID)))
				if !slices.ContainsFunc(spans, func(s Span) bool { return s.Trace == id && s.ID == want }) {
					t.Errorf("the call for %s has no parent in trace %s", e.Aggregate.ID, id)
				}
			}
			if len(roots) != tc.traces {
				t.Errorf("%d traces, want %d", len(roots), tc.traces)
			}
		})
	}
}

// arriving is a job that was given notice and is placed on another machine.
func arriving(t *testing.T) (*life, events.LeaseID) {
	l := newLife(t)
	l.after(0, failover.Submit{By: "ann", Attribution: events.Attribution{Org: org}, Spec: events.JobSpec{Name: "tuned", Run: "train", Policy: events.Policy{Budget: events.Dollar}}})
	a := l.buy(1, 1)
	l.steps(2*time.Second, 1, a, 0)
	l.notice(a)
	l.commit(a)
	return l, l.buy(2, 1)
}

// bid has a purchase begun that is not answered.
func (l *life) bid(id events.LeaseID) {
	l.t.Helper()
	_, epoch, n, _ := id.Parts()
	l.lease(id, events.LeaseIntended{Job: job, Epoch: epoch, N: n, Purpose: events.ForReplace, Offer: events.Offer{Pool: pool("c"), Price: events.DollarPerHour}})
}
