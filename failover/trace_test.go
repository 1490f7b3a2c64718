package failover

import (
	"testing"

	"github.com/spotferry/spotferry/events"
)

func TestEveryEventOfAMoveCarriesItsTraceAndNoOther(t *testing.T) {
	t.Parallel()
	still, moving := Job{ID: "a"}, Job{ID: "a", Move: &Move{}}
	moved, again := Job{ID: "a", Failovers: 1}, Job{ID: "a", Failovers: 1, Move: &Move{}}
	for _, tc := range []struct {
		name          string
		before, after Job
		fact          events.Fact
		n             int
	}{
		{"nothing moves", still, still, events.JobCommitted{}, 0},
		{"the first sign", still, moving, events.JobNoticed{}, 1},
		{"on the way", moving, moving, events.JobPlaced{}, 1},
		{"the record", moving, moved, events.JobFailedOver{}, 1},
		{"after it", moved, moved, events.JobCommitted{}, 0},
		{"the next one", moved, again, events.JobLost{}, 2},
		{"what was learned of the first, while the next goes on", again, again, events.JobFailoverRefined{N: 1}, 1},
		{"what was learned later", moved, moved, events.JobFailoverRefined{N: 1}, 1},
		{"a warning taken back", moving, still, events.JobNoticeWithdrawn{}, 1},
	} {
		got := traceOf(tc.before, tc.after, tc.fact)
		if tc.n == 0 {
			if got != "" {
				t.Errorf("%s: %s", tc.name, got)
			}
			continue
		}
		trace, span, err := events.ParseTraceparent(got)
		if err != nil || trace != events.FailoverTrace("a", tc.n) || span != trace.Span(events.RootSpan) {
			t.Errorf("%s: %s, %v; want the trace of failover %d", tc.name, got, err, tc.n)
		}
	}
}
