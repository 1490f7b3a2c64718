package bidder

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/budget"
	"github.com/spotferry/spotferry/events"
)

// maxCandidates bounds a record: an event has to fit the bus. Dropped are the
// worst of the ineligible first; the first maxCandidates of the order decide alone.
const maxCandidates = 64

// survey judges every quote and sorts: eligible first, by score or, for jobs that
// prefer it, by the time they need.
func survey(s Situation) *view {
	v := &view{Situation: s, in: s.Inputs}
	v.left, v.sized = hours(max(v.in.WorkLeftS, 60)), v.in.WorkLeftS >= 0
	v.time, v.timed = hours(v.in.TimeLeftS), !s.Spec.Policy.Deadline.IsZero()
	v.restart = hours(v.in.RestartS)
	onDemand := onDemandPrices(s.Quotes)
	v.whole, v.known = WorkOf(s.Spec)
	judged := make([]judged, len(s.Quotes))
	for i, q := range s.Quotes {
		judged[i] = v.judge(q, onDemand.near(q.Offer.Pool))
	}
	v.avoid(judged)
	v.sort(judged)
	return v
}

// judged is a candidate with its speed.
type judged struct {
	events.Candidate
	speed float64
}

func (v *view) sort(all []judged) {
	byTime := v.Spec.Policy.Prefer == "fastest"
	v.candidates, v.speed = make([]events.Candidate, 0, len(all)), make([]float64, 0, len(all))
	order := make([]int, len(all)) // candidates are large
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compare(&all[a].Candidate, &all[b].Candidate, byTime) })
	for _, i := range order {
		v.candidates = append(v.candidates, all[i].Candidate)
		v.speed = append(v.speed, all[i].speed)
		if all[i].WhyNot == "" {
			v.eligible++
		}
	}
}

// compare orders eligible before ineligible, then by score (or time), then by
// everything else that tells two candidates apart. One without a score comes last.
func compare(a, b *events.Candidate, byTime bool) int {
	if x := cmp.Compare(sign(a.WhyNot), sign(b.WhyNot)); x != 0 {
		return x
	}
	if x := cmp.Compare(a.Hours, b.Hours); byTime && x != 0 {
		return x
	}
	if x := cmp.Compare(uint64(a.Score)-1, uint64(b.Score)-1); x != 0 {
		return x
	}
	if x := cmp.Compare(a.Offer.Price, b.Offer.Price); x != 0 {
		return x
	}
	if x := comparePools(a.Offer.Pool, b.Offer.Pool); x != 0 {
		return x
	}
	return cmp.Or(a.Offer.Seen.Compare(b.Offer.Seen), strings.Compare(a.WhyNot, b.WhyNot),
		cmp.Compare(a.StoodS, b.StoodS), cmp.Compare(a.Hazard, b.Hazard), cmp.Compare(a.Life, b.Life))
}

func comparePools(a, b events.Pool) int {
	return cmp.Or(strings.Compare(a.Seller, b.Seller), strings.Compare(a.Region, b.Region), strings.Compare(a.Zone, b.Zone),
		strings.Compare(a.InstanceType, b.InstanceType), strings.Compare(string(a.Capacity), string(b.Capacity)), cmp.Compare(a.Gang, b.Gang))
}

func sign(s string) int { return min(len(s), 1) }

// judge makes a quote a candidate.
func (v *view) judge(q Quote, onDemand events.PerInstanceHour) judged {
	c := judged{}
	c.Candidate = events.Candidate{
		Offer: q.Offer, AgeMS: v.Now.Control.Sub(q.Offer.Seen).Milliseconds(),
		Hazard: q.Hazard, Life: q.Life, StoodS: int64(q.Stood / time.Second),
	}
	if c.WhyNot = unfit(v.Spec, q.Offer); c.WhyNot != "" {
		return c
	}
	var ok bool
	if c.speed, ok = v.speedOf(q.Offer.GPU.Model, q.Offer.SpeedPct); !ok {
		c.WhyNot = why(whySpeed, "work.hours_on has no %s", q.Offer.GPU.Model)
		return c
	}
	c.Max = priceCap(v.Spec, q.Offer, onDemand)
	v.estimate(&c)
	if c.WhyNot == "" {
		c.WhyNot = unavailable(v.Now.Control, v.in, q.Offer, onDemand)
	}
	if need := v.exposure(c.Candidate); c.WhyNot == "" && need > v.free() {
		c.WhyNot = why(whyBudget, "commits %s at least, %s free", need, v.free())
	}
	return c
}

