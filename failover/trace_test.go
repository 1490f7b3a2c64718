package failover

import (
	"testing"

	"github.com/spotferry/spotferry/events"
)

func TestEveryEventOfAMoveCarriesItsTraceAndNoOther(t *testing.T) {
	t.Parallel()
	still := Job{ID: "a"}
	moving := Job{ID: "a", Move: &Move{Evidence: []events.EventID{"a-7", "a-9"}}}
	for _, tc := range []struct {
		name          string
		before, after Job
		moves         bool
	}{
		{"nothing moves", still, still, false},
		{"the first sign", still, moving, true},
		{"on the way", moving, moving, true},
		{"the record, or a warning taken back", moving, still, true},
	} {
		got := traceOf(tc.before, tc.after)
		if !tc.moves {
			if got != "" {
				t.Errorf("%s: %s", tc.name, got)
			}
			continue
		}
		trace, span, err := events.ParseTraceparent(got)
		if err != nil || trace != events.FailoverTrace("a-7") || span != trace.Span(events.RootSpan) {
			t.Errorf("%s: %s, %v; want the trace that began with a-7", tc.name, got, err)
		}
	}
}
