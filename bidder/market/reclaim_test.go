package market

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

func leaseEvent(lease string, f events.Fact) events.Event {
	return events.Event{Aggregate: events.LeaseAggregate("acme", events.LeaseID(lease)), Fact: f}
}

func life(lease, zone string, from, to float64, by string) []events.Event {
	start := t0.Add(time.Duration(from * float64(time.Hour)))
	end := t0.Add(time.Duration(to * float64(time.Hour)))
	return []events.Event{
		leaseEvent(lease, events.LeaseIntended{Offer: quote(zone, dollar)}),
		leaseEvent(lease, events.LeaseLaunched{Instance: "i", Started: start}),
		leaseEvent(lease, events.LeaseEnded{Instance: "i", Started: start, Ended: end, EndedBy: by, Pool: poolIn(zone)}),
	}
}

func close1(a, b float64) bool { return math.Abs(a-b) <= 0.01*math.Abs(b) }

func TestRates(t *testing.T) {
	t.Parallel()
	hour := func(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }
	// A half-life long enough not to matter.
	still := RateConfig{HalfLife: 1e6 * time.Hour}
	for _, tc := range []struct {
		name       string
		cfg        RateConfig
		events     [][]events.Event
		now        float64
		young, old float64
	}{
		{"nothing seen is the prior", still, nil, 0, 1.0, 0.2},
		{"a reclaim and the time until it are counted at their ages", still,
			[][]events.Event{life("a-1-1", "a", 0, 5, "seller")}, 5, (0 + 1.0) / (1 + 1), (1 + 1.0) / (4 + 5)},
		{"given back is time without a reclaim", still,
			[][]events.Event{life("a-1-1", "a", 0, 5, "us")}, 5, 1.0 / 2, 1.0 / 9},
		{"early reclaims are the young's", still,
			[][]events.Event{life("a-1-1", "a", 0, 0.5, "seller"), life("a-1-2", "a", 1, 1.5, "seller")}, 2, 3.0 / 2, 0.2},
		{"a machine that lives is time without a reclaim", still,
			[][]events.Event{life("a-1-1", "a", 0, 5, "us")[:2]}, 9, 1.0 / 2, 1.0 / (8 + 5)},
		{"pools of the same type are the prior", still,
			[][]events.Event{life("a-1-1", "b", 0, 101, "us")}, 101, 1 / (1 / (1.0 / 2)), 1 / (1 / (1.0 / (100 + 5)))},
		{"a week old counts half", RateConfig{},
			[][]events.Event{life("a-1-1", "a", 0, 0.5, "seller")}, 0.5 + 7*24, (0.5 + 1) / (0.25 + 1), 0.2},
		{"twice delivered is once counted", still,
			[][]events.Event{life("a-1-1", "a", 0, 5, "seller"), life("a-1-1", "a", 0, 5, "seller")}, 5, 1.0 / 2, 2.0 / 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := NewReclaimRate(tc.cfg)
			for _, evs := range tc.events {
				for _, e := range evs {
					r.Apply(e)
				}
			}
			risk := r.Risk(poolIn("a"), hour(tc.now))
			if !close1(risk[Young].PerHour, tc.young) || !close1(risk[Old].PerHour, tc.old) {
				t.Errorf("rates %.4f and %.4f, want %.4f and %.4f", risk[Young].PerHour, risk[Old].PerHour, tc.young, tc.old)
			}
		})
	}
}

func TestCapacityThatIsOursHasNoPrior(t *testing.T) {
	t.Parallel()
	p := poolIn("a")
	p.Capacity = events.OnDemand
	risk := NewReclaimRate(RateConfig{}).Risk(p, t0)
	if risk.Hazard(0) != 0 || risk.MeanResidual(0) != 0 || risk.Survival(0, 1000*time.Hour) != 1 {
		t.Errorf("on-demand has the risk %+v", risk)
	}
}