// estimate fills in the score: the expected cost of an hour of useful work on
// the reference GPU,
//
//	(c + E/stay) / ((1 - d/stay) (1 - k/life - sqrt(2 k h))) / speed
//
// c price, E egress of leaving, d restart, k pause of a checkpoint, h hazard,
// life expected until a reclaim, stay the shorter of that and what is left to do.
// Losses by moving and by saving are kept apart, so that a job close to its end still
// has a score: there the first nears one, and no further checkpoint is due.
func (v *view) estimate(c *judged) {
	speed, life := c.speed, math.Inf(1)
	if c.Life > 0 {
		life = c.Life
	} else if c.Hazard > 0 {
		life = 1 / c.Hazard
	}
	if life <= v.restart {
		c.WhyNot = why(whyLife, "%.2f h expected, a restart takes %.2f h", life, v.restart)
		return
	}
	stay := life
	if v.sized {
		stay = min(stay, v.left/speed+v.restart)
	}
	pause := float64(v.in.SaveMS) / 3_600_000
	saving := 1 - pause/life - math.Sqrt(2*pause*c.Hazard)
	egress := float64(c.Offer.Egress) * 1000 * float64(v.in.StateBytes) / 1e9 // nano-dollars
	score := (float64(c.Offer.Price) + egress/stay) / ((1 - v.restart/stay) * saving) / speed
	if saving <= 0 || score > math.MaxInt64/4 {
		c.WhyNot = why(whyLife, "%.2f h expected leave no time to work", life)
		return
	}
	c.Score = events.PerInstanceHour(math.Ceil(score))
	if !v.sized {
		return
	}
	least := v.left/speed + v.restart
	c.Hours = v.left/speed/saving/(1-v.restart/life) + v.restart
	c.Total = v.in.Spent + events.Cost(c.Offer.Price, span(c.Hours))
	if v.timed && v.time > 0 && least > v.time && c.Offer.Pool.Capacity.Reclaimable() {
		c.WhyNot = why(whySlow, "%.1f h at best, %.1f h left", least, v.time)
	}
}

// avoid strikes reclaimable pools that just failed this job, as long as another is left.
func (v *view) avoid(all []judged) {
	if len(v.in.Avoid) == 0 {
		return
	}
	avoided := func(c judged) bool { return slices.Contains(v.in.Avoid, c.Offer.Pool) }
	other := slices.ContainsFunc(all, func(c judged) bool {
		return c.WhyNot == "" && c.Offer.Pool.Capacity.Reclaimable() && !avoided(c)
	})
	for i, c := range all {
		if other && c.WhyNot == "" && c.Offer.Pool.Capacity.Reclaimable() && avoided(c) {
			all[i].WhyNot = whyAvoid
		}
	}
}

// onDemandTable knows the cheapest on-demand price of each instance type, in a region and anywhere.
type onDemandTable map[events.Pool]events.PerInstanceHour

func onDemandPrices(quotes []Quote) onDemandTable {
	t := onDemandTable{}
	for _, q := range quotes {
		if p := q.Offer.Pool; p.Capacity == events.OnDemand && q.Offer.Price > 0 {
			for _, key := range []events.Pool{{Seller: p.Seller, Region: p.Region, InstanceType: p.InstanceType}, {Seller: p.Seller, InstanceType: p.InstanceType}} {
				if old, ok := t[key]; !ok || q.Offer.Price < old {
					t[key] = q.Offer.Price
				}
			}
		}
	}
	return t
}

// near returns the on-demand price that a spot price is compared with, 0 if unknown.
func (t onDemandTable) near(p events.Pool) events.PerInstanceHour {
	if price, ok := t[events.Pool{Seller: p.Seller, Region: p.Region, InstanceType: p.InstanceType}]; ok {
		return price
	}
	return t[events.Pool{Seller: p.Seller, InstanceType: p.InstanceType}]
}

// exposure is the least that buying a candidate commits.
func (v *view) exposure(c events.Candidate) events.MicroUSD {
	least := min(v.in.RestartS+v.in.TeardownS, v.in.HorizonS)
	return budget.Exposure(c.Max, v.Now.Market, v.Now.Market.Add(time.Duration(least)*time.Second), c.Offer.Terms, time.Duration(v.in.TeardownS)*time.Second)
}
