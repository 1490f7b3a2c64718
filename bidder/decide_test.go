package bidder

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

var (
	noon   = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	moment = events.Moment{Control: noon, Market: noon.Add(24 * time.Hour)}
)

func pool(zone string, c events.CapacityType) events.Pool {
	return events.Pool{Seller: "s", Region: "r" + zone[:1], Zone: zone, InstanceType: "p3", Capacity: c, Gang: 1}
}

// quote is a V100 in a zone at a price in dollars an hour.
func quote(zone string, c events.CapacityType, price float64, with ...func(*Quote)) Quote {
	q := Quote{Stood: time.Hour, Offer: events.Offer{
		Pool: pool(zone, c), GPU: events.GPU{Vendor: "nvidia", Model: "V100", Count: 1}, VCPU: 8, RAMMiB: 61440, DiskGB: 100, Country: "DE",
		Price: events.PerInstanceHour(price * 1e9), Terms: events.Terms{GrainS: 1, FollowsMarket: c == events.Spot},
		SpeedPct: 100, Seen: noon.Add(-time.Second), TTLS: 60,
	}}
	if c.Reclaimable() {
		q.Hazard, q.Life = 0.1, 10
	}
	for _, f := range with {
		f(&q)
	}
	return q
}

func offer(f func(*events.Offer)) func(*Quote) { return func(q *Quote) { f(&q.Offer) } }

// situation is a job with 10 h of work left of 20, 32 h to its deadline of 60, 100 dollars, no machine.
func situation(quotes ...Quote) Situation {
	return Situation{
		Now: moment, Quotes: quotes,
		Spec: events.JobSpec{
			Resources: events.Resources{Accelerators: []events.Accelerator{{Model: "V100", Count: 1}}},
			Policy: events.Policy{
				Budget: 100 * events.Dollar, Deadline: moment.Market.Add(32 * time.Hour),
				Spot: events.SpotPolicy{Mode: events.SpotAuto}, Work: events.Work{HoursOnS: map[string]int64{"V100": 20 * 3600}},
			},
		},
		Inputs: events.Inputs{
			WorkLeftS: 10 * 3600, TimeLeftS: 32 * 3600, WindowS: 60 * 3600, RestartS: 600, AcquireS: 300, SaveMS: 10_000,
			Budget: 100 * events.Dollar, CommitMS: 500, FreshMS: 10_000, DwellS: 1800, HorizonS: 3600, TeardownS: 120, RetryMS: 30_000, Scale: 1,
		},
	}
}

func (s Situation) with(f func(*Situation)) Situation { f(&s); return s }

func on(zone string, c events.CapacityType, price float64) func(*Situation) {
	return func(s *Situation) {
		s.Inputs.Voluntary, s.Inputs.GPU, s.Inputs.SpeedPct = true, "V100", 100
		s.Inputs.Current = &events.Side{Epoch: 1, Lease: "j-1-1", Pool: pool(zone, c), Price: events.PerInstanceHour(price * 1e9)}
	}
}