func TestTheMeasuredRateIsTheTrueOne(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	const young, old = 1.5, 0.1
	r := NewReclaimRate(RateConfig{HalfLife: 1e6 * time.Hour})
	for n := range 4000 {
		h := rng.ExpFloat64() / young
		if h > 1 {
			h = 1 + rng.ExpFloat64()/old
		}
		by := "seller"
		if kept := rng.Float64() * 20; kept < h {
			h, by = kept, "us" // censoring must not bias the rate
		}
		for _, e := range life(string(events.JobID("j").Lease(1, n+1)), "a", 0, h, by) {
			r.Apply(e)
		}
	}
	risk := r.Risk(poolIn("a"), t0.Add(100*time.Hour))
	if math.Abs(risk[Young].PerHour-young) > 0.1 || math.Abs(risk[Old].PerHour-old) > 0.01 || risk[Young].N != 4000 {
		t.Errorf("measured %+v, true %v and %v", risk, young, old)
	}
}

func TestMeanResidualIsTheAreaUnderSurvival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := Risk{{PerHour: rapid.Float64Range(0.01, 5).Draw(t, "young")}, {PerHour: rapid.Float64Range(0.05, 3).Draw(t, "old")}}
		age := time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "age"))
		area, step := 0.0, 30*time.Second
		for more := step / 2; more < 400*time.Hour; more += step {
			area += k.Survival(age, more) * step.Hours()
			if k.Survival(age, more) < 1e-6 {
				break
			}
		}
		if got := k.MeanResidual(age); math.Abs(got-area) > 0.002*area+0.001 {
			t.Fatalf("MeanResidual(%s) = %v, the area is %v", age, got, area)
		}
	})
}

func TestRatesSurviveASnapshot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []events.Event
		for n := range rapid.IntRange(1, 12).Draw(t, "leases") {
			from := rapid.Float64Range(0, 100).Draw(t, "from")
			evs := life(string(events.JobID("j").Lease(1, n+1)), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"),
				from, from+rapid.Float64Range(0, 9).Draw(t, "hours"), rapid.SampledFrom([]string{"seller", "us", "fault"}).Draw(t, "by"))
			all = append(all, evs[:rapid.IntRange(1, 3).Draw(t, "so far")]...)
		}
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		whole, half := NewReclaimRate(RateConfig{}), NewReclaimRate(RateConfig{})
		for n, e := range all {
			whole.Apply(e)
			if n < cut {
				half.Apply(e)
			}
		}
		b, err := json.Marshal(half)
		if err != nil {
			t.Fatal(err)
		}
		back, err := RestoreReclaimRate(RateConfig{}, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all { // from the beginning: what the snapshot has is not counted again
			back.Apply(e)
		}
		now := t0.Add(120 * time.Hour)
		for _, zone := range []string{"a", "b"} {
			x, y := whole.Risk(poolIn(zone), now), back.Risk(poolIn(zone), now)
			for a := range ages {
				if math.Abs(x[a].PerHour-y[a].PerHour) > 1e-9 || x[a].N != y[a].N {
					t.Fatalf("%s: %+v, after a snapshot %+v", zone, x, y)
				}
			}
		}
	})
	if _, err := RestoreReclaimRate(RateConfig{HalfLife: time.Hour}, []byte(`{"half_life_s":60}`)); err == nil {
		t.Error("weights of another half-life were read")
	}
}

