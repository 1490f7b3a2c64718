package plane

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/installation"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Bidder decides what to buy for jobs and buys it.
type Bidder struct {
	*ground
	service *bidder.Service
}

// bootstrap returns a machine's user data: the same for the same lease.
type bootstrap = func(ctx context.Context, job events.JobID, epoch int, lease events.LeaseID) ([]byte, error)

// NewBidder builds a bidder that runs alone and asks a gateway for user data. It needs Sellers, Mark and Poll.
func NewBidder(cfg Config) (*Bidder, error) {
	g := newGround(cfg, true)
	return newBidder(g, g.remoteBootstrap)
}

func newBidder(g *ground, userData bootstrap) (*Bidder, error) {
	var metrics *bidder.Metrics
	if g.Registerer != nil {
		metrics = bidder.NewMetrics(g.Registerer)
	}
	s, err := bidder.New(bidder.Config{
		Log: g.Log, Book: g.money, Market: g.prices, Sellers: g.Sellers, Bootstrap: userData, Now: g.moment, Metrics: metrics,
		Timers: g.Timers, Mark: g.Mark, Logger: g.Logger.Named("bidder"), Scale: g.Clock.MarketFor(time.Second).Nanoseconds() / int64(time.Second),
		Poll: g.Poll, Crash: g.Crash, Turn: g.Turn,
	})
	return &Bidder{g, s}, err
}

// Run serves until ctx ends.
func (b *Bidder) Run(ctx context.Context) error {
	return together(ctx, append(b.prices.runs(), b.runs()...)...)
}

func (b *Bidder) runs() []func(context.Context) error {
	runs := []func(context.Context) error{b.service.Run}
	if b.apart {
		runs = append(runs, b.servePlans)
	}
	return runs
}

// Checks are what has to hold for the bidder to do its work.
func (b *Bidder) Checks() []process.Check { return append(b.basics(), b.feedAge()) }

// servePlans answers consoles that are programs of their own.
func (b *Bidder) servePlans(ctx context.Context) error {
	return b.serving("consoles", installation.SubjectPlan, "bidder").run(ctx, func(ctx context.Context, m *nats.Msg) []byte {
		return answered(m.Data, func(r console.SubmitRequest) (console.Plan, error) { return b.plan(ctx, r) })
	})
}

// remotePlan asks a bidder that is a program of its own.
func (g *ground) remotePlan(ctx context.Context, r console.SubmitRequest) (console.Plan, error) {
	return asked[console.Plan](ctx, g.Conn, installation.SubjectPlan, r)
}

// futures is how many courses of the market a plan is judged on.
const futures = 200

// plan says what a job would be bought with and how likely it is to meet its
// deadline and budget. Nothing is written and nothing is bought.
func (b *Bidder) plan(ctx context.Context, r console.SubmitRequest) (console.Plan, error) {
	now := b.moment()
	k := b.knowledge(r)
	var work console.Figure
	r.Spec, work = k.sized(r.Spec)
	prospect, err := b.service.Prospect(ctx, b.Org, r.Spec, now)
	if err != nil {
		return console.Plan{}, err
	}
	figures := append([]console.Figure{work}, k.apply(&prospect.Inputs)...)
	v := bidder.Forecast(prospect, futures, 1)
	out := console.Plan{
		Possible: v.Possible, Certain: v.Certain, Probability: v.Probability, Reason: v.Reason, Decision: v.Decision,
		Cheapest: v.Cheapest, Fastest: v.Fastest.Hours(), Expected: v.Expected, P90: v.P90, OnDemand: v.OnDemand,
		Budget: r.Spec.Policy.Budget, Market: now.Market, Deadline: r.Spec.Policy.Deadline,
		Figures: figures,
		Assumed: []string{"prices stay as they are", "reclaims come as often as measured here, or as the recorded markets' median where nothing was"},
	}
	if len(r.Spec.Policy.Work.HoursOnS) == 0 {
		out.Assumed = append(out.Assumed, "nothing is known of the work: give policy.work.hours_on")
	}
	return out, nil
}