func TestDecide(t *testing.T) {
	spotA, spotB, od := quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.9), quote("a1", events.OnDemand, 3)
	left := func(h float64) func(*Situation) { return func(s *Situation) { s.Inputs.TimeLeftS = int64(h * 3600) } }
	noDeadline := func(s *Situation) {
		s.Spec.Policy.Deadline, s.Inputs.TimeLeftS, s.Inputs.WindowS = time.Time{}, -1, -1
	}
	for _, tc := range []struct {
		name string
		s    Situation
		want string // action rule pool, or action rule reason
	}{
		{"the cheapest spot pool is bought", situation(spotA, spotB, od), "buy uniform-progress s/b1/p3/spot"},
		{"a pool that is often reclaimed costs more than its price", situation(spotA, quote("b1", events.Spot, 0.9, func(q *Quote) { q.Hazard, q.Life = 3, 0.33 }), od), "buy uniform-progress s/a1/p3/spot"},
		{"egress counts against a pool", situation(spotA, quote("b1", events.Spot, 0.95, offer(func(o *events.Offer) { o.Egress = events.Dollar / 10 })), od).with(func(s *Situation) { s.Inputs.StateBytes = 50e9 }), "buy uniform-progress s/a1/p3/spot"},
		{"a GPU that is in no table is not bought", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.GPU.Vendor = "" }))), "buy uniform-progress s/a1/p3/spot"},
		{"nor a part of one", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.GPU.FractionPct = 50 })), quote("c1", events.Spot, 0.1, offer(func(o *events.Offer) { o.GPU.Slice = "1g.10gb" }))), "buy uniform-progress s/a1/p3/spot"},
		{"nor anybody's machine", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.Trust = events.TrustCommunity }))), "buy uniform-progress s/a1/p3/spot"},
		{"unless the job trusts it", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.Trust = events.TrustCommunity }))).with(func(s *Situation) { s.Spec.Policy.Trust = []events.Trust{events.TrustCommunity} }), "buy uniform-progress s/b1/p3/spot"},
		{"nor one in a place that nobody names", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.Country = "" }))), "buy uniform-progress s/a1/p3/spot"},
		{"unless the job runs in any", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.Country = "" }))).with(func(s *Situation) { s.Spec.Policy.Countries = []string{events.AnyCountry} }), "buy uniform-progress s/b1/p3/spot"},
		{"nor one whose contract has ended", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.Until = noon }))), "buy uniform-progress s/a1/p3/spot"},
		{"one whose contract goes on is", situation(spotA, quote("b1", events.Spot, 0.1, offer(func(o *events.Offer) { o.Until = noon.Add(time.Hour) }))), "buy uniform-progress s/b1/p3/spot"},
		{"without spot a job ahead of the pace waits", situation(od), "wait uniform-progress waiting-for-capacity"},
		{"without spot a job behind the pace goes on demand", situation(od).with(left(25)), "buy uniform-progress s/a1/p3/on-demand"},
		{"spot dearer per useful hour than on-demand is left alone", situation(quote("a1", events.Spot, 2.9, func(q *Quote) { q.Hazard, q.Life = 2, 0.5 }), od), "buy on-demand-pays s/a1/p3/on-demand"},
		{"spot above on-demand is no candidate", situation(quote("a1", events.Spot, 3.1), od), "wait uniform-progress waiting-for-price"},
		{"the net takes on-demand when time is short", situation(spotA, od).with(left(10.4)), "buy deadline-net s/a1/p3/on-demand"},
		{"spot only is spot only", situation(spotA, od).with(left(10.4)).with(func(s *Situation) { s.Spec.Policy.Spot.Mode = events.SpotOnly }), "buy uniform-progress s/a1/p3/spot"},
		{"spot only waits without spot", situation(od).with(func(s *Situation) { s.Spec.Policy.Spot.Mode = events.SpotOnly }), "wait uniform-progress waiting-for-capacity"},
		{"on demand only is on demand only", situation(spotA, od).with(func(s *Situation) { s.Spec.Policy.Spot.Mode = events.OnDemandOnly }), "buy on-demand-only s/a1/p3/on-demand"},
		{"without a deadline the job waits for spot", situation(od).with(noDeadline), "wait patience waiting-for-capacity"},
		{"but not for ever", situation(od).with(noDeadline).with(func(s *Situation) { s.Inputs.WaitingS = 7200 }), "buy patience s/a1/p3/on-demand"},
		{"a deadline without an estimate does not wait", situation(od).with(func(s *Situation) { s.Inputs.WorkLeftS = -1 }), "buy no-estimate s/a1/p3/on-demand"},
		{"many reclaims within the hour end on demand", situation(spotA, od).with(func(s *Situation) { s.Inputs.Reclaims = 5 }), "buy flapping s/a1/p3/on-demand"},
		{"a pool that just failed the job is second choice", situation(spotA, spotB).with(func(s *Situation) { s.Inputs.Avoid = []events.Pool{spotB.Offer.Pool} }), "buy uniform-progress s/a1/p3/spot"},
		{"but better than none", situation(spotB).with(func(s *Situation) { s.Inputs.Avoid = []events.Pool{spotB.Offer.Pool} }), "buy uniform-progress s/b1/p3/spot"},
		{"a pool cooling down is left alone", situation(spotA, spotB).with(func(s *Situation) {
			s.Inputs.CoolDowns = []events.PoolUntil{{Pool: spotB.Offer.Pool, Until: noon.Add(time.Minute), Why: "no_capacity"}}
		}), "buy uniform-progress s/a1/p3/spot"},
		{"a price above the limit waits for a lower one", situation(spotA).with(func(s *Situation) { s.Spec.Resources.MaxHourlyPrice = 5e8 }), "wait uniform-progress waiting-for-price"},
		{"no money for any start ends the job", situation(spotA).with(func(s *Situation) { s.Inputs.Spent = 9999 * events.Dollar / 100 }), "stop budget-guard out-of-budget"},
		{"unless the job would rather pause", situation(spotA).with(func(s *Situation) { s.Inputs.Spent, s.Spec.Policy.OnBudget = 9999*events.Dollar/100, "pause" }), "wait uniform-progress paused-by-budget"},
		{"or an open reservation may come back", situation(spotA).with(func(s *Situation) { s.Inputs.Reserved = 9999 * events.Dollar / 100 }), "wait uniform-progress paused-by-budget"},
		{"when on-demand to the end is not covered, on-demand is not bought", situation(od).with(left(25)).with(func(s *Situation) { s.Inputs.Spent = 75 * events.Dollar }), "wait budget-guard waiting-for-price"},
		{"then spot is bought if its price lasts", situation(spotA, od).with(left(10.4)).with(func(s *Situation) { s.Inputs.Spent = 75 * events.Dollar }), "buy budget-guard s/a1/p3/spot"},
		{"and a job that prefers its deadline goes on", situation(od).with(left(10.4)).with(func(s *Situation) { s.Inputs.Spent, s.Spec.Policy.Prefer = 75*events.Dollar, "deadline" }), "buy deadline-net s/a1/p3/on-demand"},
		{"spot whose price does not last waits", situation(spotA, od).with(func(s *Situation) { s.Inputs.Spent = 92 * events.Dollar }), "wait budget-guard waiting-for-price"},

		{"on demand returns to spot that pays", situation(spotA, od).with(on("a1", events.OnDemand, 3)), "move return-to-spot s/a1/p3/spot"},
		{"not without a fresh commit", situation(spotA, od).with(on("a1", events.OnDemand, 3)).with(func(s *Situation) { s.Inputs.CommitMS = 10_001 }), "keep keep "},
		{"not within the dwell time", situation(spotA, od).with(on("a1", events.OnDemand, 3)).with(func(s *Situation) { s.Inputs.LastMove = moment.Market.Add(-29 * time.Minute) }), "keep keep "},
		{"not for spot that is back for a moment", situation(quote("a1", events.Spot, 1, func(q *Quote) { q.Stood = 30 * time.Second }), od).with(on("a1", events.OnDemand, 3)), "keep keep "},
		{"not when the job says no", situation(spotA, od).with(on("a1", events.OnDemand, 3)).with(func(s *Situation) { no := false; s.Spec.Policy.Spot.ReturnToSpot = &no }), "keep keep "},
		{"not without a lead on the pace", situation(spotA, od).with(on("a1", events.OnDemand, 3)).with(left(30.2)).with(func(s *Situation) { s.Inputs.WindowS = 60 * 3600; s.Inputs.WorkLeftS = 10.05 * 3600 }), "keep keep "},
		{"not when time is short", situation(spotA, od).with(on("a1", events.OnDemand, 3)).with(left(10.4)), "keep keep "},
		{"a much cheaper pool pays a move back", situation(spotB, quote("c1", events.Spot, 0.5), od).with(on("b1", events.Spot, 0.9)), "move cheaper-pool s/c1/p3/spot"},
		{"a slightly cheaper one does not", situation(spotB, quote("c1", events.Spot, 0.86), od).with(on("b1", events.Spot, 0.9)), "keep keep "},
		{"at the end of the work nothing pays a move back", situation(spotB, quote("c1", events.Spot, 0.7), od).with(on("b1", events.Spot, 0.9)).with(func(s *Situation) { s.Inputs.WorkLeftS = 600 }), "keep keep "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(tc.s)
			got := d.Action + " " + d.Rule + " " + d.Reason
			if d.Chosen >= 0 {
				got = d.Action + " " + d.Rule + " " + d.Candidates[d.Chosen].Offer.Pool.String()
			}
			if got != tc.want {
				t.Errorf("Decide = %s (%s), want %s", got, d.Detail, tc.want)
			}
		})
	}
}

