package tracing

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// checkTree says what is wrong with a failover's trace as a tree.
func checkTree(t interface{ Errorf(string, ...any) }, r events.Failover, spans []Span) {
	ids := map[events.SpanID]Span{}
	roots := 0
	for _, s := range spans {
		if _, twice := ids[s.ID]; twice || s.ID == (events.SpanID{}) {
			t.Errorf("%s: id %s is not its own", s.Name, s.ID)
		}
		if s.Trace != spans[0].Trace {
			t.Errorf("%s is of another trace", s.Name)
		}
		p, ok := ids[s.Parent]
		switch {
		case s.Parent == (events.SpanID{}):
			roots++
		case !ok:
			t.Errorf("%s comes before its parent, or has none", s.Name)
		case s.Began.Before(p.Began) || s.Ended.After(p.Ended):
			t.Errorf("%s is not inside %s", s.Name, p.Name)
		}
		if s.Ended.Before(s.Began) {
			t.Errorf("%s ends before it begins", s.Name)
		}
		ids[s.ID] = s
	}
	if roots != 1 || spans[0].Name != events.RootSpan || spans[0].ID != spans[0].Trace.Span(events.RootSpan) {
		t.Errorf("%d roots, the first span is %s", roots, spans[0].Name)
	}
	byName := map[string][]Span{}
	for _, s := range spans {
		byName[s.Name] = append(byName[s.Name], s)
	}
	for _, p := range r.Phases {
		if len(byName[p.Name]) == 0 {
			t.Errorf("phase %s has no span", p.Name)
			continue
		}
		s := byName[p.Name][0]
		byName[p.Name] = byName[p.Name][1:]
		if !s.Began.Equal(p.Began) || s.Ended.Sub(s.Began).Milliseconds() != p.MS {
			t.Errorf("phase %s: span from %s for %s, record says %s for %d ms", p.Name, s.Began, s.Ended.Sub(s.Began), p.Began, p.MS)
		}
	}
}

func TestAFailoverIsOneTree(t *testing.T) {
	t.Parallel()
	r, evs := moved(t).record()
	spans := Spans(job, "tuned", r, evs)
	checkTree(t, r, spans)
	if spans[0].Trace != events.FailoverTrace(r.Evidence[0]) {
		t.Errorf("trace %s", spans[0].Trace)
	}
	var names []string
	parents := map[string]string{}
	for _, s := range spans {
		names = append(names, s.Name)
		for _, p := range spans {
			if p.ID == s.Parent {
				parents[s.Name+s.Failed] = p.Name
			}
		}
	}
	for child, parent := range map[string]string{"acquire": "failover", "launch": "acquire", "launchno_capacity": "failover", "boot": "failover", "save": "failover", "first-step": "failover"} {
		if parents[child] != parent {
			t.Errorf("%s is below %q, want %s: %v", child, parents[child], parent, names)
		}
	}
	var marks []string
	for _, m := range spans[0].Marks {
		marks = append(marks, m.Name)
	}
	if got := strings.Join(marks, " "); !strings.HasPrefix(got, "job.noticed job.committed lease.intended lease.refused lease.intended job.leased lease.launched") || !strings.Contains(got, "job.failed-over") {
		t.Errorf("marks %s", got)
	}
}

func TestTheOrderOfEventsAndThoseOfOthersChangeNothing(t *testing.T) {
	t.Parallel()
	r, evs := moved(t).record()
	want := Spans(job, "tuned", r, evs)
	shuffled := append([]events.Event{}, evs...)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	strange := evs[0]
	strange.Aggregate.ID, strange.Time = "01jx3kq8zr5v9m2c7t4b6n0d9z", r.Began
	got := Spans(job, "tuned", r, append(shuffled, strange))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if spans := Spans(job, "tuned", r, nil); len(spans) != len(r.Phases)+1 {
		t.Errorf("%d spans without any events", len(spans))
	}
}

// Whatever the clocks said, it is a tree.
func TestAnyRecordIsATree(t *testing.T) {
	t.Parallel()
	names := []string{"detect", "save", "upload", "wait", "decide", "acquire", "boot", "place", "image", "setup", "inputs", "restore", "first-step"}
	rapid.Check(t, func(t *rapid.T) {
		r := events.Failover{N: rapid.IntRange(1, 9).Draw(t, "n"), Began: t0, Ended: t0.Add(time.Duration(rapid.IntRange(-5, 90_000).Draw(t, "took")) * time.Millisecond),
			From: events.Side{Lease: job.Lease(1, 1)}, To: events.Side{Lease: job.Lease(2, 2)}}
		for range rapid.IntRange(0, 20).Draw(t, "phases") {
			r.Phases = append(r.Phases, events.Phase{
				Name: rapid.SampledFrom(names).Draw(t, "name"), Clock: "control",
				Began: t0.Add(time.Duration(rapid.IntRange(-10_000, 100_000).Draw(t, "at")) * time.Millisecond), MS: rapid.Int64Range(0, 50_000).Draw(t, "ms"),
			})
		}
		if r.Ended.Before(r.Began) {
			r.Ended = r.Began
		}
		var evs []events.Event
		for i := range rapid.IntRange(0, 3).Draw(t, "leases") {
			id := job.Lease(2, i+1)
			evs = append(evs,
				events.Event{Aggregate: events.LeaseAggregate(org, id), Time: t0.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "intent")) * time.Second), Fact: events.LeaseIntended{}},
				events.Event{Aggregate: events.LeaseAggregate(org, id), Time: t0.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "launched")) * time.Second), Fact: events.LeaseLaunched{TookMS: rapid.Int64Range(-5, 50_000).Draw(t, "call")}})
		}
		checkTree(t, r, Spans(job, "x", r, evs))
	})
}

