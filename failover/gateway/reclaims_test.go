package gateway

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestTheTimeBetweenReclaimsIsTheDecisions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		d    events.Decision
		want time.Duration
	}{
		{"nothing was chosen", events.Decision{Chosen: -1, Candidates: []events.Candidate{{Hazard: 1}}}, 0},
		{"of the chosen one", events.Decision{Chosen: 1, Candidates: []events.Candidate{{Hazard: 9}, {Hazard: 0.5}}}, 2 * time.Hour},
		{"the expected life is better than the young machine's hazard", events.Decision{Candidates: []events.Candidate{{Hazard: 2, Life: 3}}}, 3 * time.Hour},
		{"market time passes faster", events.Decision{Inputs: events.Inputs{Scale: 240}, Candidates: []events.Candidate{{Life: 4}}}, time.Minute},
		{"never taken back", events.Decision{Candidates: []events.Candidate{{}}}, 0},
		{"hardly ever", events.Decision{Candidates: []events.Candidate{{Hazard: 1e-300}}}, 0},
		{"a choice that is not among the candidates", events.Decision{Chosen: 3}, 0},
	} {
		if got := betweenReclaims(tc.d); got.Round(time.Millisecond) != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
