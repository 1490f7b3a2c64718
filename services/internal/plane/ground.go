package plane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/process"
)

// ground is what services of one process stand on: they share their folds of
// the log. In the all-in-one it is the same for all of them.
type ground struct {
	Config
	apart   bool // each service is a program of its own
	bus     process.Bus
	jobs    *failover.Book
	money   *ledger.Book
	prices  *prices
	contact *contact
}

func newGround(cfg Config, apart bool) *ground {
	if cfg.Parallel == 0 {
		cfg.Parallel = 32
	}
	if cfg.Crash == nil {
		cfg.Crash = func(string) {}
	}
	if cfg.Turn == nil {
		cfg.Turn = func(string) {}
	}
	g := &ground{Config: cfg, apart: apart, bus: process.Bus{Log: cfg.Log}}
	g.contact = &contact{conn: cfg.Conn, now: cfg.Now, since: cfg.Now(), pause: cfg.Timers.Hold}
	g.jobs = failover.NewBook(cfg.Log, g.moment)
	g.money = ledger.NewBook(cfg.Log, "/spotferry/ledger", cfg.Now)
	g.prices = newPrices(cfg.Log, g.moment)
	return g
}

func (g *ground) moment() events.Moment { return g.Clock.Moment(g.Now()) }

// basics are the checks that every service has: the bus, and the streams as declared.
func (g *ground) basics() []process.Check {
	return []process.Check{
		{Name: "bus", Test: func(ctx context.Context) error { return reachable(ctx, g.Conn) }},
		{Name: "streams", Test: func(ctx context.Context) error { return natsbus.Declared(ctx, g.Log.JetStream()) }},
	}
}

func reachable(ctx context.Context, nc *nats.Conn) error {
	if !nc.IsConnected() {
		return fmt.Errorf("the connection is %s", nc.Status())
	}
	return nc.FlushWithContext(ctx)
}

// feedAge checks that offers come in.
func (g *ground) feedAge() process.Check {
	return process.Check{Name: "feed age", Test: func(context.Context) error {
		newest := g.prices.newest()
		if newest.IsZero() {
			return errors.New("no offer has come yet")
		}
		if age := g.Now().Sub(newest); age > staleFeed*g.Poll {
			return fmt.Errorf("the newest offer is %s old: is a watcher running, and does its seller answer?", age.Round(time.Millisecond))
		}
		return nil
	}}
}

// staleFeed is how many looks at sellers may bring no news. An unchanged offer is
// told again after half of its time to live.
const staleFeed = 10