func TestCoolDowns(t *testing.T) {
	t.Parallel()
	p := poolIn("a")
	minute := func(m float64) time.Time { return t0.Add(time.Duration(m * float64(time.Minute))) }
	rests := func(c *CoolDowns, m float64) time.Duration {
		u, ok := c.Until(p, minute(m))
		if !ok {
			return 0
		}
		return u.Until.Sub(minute(m))
	}
	for _, tc := range []struct {
		name string
		do   func(*CoolDowns)
		at   float64
		want time.Duration
	}{
		{"no capacity rests for two minutes", func(c *CoolDowns) { c.Refused(p, minute(0), 0) }, 0, 2 * time.Minute},
		{"jitter adds up to a fifth", func(c *CoolDowns) { c.Refused(p, minute(0), 0.5) }, 0, 2*time.Minute + 12*time.Second},
		{"the rest ends", func(c *CoolDowns) { c.Refused(p, minute(0), 0) }, 2, 0},
		{"probing does not extend it", func(c *CoolDowns) {
			for m := range 20 {
				c.Refused(p, minute(float64(m)*0.1), 0)
			}
		}, 0, 2 * time.Minute},
		{"each failure after a rest doubles it", func(c *CoolDowns) {
			c.Refused(p, minute(0), 0)
			c.Refused(p, minute(3), 0)
			c.Refused(p, minute(8), 0)
		}, 8, 8 * time.Minute},
		{"it does not grow beyond thirty minutes", func(c *CoolDowns) {
			for m := range 40 {
				c.Refused(p, minute(float64(m)*31), 0)
			}
		}, 39 * 31, 30 * time.Minute},
		{"a quiet hour makes the next failure the first", func(c *CoolDowns) {
			c.Refused(p, minute(0), 0)
			c.Refused(p, minute(3), 0)
			c.Refused(p, minute(100), 0)
		}, 100, 2 * time.Minute},
		{"a launch ends it", func(c *CoolDowns) { c.Refused(p, minute(0), 0); c.Launched(p) }, 0, 0},
		{"two reclaims of a job are bad luck", func(c *CoolDowns) {
			c.Reclaimed("j", p, minute(0), 0)
			c.Reclaimed("j", p, minute(10), 0)
		}, 10, 0},
		{"three within an hour are a pool that flaps", func(c *CoolDowns) {
			for _, m := range []float64{0, 10, 20} {
				c.Reclaimed("j", p, minute(m), 0)
			}
		}, 20, 15 * time.Minute},
		{"three of different jobs are not", func(c *CoolDowns) {
			for _, j := range []events.JobID{"j", "k", "l"} {
				c.Reclaimed(j, p, minute(0), 0)
			}
		}, 0, 0},
		{"three spread over more than an hour are not", func(c *CoolDowns) {
			for _, m := range []float64{0, 40, 80} {
				c.Reclaimed("j", p, minute(m), 0)
			}
		}, 80, 0},
		{"flapping again rests longer, and a launch does not forgive it", func(c *CoolDowns) {
			for _, m := range []float64{0, 10, 20, 60, 70, 80} {
				c.Reclaimed("j", p, minute(m), 0)
			}
			c.Launched(p)
		}, 80, 30 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := NewCoolDowns(CoolDownConfig{})
			tc.do(c)
			if got := rests(c, tc.at); got != tc.want {
				t.Errorf("rests for %s, want %s", got, tc.want)
			}
		})
	}
}

func TestCoolDownsAreBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := NewCoolDowns(CoolDownConfig{})
		now := t0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "pass")))
			p := poolIn(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"))
			before, resting := c.Until(p, now)
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				c.Refused(p, now, rapid.Float64Range(0, 1).Draw(t, "jitter"))
				if after, _ := c.Until(p, now); resting && before.Why[0] == 'n' && after.Until != before.Until {
					t.Fatalf("probing moved %v to %v", before, after)
				}
			case 1:
				c.Reclaimed("j", p, now, 0)
			case 2:
				c.Launched(p)
			}
			for _, u := range c.Active(now) {
				if u.Until.Sub(now) > 8*time.Hour+8*time.Hour/5 || u.Why == "" {
					t.Fatalf("rest until %s at %s (%s)", u.Until, now, u.Why)
				}
			}
		}
		c.Forget(now.Add(48 * time.Hour))
		if len(c.pools) != 0 {
			t.Fatalf("%d pools are remembered for ever", len(c.pools))
		}
	})
}