func TestAMachineThatWentBeforeItsFirstStepIsPartOfTheMove(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.after(0, failover.Submit{By: "ann", Attribution: events.Attribution{Org: org}, Spec: events.JobSpec{Name: "tuned", Run: "train", Policy: events.Policy{Budget: events.Dollar}}})
	a := l.buy(1, 1)
	l.steps(2*time.Second, 1, a, 0)
	l.notice(a)
	l.commit(a)
	b := l.buy(2, 1)
	ended := l.lease(b, events.LeaseEnded{Instance: "i-1", EndedBy: "seller", Pool: pool("b")})
	l.after(time.Second, failover.Gone{Event: ended})
	c := l.buy(3, 2)
	l.steps(2*time.Second, 3, c, 10)
	r, evs := l.record()
	spans := Spans(job, "tuned", r, evs)
	checkTree(t, r, spans)
	for _, want := range []events.LeaseID{b, job.Lease(3, 1), c} {
		if id := spans[0].Trace.Span(events.LaunchSpan(want)); !slices.ContainsFunc(spans, func(s Span) bool { return s.ID == id }) {
			t.Errorf("no span for the launch of %s", want)
		}
	}
	var last events.Event
	for _, e := range evs {
		if mayEnd(e) {
			last = e
		}
	}
	if again, err := endedBy(t.Context(), l.log, last); err != nil || !reflect.DeepEqual(again, spans) {
		t.Errorf("what is read gives another tree: %v", err)
	}
}

func TestAMoveThatIsCalledOffIsATreeToo(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.after(0, failover.Submit{By: "ann", Attribution: events.Attribution{Org: org}, Spec: events.JobSpec{Name: "tuned", Run: "train", Policy: events.Policy{Budget: events.Dollar}}})
	a := l.buy(1, 1)
	l.steps(2*time.Second, 1, a, 0)
	l.notice(a)
	b := l.buy(2, 2)
	l.after(time.Second, failover.Withdrawn{JobNoticeWithdrawn: events.JobNoticeWithdrawn{Epoch: 1, Lease: a}})
	var off events.Event
	for _, e := range l.log.Events(events.FilterJobs) {
		if mayEnd(e) {
			off = e
		}
	}
	spans, err := endedBy(t.Context(), l.log, off)
	if err != nil || len(spans) == 0 {
		t.Fatal(spans, err)
	}
	checkTree(t, events.Failover{}, spans)
	var first events.EventID
	for _, e := range l.log.Events(events.FilterJobs) {
		if _, ok := e.Fact.(events.JobNoticed); ok {
			first = e.ID
		}
	}
	if spans[0].Trace != events.FailoverTrace(first) || len(spans) != 3 || spans[2].ID != spans[0].Trace.Span(events.LaunchSpan(b)) {
		t.Errorf("trace %s", spans[0].Trace)
	}
	// The next move is another trace, although it has the number that this one would have had.
	l.notice(a)
	l.commit(a)
	c := l.buy(3, 1)
	l.steps(2*time.Second, 3, c, 10)
	r, evs := l.record()
	for _, s := range Spans(job, "tuned", r, evs) {
		if s.Trace == spans[0].Trace || s.ID == s.Trace.Span(events.LaunchSpan(b)) {
			t.Errorf("%s is of the move that was called off", s.Name)
		}
	}
}

func TestARestartInPlaceBuysNothing(t *testing.T) {
	t.Parallel()
	r, evs := moved(t).record()
	r.To = r.From
	for _, s := range Spans(job, "tuned", r, evs) {
		if s.Name == "launch" {
			t.Errorf("launch %v", s.Attributes)
		}
	}
}

// A record has whole milliseconds; what happened in a phase may end in the one that was cut off.
func TestAPhaseReachesToTheEndOfItsCallButIsNotStretched(t *testing.T) {
	t.Parallel()
	for cut, want := range map[time.Duration]time.Duration{0: 0, 400 * time.Microsecond: 0, 2 * time.Millisecond: 2 * time.Millisecond} {
		r, evs := moved(t).record()
		phases := slices.Clone(r.Phases)
		i := slices.IndexFunc(phases, func(p events.Phase) bool { return p.Name == "acquire" })
		end := phases[i].Began.Add(time.Duration(phases[i].MS) * time.Millisecond)
		phases[i].Began = phases[i].Began.Add(-cut)
		r.Phases = phases
		spans := Spans(job, "tuned", r, evs)
		for _, s := range spans {
			if (s.Name == "acquire" || s.ID == s.Trace.Span(events.LaunchSpan(r.To.Lease))) && !s.Ended.Equal(end.Add(-want)) {
				t.Errorf("cut by %v: %s ends %v before the call", cut, s.Name, end.Sub(s.Ended))
			}
		}
	}
}