func TestEveryRefusalHasItsReason(t *testing.T) {
	never := false
	for _, tc := range []struct {
		word string
		q    Quote
		spec func(*events.JobSpec)
	}{
		{whyPrice, quote("a1", events.Spot, 0), nil},
		{whyGang, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.Pool.Gang = 16 })), nil},
		{whyGPU, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.GPU.Model = "K80" })), nil},
		{whySize, quote("a1", events.Spot, 1), func(s *events.JobSpec) { s.Resources.VCPU = 9 }},
		{whySize, quote("a1", events.Spot, 1), func(s *events.JobSpec) { s.Resources.RAMMiB = 99999 }},
		{whySize, quote("a1", events.Spot, 1), func(s *events.JobSpec) { s.Resources.DiskGB = 101 }},
		{whyType, quote("a1", events.Spot, 1), func(s *events.JobSpec) { s.Resources.InstanceType = "p4" }},
		{whyPlace, quote("a1", events.Spot, 1), func(s *events.JobSpec) { s.Resources.Places = []events.Place{{Region: "rb"}} }},
		{whyCountry, quote("a1", events.Spot, 1), func(s *events.JobSpec) { s.Policy.Countries = []string{"FR"} }},
		{whyCountry, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.Country = "" })), func(s *events.JobSpec) { s.Policy.Countries = []string{"DE"} }},
		{whyMode, quote("a1", events.OnDemand, 1), func(s *events.JobSpec) { s.Policy.Spot.Mode = events.SpotOnly }},
		{whyMaxPrice, quote("a1", events.Spot, 1), func(s *events.JobSpec) { s.Resources.MaxHourlyPrice = 1e9 - 1 }},
		{whyStale, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.Seen = noon.Add(-61 * time.Second) })), nil},
		{whyStale, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.Seen = noon.Add(time.Hour) })), nil},
		{whyStock, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.InStock = &never })), nil},
		{whySpeed, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.GPU.Model = "K80" })), func(s *events.JobSpec) { s.Resources.Accelerators = nil }},
		{whySlow, quote("a1", events.Spot, 1, offer(func(o *events.Offer) { o.SpeedPct = 30 })), nil},
		{whyLife, quote("a1", events.Spot, 1, func(q *Quote) { q.Life = 0.1 }), nil},
		{whyBudget, quote("a1", events.Spot, 900), nil},
	} {
		s := situation(tc.q)
		if tc.spec != nil {
			tc.spec(&s.Spec)
		}
		if got := Decide(s).Candidates[0].WhyNot; !strings.HasPrefix(got, tc.word) {
			t.Errorf("%s is refused with %q, want %q", tc.q.Offer.Pool, got, tc.word)
		}
	}
}

