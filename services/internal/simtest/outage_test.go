package simtest

import (
	"testing"
	"time"
)

// I-15: losing contact with the control plane, or the control plane itself, never
// costs a healthy trainer a step.
func TestOutagesOfTheControlPlaneCostNoStep(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trouble func(*trouble)
		met     string
	}{
		{"the control plane dies again and again", func(t *trouble) { t.crash, t.only = 5*time.Minute, anywhere }, "crash: " + anywhere},
		{"the bus restarts again and again", func(t *trouble) { t.bus = 10 * time.Minute }, "bus dies"},
		{"machines lose contact for less than their hold", func(t *trouble) { t.partition, t.short = 4*time.Minute, true }, "partition within the hold"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, h := options{hours: 1.5, jobs: 3, trouble: quiet}, newHits()
			tc.trouble(&o.trouble)
			v := simulate(t, 5, h, o)
			v.report(t, 5, o)
			if l := v.load; l.placements != l.jobs || l.succeeded != l.jobs || l.machines != l.jobs || l.lost > 0 {
				t.Errorf("want one machine for each job and nothing lost: %s\n%s", l, v.told())
			}
			if h.get(tc.met) == 0 {
				t.Errorf("never met: %s", tc.met)
			}
		})
	}
}
