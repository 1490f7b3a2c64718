package plane

import (
	"context"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/services/internal/console"
)

// futures is how many courses of the market a plan is judged on.
const futures = 200

// plan says what a job would be bought with and how likely it is to meet its
// deadline and budget. Nothing is written and nothing is bought.
func (p *Plane) plan(_ context.Context, r console.SubmitRequest) (console.Plan, error) {
	now := p.moment()
	v := bidder.Forecast(p.buying.bidder.Prospect(r.Spec, now), futures, 1)
	out := console.Plan{
		Possible: v.Possible, Certain: v.Certain, Probability: v.Probability, Reason: v.Reason, Decision: v.Decision,
		Cheapest: v.Cheapest, Fastest: v.Fastest.Hours(), Expected: v.Expected, P90: v.P90, OnDemand: v.OnDemand,
		Budget: r.Spec.Policy.Budget, Market: now.Market, Deadline: r.Spec.Policy.Deadline,
		Assumed: []string{"prices stay as they are", "reclaims come as often as measured here, or as the recorded markets' median where nothing was"},
	}
	if len(r.Spec.Policy.Work.HoursOnS) == 0 {
		out.Assumed = append(out.Assumed, "nothing is known of the work: give policy.work.hours_on")
	}
	return out, nil
}