func TestAWaitIsLookedAtAgainBeforeThePaceOrTheNetCanCatchUp(t *testing.T) {
	s := situation(quote("a1", events.OnDemand, 3)).with(func(s *Situation) { s.Inputs.RetryMS = int64(100 * time.Hour / time.Millisecond) })
	d := Decide(s)
	if d.Action != Wait {
		t.Fatal(d)
	}
	s.Inputs.TimeLeftS -= int64(d.RetryAt.Sub(noon)/time.Second) + 1
	if next := Decide(s); next.Action != Buy {
		t.Errorf("at RetryAt the answer is %s (%s), want buy", next.Action, next.Detail)
	}
}

func drawSituation(t *rapid.T) Situation {
	s := situation()
	caps := []events.CapacityType{events.Spot, events.OnDemand, events.Bid}
	for i := range rapid.IntRange(0, 12).Draw(t, "offers") {
		q := quote(fmt.Sprintf("%c%d", 'a'+i%3, i), rapid.SampledFrom(caps).Draw(t, "capacity"), float64(rapid.IntRange(-1, 60).Draw(t, "price"))/10)
		q.Hazard = rapid.Float64Range(0, 5).Draw(t, "hazard")
		q.Life = rapid.SampledFrom([]float64{0, 0.1, 1, 30}).Draw(t, "life")
		q.Stood = time.Duration(rapid.IntRange(0, 600).Draw(t, "stood")) * time.Second
		q.Offer.SpeedPct = rapid.SampledFrom([]int{0, 50, 100, 130}).Draw(t, "speed")
		q.Offer.GPU.Model = rapid.SampledFrom([]string{"V100", "V100", "H100", "K80"}).Draw(t, "gpu")
		q.Offer.Terms = events.Terms{GrainS: rapid.SampledFrom([]int64{1, 60, 3600}).Draw(t, "grain"), AlignedGrain: rapid.Bool().Draw(t, "aligned"), FollowsMarket: rapid.Bool().Draw(t, "follows")}
		q.Offer.Seen = noon.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "age")) * time.Second)
		s.Quotes = append(s.Quotes, q)
	}
	p := &s.Spec.Policy
	s.Spec.Resources.Accelerators = append(s.Spec.Resources.Accelerators, events.Accelerator{Model: "H100", Count: 1})
	p.Work.HoursOnS["H100"] = 8 * 3600
	p.Spot.Mode = rapid.SampledFrom([]events.SpotMode{events.SpotAuto, events.SpotAuto, events.SpotOnly, events.OnDemandOnly}).Draw(t, "mode")
	p.Prefer = rapid.SampledFrom([]string{"", "fastest", "deadline"}).Draw(t, "prefer")
	p.OnBudget = rapid.SampledFrom([]string{"", "pause"}).Draw(t, "on budget")
	in := &s.Inputs
	in.WorkLeftS = rapid.SampledFrom([]int64{-1, 0, 60, 3600, 36000, 72000}).Draw(t, "work left")
	in.TimeLeftS = rapid.Int64Range(-3600, 60*3600).Draw(t, "time left")
	if rapid.IntRange(0, 3).Draw(t, "no deadline") == 0 {
		p.Deadline, in.TimeLeftS, in.WindowS = time.Time{}, -1, -1
	}
	in.Spent = events.MicroUSD(rapid.Int64Range(0, 100e6).Draw(t, "spent"))
	in.Reserved = events.MicroUSD(rapid.SampledFrom([]int64{0, 1e6, 30e6}).Draw(t, "reserved"))
	in.WaitingS = rapid.SampledFrom([]int64{0, 7200}).Draw(t, "waiting")
	in.Reclaims = rapid.IntRange(0, 6).Draw(t, "reclaims")
	in.CommitMS = rapid.SampledFrom([]int64{-1, 0, 20_000}).Draw(t, "commit")
	if rapid.Bool().Draw(t, "running") {
		on("a0", rapid.SampledFrom(caps).Draw(t, "on"), 2.5)(&s)
		if rapid.Bool().Draw(t, "moved") {
			in.LastMove = moment.Market.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "ago")) * time.Minute)
		}
	}
	return s
}

