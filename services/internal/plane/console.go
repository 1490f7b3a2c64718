package plane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Console answers people.
type Console struct {
	*ground
	server *console.Server
}

// plans says what a job would be bought with.
type plans = func(ctx context.Context, r console.SubmitRequest) (console.Plan, error)

// NewConsole builds a console that runs alone and asks a bidder for plans. It needs Sellers, Mark and Poll.
func NewConsole(cfg Config) *Console {
	g := newGround(cfg, true)
	return newConsole(g, g.remotePlan, remoteStore{g})
}

func newConsole(g *ground, plan plans, store store) *Console {
	c := &Console{ground: g}
	cfg := console.Config{
		Log: g.Log, Signals: g.bus, Book: g.jobs, Money: g.money, Org: g.Org, Offers: c.offers, Sellers: g.Sellers, Mark: g.Mark,
		Secrets: natsbus.NewSecrets(g.Log.JetStream()), Checkpoints: store,
		Logs: g.bus, Plan: plan, Health: c.health, Now: g.moment, Version: g.Version, Logger: g.Logger.Named("console"),
	}
	if g.apart {
		cfg.Newest = func(ctx context.Context) (uint64, error) { return g.Log.Newest(ctx, natsbus.StreamJobs) }
	}
	c.server = console.New(cfg)
	return c
}

// Run serves until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	return together(ctx, append(c.prices.runs(), c.runs()...)...)
}

func (c *Console) runs() []func(context.Context) error {
	return []func(context.Context) error{c.server.Run, func(ctx context.Context) error { return c.server.Serve(ctx, c.Conn) }}
}

// Checks are what has to hold for the console to do its work.
func (c *Console) Checks() []process.Check {
	return append(c.basics(), process.Check{Name: "read model", Test: func(context.Context) error {
		select {
		case <-c.server.Ready():
			return nil
		default:
			return fmt.Errorf("it has not caught up with the streams yet")
		}
	}}, c.feedAge())
}

// offers is what the console shows of the market.
func (c *Console) offers() []console.Offer {
	now := c.moment()
	var out []console.Offer
	for _, o := range c.prices.Offers() {
		hazard, _ := c.prices.Rate(o.Pool, 0)
		if !o.Pool.Capacity.Reclaimable() {
			hazard = 0
		}
		out = append(out, console.Offer{Offer: o, AgeMS: now.Control.Sub(o.Seen).Milliseconds(), Hazard: hazard})
	}
	return out
}

func (c *Console) health(ctx context.Context) []console.Check {
	checks := []console.Check{{Name: "bus", OK: c.Conn.IsConnected(), Detail: c.Conn.ConnectedUrlRedacted(), Remedy: "is the bus running?"}}
	for _, name := range slices.Sorted(maps.Keys(c.Sellers)) {
		checks = append(checks, c.sellerHealth(ctx, name))
	}
	dead, err := c.Log.DeadLetters(ctx)
	letters := console.Check{Name: "dead letters", OK: err == nil && len(dead) == 0, Detail: fmt.Sprintf("%d", len(dead)), Remedy: "each names stream and sequence; see the log"}
	if err != nil {
		letters.Detail = err.Error()
	}
	return append(checks, letters, c.feedHealth())
}

func (c *Console) sellerHealth(ctx context.Context, name string) console.Check {
	check := console.Check{Name: "seller " + name, OK: true}
	l, err := c.Sellers[name].List(ctx)
	switch {
	case err != nil:
		check.OK, check.Detail, check.Remedy = false, err.Error(), "see the seller's own log"
	case !l.Complete:
		check.OK, check.Detail, check.Remedy = false, "its list of machines is incomplete", "try again; nothing is reaped meanwhile"
	default:
		check.Detail = fmt.Sprintf("%d machines listed", len(l.Instances))
	}
	return check
}

func (c *Console) feedHealth() console.Check {
	check := console.Check{Name: "prices", Remedy: "see the watcher's lines in the log"}
	newest := c.prices.newest()
	n := len(c.prices.Offers())
	if newest.IsZero() || n == 0 {
		check.Detail = "no offer has come yet"
		return check
	}
	age := c.Now().Sub(newest)
	check.OK, check.Detail = age < staleFeed*c.Poll, fmt.Sprintf("%d pools, newest offer %s old", n, age.Round(time.Millisecond))
	return check
}
