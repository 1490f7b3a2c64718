package plane

import (
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

func TestAPlansFiguresSayWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	ms := func(n int64) *int64 { return &n }
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	rehearsed := &console.Rehearsed{At: now, Where: "a box", SaveMS: ms(2500), StartMS: ms(51_200), StateBytes: ms(7_000_000), WorkS: map[string]int64{"H100": 600}}
	before := events.Inputs{RestartS: 60, AcquireS: 30, SaveMS: 0}
	for _, tc := range []struct {
		name    string
		k       knowledge
		hours   map[string]int64
		inputs  events.Inputs
		work    string
		origins map[string]console.Origin
	}{
		{"nothing known is all assumed", knowledge{}, nil, before, "assumed",
			map[string]console.Origin{"save pause": "assumed", "checkpoint": "assumed", "restart": "assumed", "acquire": "assumed"}},
		{"the job file gives the work", knowledge{}, map[string]int64{"V100": 3600}, before, "given: on V100, policy.work.hours_on",
			map[string]console.Origin{"save pause": "assumed", "restart": "assumed"}},
		{"a rehearsal takes the place of what was assumed; the machine still is", knowledge{rehearsed: rehearsed}, nil,
			events.Inputs{RestartS: 82, AcquireS: 30, SaveMS: 2500, StateBytes: 7_000_000}, "measured: on H100, rehearsed 2026-03-04 12:00Z on a box",
			map[string]console.Origin{"save pause": "measured", "checkpoint": "measured", "restart": "partly-assumed", "acquire": "assumed"}},
		{"the job file's word on the work wins", knowledge{rehearsed: rehearsed}, map[string]int64{"*": 3600},
			events.Inputs{RestartS: 82, AcquireS: 30, SaveMS: 2500, StateBytes: 7_000_000}, "given: on any GPU, policy.work.hours_on", nil},
		{"with machines seen the restart is measured", knowledge{rehearsed: rehearsed, acquired: 4}, nil,
			events.Inputs{RestartS: 82, AcquireS: 30, SaveMS: 2500, StateBytes: 7_000_000}, "measured: on H100, rehearsed 2026-03-04 12:00Z on a box",
			map[string]console.Origin{"restart": "measured", "acquire": "measured"}},
		{"moves that took longer here are believed", knowledge{rehearsed: &console.Rehearsed{At: now, StartMS: ms(10_000)}, moves: 3, acquired: 4}, nil,
			events.Inputs{RestartS: 60, AcquireS: 30}, "assumed", map[string]console.Origin{"restart": "measured"}},
		{"a save that takes no time is measured too", knowledge{rehearsed: &console.Rehearsed{At: now, SaveMS: ms(0)}}, nil, before, "assumed",
			map[string]console.Origin{"save pause": "measured", "checkpoint": "assumed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.k.clock = trace.NewClock(now, now, 1)
			spec, work := tc.k.sized(events.JobSpec{Policy: events.Policy{Work: events.Work{HoursOnS: tc.hours}}})
			if got := string(work.Origin) + ": " + work.Detail; !strings.HasPrefix(got, tc.work) {
				t.Errorf("the work is %q, want %q", got, tc.work)
			}
			if work.Value > 0 && len(spec.Policy.Work.HoursOnS) == 0 {
				t.Error("its size is told and not used")
			}
			in := before
			figures := tc.k.apply(&in)
			if in.RestartS != tc.inputs.RestartS || in.AcquireS != tc.inputs.AcquireS || in.SaveMS != tc.inputs.SaveMS || in.StateBytes != tc.inputs.StateBytes {
				t.Errorf("planned with %+v, want %+v", in, tc.inputs)
			}
			for _, f := range figures {
				if want := tc.origins[f.Name]; want != "" && f.Origin != want {
					t.Errorf("%s is %s (%s), want %s", f.Name, f.Origin, f.Detail, want)
				}
				if f.Detail == "" || f.Rehearsed != strings.Contains(f.Detail, "rehearsed ") {
					t.Errorf("it does not say where it is from: %+v", f)
				}
			}
		})
	}
}

func TestRehearsedTimesAreControlTimeAndPlansMarketTime(t *testing.T) {
	t.Parallel()
	ms := func(n int64) *int64 { return &n }
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	k := knowledge{clock: trace.NewClock(now, now, 60), rehearsed: &console.Rehearsed{At: now, SaveMS: ms(100), StartMS: ms(1000), WorkS: map[string]int64{"V100": 10}}}
	in := events.Inputs{AcquireS: 300}
	k.apply(&in)
	spec, _ := k.sized(events.JobSpec{})
	if in.SaveMS != 6000 || in.RestartS != 360 || spec.Policy.Work.HoursOnS["V100"] != 600 {
		t.Errorf("%+v, %v", in, spec.Policy.Work.HoursOnS)
	}
}
