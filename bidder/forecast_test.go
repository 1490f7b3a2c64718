package bidder

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func prospect(budget events.MicroUSD, deadline time.Duration, quotes ...Quote) Situation {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Situation{Now: events.Moment{Control: now, Market: now}, Quotes: quotes}
	s.Spec = events.JobSpec{Resources: events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}}}}
	s.Spec.Policy = events.Policy{Budget: budget, Spot: events.SpotPolicy{Mode: events.SpotAuto}, Work: events.Work{HoursOnS: map[string]int64{"V100": 10 * 3600}}}
	s.Inputs = events.Inputs{
		WorkLeftS: 10 * 3600, TimeLeftS: -1, WindowS: -1, RestartS: 300, AcquireS: 120, Budget: budget, CommitMS: -1,
		DwellS: 1800, HorizonS: 3600, TeardownS: 60, RetryMS: 30_000, Scale: 1,
	}
	if deadline > 0 {
		s.Spec.Policy.Deadline = now.Add(deadline)
		s.Inputs.TimeLeftS, s.Inputs.WindowS = int64(deadline.Seconds()), int64(deadline.Seconds())
	}
	for i := range s.Quotes {
		s.Quotes[i].Offer.Seen, s.Quotes[i].Offer.TTLS = now, 60
	}
	return s
}

func v100(c events.CapacityType, price events.PerInstanceHour, hazard, life float64) Quote {
	return Quote{Hazard: hazard, Life: life, Stood: time.Hour, Offer: events.Offer{
		Pool: events.Pool{Seller: "s", Region: "r", Zone: "z", InstanceType: "v100", Capacity: c, Gang: 1},
		GPU:  events.GPU{Vendor: "nvidia", Model: "V100", Count: 1, MemoryMiB: 16384}, VCPU: 8, RAMMiB: 61000, DiskGB: 100, Country: "DE", Price: price,
		Terms: events.Terms{GrainS: 1, MinimumS: 60}, SpeedPct: 100,
	}}
}

func TestForecast(t *testing.T) {
	spot, dear := v100(events.Spot, events.DollarPerHour, 0.3, 4), v100(events.OnDemand, 3*events.DollarPerHour, 0, 0)
	for _, tc := range []struct {
		name              string
		s                 Situation
		possible, certain bool
		least, most       float64 // probability
	}{
		{"money and time for on-demand make it certain", prospect(40*events.Dollar, 20*time.Hour, spot, dear), true, true, 1, 1},
		{"a deadline shorter than the work is impossible", prospect(40*events.Dollar, 9*time.Hour, spot, dear), false, false, -1, -1},
		{"a budget below the best price is impossible", prospect(9*events.Dollar, 0, spot, dear), false, false, -1, -1},
		{"no GPU that fits is impossible", func() Situation {
			s := prospect(40*events.Dollar, 0, spot, dear)
			s.Spec.Resources.Accelerators[0].Model = "H100"
			return s
		}(), false, false, -1, -1},
		{"spot money without a deadline is likely but not certain", prospect(20*events.Dollar, 0, spot, dear), true, false, 0.8, 1},
		{"hardly more than the best price is unlikely", prospect(10*events.Dollar+events.Dollar/10, 0, spot, dear), true, false, 0, 0.3},
		{"work of unknown size has no probability", func() Situation {
			s := prospect(40*events.Dollar, 0, spot, dear)
			s.Spec.Policy.Work, s.Inputs.WorkLeftS = events.Work{}, -1
			return s
		}(), true, false, -1, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := Forecast(tc.s, 100, 1)
			if v.Possible != tc.possible || v.Certain != tc.certain || v.Probability < tc.least || v.Probability > tc.most {
				t.Errorf("possible %v, certain %v, probability %.2f (%s)", v.Possible, v.Certain, v.Probability, v.Reason)
			}
			if !v.Possible && v.Reason == "" {
				t.Error("impossible without a reason")
			}
			if again := Forecast(tc.s, 100, 1); again.Probability != v.Probability || again.Expected != v.Expected {
				t.Error("the same question has two answers")
			}
		})
	}
}
