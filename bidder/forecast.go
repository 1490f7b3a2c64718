package bidder

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Verdict is what can be said of a job before any money moves.
type Verdict struct {
	Possible    bool
	Certain     bool    // on demand alone meets deadline and budget
	Probability float64 // of meeting both; -1: nobody can tell, because the work has no size
	Reason      string  // why it is impossible, or what certainty lacks
	Decision    events.Decision
	Cheapest    events.MicroUSD // at best: the work at the best price, without a reclaim; 0 unknown
	Fastest     time.Duration   // at best, market time; 0 unknown
	Expected    events.MicroUSD // mean over the futures
	P90         events.MicroUSD
	OnDemand    events.MicroUSD // the work on the cheapest on-demand offer that fits; 0: none fits
}

// Forecast judges a job that has not been bought for yet. What is impossible
// even at best is told by arithmetic. Otherwise Decide itself is played on runs
// futures in which prices stay, machines live as long as their pools' measured
// hazards make them, and a pool that has reclaimed is empty for a while; draws
// come from seed, so that the same question has the same answer.
func Forecast(s Situation, runs int, seed uint64) Verdict {
	s.Inputs.Voluntary = false
	f := forecaster{s: s, v: survey(s)}
	out := Verdict{Decision: Decide(s), Probability: -1}
	f.bounds(&out)
	if !out.Possible || !f.v.sized {
		return out
	}
	f.play(&out, runs, seed)
	if out.Certain {
		out.Probability = 1
	}
	return out
}

type forecaster struct {
	s Situation
	v *view
}

// fit is an offer that the job would accept, with the market hours all that is left takes on it.
type fit struct {
	offer events.Offer
	hours float64
}

func (f *forecaster) fits() (out []fit, refused string) {
	prices := onDemandPrices(f.s.Quotes)
	for _, q := range f.s.Quotes {
		why := unfit(f.s.Spec, q.Offer)
		speed, ok := f.v.speedOf(q.Offer.GPU.Model, q.Offer.SpeedPct)
		switch {
		case why == "" && !ok:
			why = fmt.Sprintf("%s: work.hours_on has no %s", whySpeed, q.Offer.GPU.Model)
		case why == "" && q.Offer.Price > priceCap(f.s.Spec, q.Offer, prices.near(q.Offer.Pool)):
			why = whyMaxPrice
		}
		if why != "" {
			refused = why
			continue
		}
		out = append(out, fit{q.Offer, f.v.left / speed})
	}
	return out, refused
}

// bounds fills in what arithmetic alone says.
func (f *forecaster) bounds(out *Verdict) {
	fits, refused := f.fits()
	if len(fits) == 0 {
		out.Reason = "no offer fits the job"
		if refused != "" {
			out.Reason += "; the last was refused for: " + refused
		}
		return
	}
	out.Possible = true
	if !f.v.sized {
		out.Reason = "policy.work does not say how much there is to do, so neither time nor cost can be told"
		return
	}
	cost := func(x fit, extra float64) events.MicroUSD { return events.CostUp(x.offer.Price, span(x.hours+extra)) }
	fastest := slices.MinFunc(fits, func(a, b fit) int { return cmp.Compare(a.hours, b.hours) })
	cheapest := slices.MinFunc(fits, func(a, b fit) int { return cmp.Compare(cost(a, 0), cost(b, 0)) })
	out.Fastest, out.Cheapest = span(fastest.hours), cost(cheapest, 0)
	for _, x := range fits {
		if x.offer.Pool.Capacity.Reclaimable() {
			continue
		}
		if c := cost(x, 0); out.OnDemand == 0 || c < out.OnDemand {
			out.OnDemand = c
		}
		inTime := !f.v.timed || x.hours+f.v.moveOnDemand() <= f.v.time
		out.Certain = out.Certain || (inTime && cost(x, f.v.restart) <= f.v.free())
	}
	switch {
	case f.v.timed && out.Fastest > span(f.v.time):
		out.Possible, out.Reason = false, fmt.Sprintf("the deadline leaves %.2f h and the work takes %.2f h on the fastest machine that fits", f.v.time, fastest.hours)
	case out.Cheapest > f.v.free():
		out.Possible, out.Reason = false, fmt.Sprintf("the budget has %s free and the work costs %s at the best price, $%.4f/h in %s", f.v.free().Dollars(), out.Cheapest.Dollars(), float64(cheapest.offer.Price)/1e9, cheapest.offer.Pool)
	case !out.Certain:
		out.Reason = "deadline and budget hold for sure only if on-demand alone could meet both"
	}
	out.Certain = out.Certain && out.Possible
}

// play runs the futures.
func (f *forecaster) play(out *Verdict, runs int, seed uint64) {
	costs := make([]events.MicroUSD, 0, runs)
	kept := 0
	var sum float64
	for n := range runs {
		r := future{forecaster: f, rng: rand.New(rand.NewPCG(seed, uint64(n))), left: f.v.left, empty: map[events.Pool]float64{}}
		if r.run() {
			kept++
		}
		costs = append(costs, r.spent)
		sum += float64(r.spent)
	}
	slices.Sort(costs)
	out.Probability = float64(kept) / float64(max(runs, 1))
	out.Expected = events.MicroUSD(math.Round(sum / float64(max(runs, 1))))
	if len(costs) > 0 {
		out.P90 = costs[min(len(costs)*9/10, len(costs)-1)]
	}
}