// anyPolicy proposes what it likes, within what a policy may propose.
func anyPolicy(t *rapid.T) policy {
	return func(v *view) choice {
		n := v.eligible
		if v.running() {
			if n > 0 && rapid.Bool().Draw(t, "move") {
				return choice{action: Move, rule: "any", pick: rapid.IntRange(0, n-1).Draw(t, "pick")}
			}
			return keep("any")
		}
		if n > 0 && rapid.Bool().Draw(t, "buy") {
			return buy(rapid.IntRange(0, n-1).Draw(t, "pick"), "any", "")
		}
		return v.wait("any", "")
	}
}

func TestNoPolicyPassesTheNetOrTheGuard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		d := decideBy(anyPolicy(t), s)
		v := survey(s)
		od := v.onDemandInTime()
		idle := !v.running()
		if idle && v.timed && v.sized && s.Spec.Policy.Spot.Mode != events.SpotOnly && od >= 0 && v.tight(od) && v.lasts(od) {
			if d.Action != Buy || d.Candidates[d.Chosen].Offer.Pool.Capacity.Reclaimable() {
				t.Fatalf("time is short and on-demand is covered, but the answer is %s %s", d.Action, d.Detail)
			}
		}
		if d.Action == Move && v.timed && v.sized && v.tight(od) && s.Spec.Policy.Spot.Mode != events.SpotOnly {
			t.Fatal("a voluntary move although time is short")
		}
		if d.Chosen < 0 {
			return
		}
		c := d.Candidates[d.Chosen]
		if c.WhyNot != "" {
			t.Fatalf("chosen although %s", c.WhyNot)
		}
		if v.exposure(c) > v.free() {
			t.Fatalf("commits %s at least, %s free", v.exposure(c), v.free())
		}
		if !v.sized || (d.Rule == "deadline-net" && s.Spec.Policy.Prefer == "deadline") {
			return
		}
		ends := func(price events.PerInstanceHour, h float64) bool { return events.CostUp(price, span(h)) <= v.free() }
		speed, _ := v.speedOf(c.Offer.GPU.Model, c.Offer.SpeedPct)
		byItself := ends(c.Offer.Price, v.left/speed+v.restart)
		if c.Offer.Pool.Capacity.Reclaimable() {
			byItself = ends(c.Score, v.left)
		}
		if !byItself && !(c.Offer.Pool.Capacity.Reclaimable() && od >= 0 && v.lasts(od)) {
			t.Fatalf("optional spend that the budget does not cover to the end: %s", d.Detail)
		}
	})
}

func TestADecisionReplaysFromItsRecordAndIgnoresTheOrderOfOffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		d := Decide(s)
		shuffled := s
		shuffled.Quotes = rapid.Permutation(s.Quotes).Draw(t, "order")
		if got := Decide(shuffled); !reflect.DeepEqual(got, d) {
			t.Fatalf("another order gives another decision:\n%+v\n%+v", got, d)
		}
		wire, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var read events.Decision
		if err := json.Unmarshal(wire, &read); err != nil {
			t.Fatal(err)
		}
		again, _ := json.Marshal(Decide(SituationOf(s.Spec, read)))
		if string(again) != string(wire) {
			t.Fatalf("replayed:\n%s\nrecorded:\n%s", again, wire)
		}
	})
}

func TestAVoluntaryMoveHasAFreshCommitAndKeepsTheDwellTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		d := Decide(s)
		if s.Inputs.Voluntary != (d.Action == Keep || d.Action == Move) {
			t.Fatalf("voluntary %v, answer %s", s.Inputs.Voluntary, d.Action)
		}
		if d.Action == Wait && (!d.RetryAt.After(noon) || d.Reason == "") {
			t.Fatalf("a wait until %s for %q", d.RetryAt, d.Reason)
		}
		if d.Action != Move {
			return
		}
		if s.Inputs.CommitMS < 0 || s.Inputs.CommitMS > s.Inputs.FreshMS {
			t.Fatal("moved without a fresh commit")
		}
		if !s.Inputs.LastMove.IsZero() && moment.Market.Sub(s.Inputs.LastMove) < 30*time.Minute {
			t.Fatal("moved twice within the dwell time")
		}
	})
}

// many is a market of n offers, a tenth of which fit.
func many(n int) Situation {
	s := situation()
	for i := range n {
		c := events.Spot
		if i%5 == 0 {
			c = events.OnDemand
		}
		s.Quotes = append(s.Quotes, quote(fmt.Sprintf("z%d", i), c, 1+float64(i%97)/10, offer(func(o *events.Offer) {
			o.Pool.InstanceType = fmt.Sprintf("p%d", i%40)
			if i%10 != 0 && i%10 != 7 {
				o.GPU.Model = "K80"
			}
		})))
	}
	return s
}

func TestALongListIsRecordedShortAndStillReplays(t *testing.T) {
	s := many(10_000)
	d := Decide(s)
	if d.Action != Buy || len(d.Candidates) > 3*maxCandidates {
		t.Fatalf("%s with %d candidates on record", d.Action, len(d.Candidates))
	}
	wire, _ := json.Marshal(d)
	again := Decide(SituationOf(s.Spec, d))
	if again.Omitted = d.Omitted; !reflect.DeepEqual(again, d) || len(wire) > 300_000 {
		t.Errorf("%d bytes; replays: %v", len(wire), reflect.DeepEqual(again, d))
	}
	omitted := 0
	for _, n := range d.Omitted {
		omitted += n
	}
	if omitted+len(d.Candidates) != 10_000 {
		t.Errorf("%d on record and %d counted, want 10000 in all", len(d.Candidates), omitted)
	}
}

func BenchmarkDecide10000Offers(b *testing.B) {
	s := many(10_000)
	for b.Loop() {
		Decide(s)
	}
}

func BenchmarkDecide20Offers(b *testing.B) {
	s := many(20)
	for b.Loop() {
		Decide(s)
	}
}