// future is one course of the market, in market hours from now.
type future struct {
	*forecaster
	rng   *rand.Rand
	t     float64
	idle  float64 // since when nothing runs
	left  float64 // work, hours on the reference GPU
	spent events.MicroUSD
	empty map[events.Pool]float64 // until when a pool sells nothing
}

// steps bounds a future; a job that needs more purchases than this is not met.
const steps = 400

// run plays Decide until the work is done, and says whether time and money held.
func (r *future) run() bool {
	for range steps {
		d := Decide(r.situation())
		switch {
		case d.Action == Buy && d.Chosen >= 0:
			if !r.machine(d.Candidates[d.Chosen]) {
				return false
			}
			r.idle = r.t
		case d.Action == Wait:
			r.t += max(hours(int64(float64(r.s.Inputs.RetryMS)/1000*float64(max(r.s.Inputs.Scale, 1)))), 0.02)
		default:
			return false
		}
		if r.left <= 0 {
			return !r.v.timed || r.t <= r.v.time
		}
		if r.v.timed && r.t > r.v.time {
			return false
		}
	}
	return false
}

func (r *future) situation() Situation {
	s := r.s
	passed := span(r.t)
	s.Now.Market = s.Now.Market.Add(passed)
	s.Now.Control = s.Now.Control.Add(passed / time.Duration(max(s.Inputs.Scale, 1)))
	s.Inputs.WorkLeftS = int64(math.Ceil(r.left * 3600))
	if r.v.timed {
		s.Inputs.TimeLeftS = int64((r.v.time - r.t) * 3600)
	}
	s.Inputs.Spent = r.s.Inputs.Spent + r.spent
	s.Inputs.WaitingS = int64((r.t - r.idle) * 3600)
	s.Inputs.Reclaims = 0
	s.Quotes = slices.Clone(r.s.Quotes)
	for i := range s.Quotes {
		q := &s.Quotes[i]
		q.Offer.Seen = s.Now.Control
		if r.empty[q.Offer.Pool] > r.t {
			none := false
			q.Offer.InStock = &none
		}
	}
	return s
}

// machine lives through one purchase, and says whether the money held.
func (r *future) machine(c events.Candidate) bool {
	speed, ok := r.v.speedOf(c.Offer.GPU.Model, c.Offer.SpeedPct)
	if !ok {
		return false
	}
	need := r.v.restart + r.left/speed
	life := math.Inf(1)
	if c.Offer.Pool.Capacity.Reclaimable() {
		life = r.lifetime(c)
	}
	ran := min(life, need)
	bill := max(span(ran), time.Duration(c.Offer.Terms.MinimumS)*time.Second)
	if life < need && ran*3600 <= float64(c.Offer.Terms.FreeIfReclaimedS) {
		bill = 0
	}
	r.spent += events.CostUp(c.Offer.Price, bill)
	r.t += ran
	r.left -= max(ran-r.v.restart, 0) * speed
	if life < need {
		r.empty[c.Offer.Pool] = r.t + r.rng.ExpFloat64()*lull
	} else {
		r.left = 0
	}
	return r.spent <= r.v.free()
}

// lull is how long a pool that has reclaimed sells nothing, market hours: about
// the median of the recorded V100 zones.
const lull = 0.5

// lifetime draws how long a machine lives: the pool's hazard in its first hour,
// then the one that makes its expected life what was measured.
func (r *future) lifetime(c events.Candidate) float64 {
	if c.Hazard <= 0 {
		return math.Inf(1)
	}
	young := r.rng.ExpFloat64() / c.Hazard
	if young < 1 || c.Life <= 0 {
		return young
	}
	// life = (1 - e^-h)/h + e^-h/old
	survive := math.Exp(-c.Hazard)
	rest := (c.Life - (1-survive)/c.Hazard) / survive
	return 1 + r.rng.ExpFloat64()*max(rest, 0.1)
}

// Prospect gathers what a decision about a job that nobody has submitted yet is
// made from. What is held counts; a freeze does not, which ends some day.
func (s *Service) Prospect(ctx context.Context, org events.OrgID, spec events.JobSpec, now events.Moment) (Situation, error) {
	j := job{spec: spec, began: now.Market}
	in := s.inputs(j, now, nil)
	in.Budget = spec.Policy.Budget
	decided, err := s.ops.State(ctx, org)
	if err != nil {
		return Situation{}, err
	}
	in.Holds, _ = decided.Recorded()
	offers := s.cfg.Market.Offers()
	s.world.mu.Lock()
	in.CoolDowns = s.world.pools.at(now.Control, offers)
	s.world.mu.Unlock()
	return Situation{Now: now, Spec: spec, Inputs: in, Quotes: s.quotes(offers, now)}, nil
}

// Experience says how many moves, and how many machines got on demand, the times of
// a Prospect come from. None: they are Config's, which nobody has measured.
func (s *Service) Experience() (moves, acquired int) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.restarts.n, s.world.acquires.n
}
