// Package plane is the control plane: every service, built on one bus. New makes
// all of them in one process, for the all-in-one and the simulation; NewWatcher,
// NewBidder, NewFailover, NewGateway, NewLedger and NewConsole make one each, for
// the separate programs, from the same constructors.
//
// Any number of replicas of a service may run at once. What they share is in the
// log, and changes by compare-and-set; what each remembers is a fold of the log that
// only saves it questions.
package plane

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Config of a Plane, or of one service. Every field is required of a Plane unless it
// says so; a single service needs those of the first group and what its constructor names.
type Config struct {
	Conn    *nats.Conn // to MAIN
	Log     *natsbus.Log
	Clock   trace.Clock
	Timers  events.Timers
	Org     events.OrgID
	Mark    string // of this installation, on every machine it buys
	Now     func() time.Time
	Version string
	Logger  *zap.Logger

	Sellers map[string]provider.Provider // wrapped, see provider.Stack
	Poll    time.Duration                // between looks at a seller's offers and list, control time

	Operator *natsbus.Operator
	Accounts *natsbus.Accounts
	Store    checkpoint.Store
	Grant    events.StoreGrant
	// Collection is how checkpoints leave the store; its zero value is the defaults.
	Collection gateway.Collection
	Signer     checkpoint.Signer // of a store of kind "signed"
	// TenantKey returns the key that an organisation's checkpoints are encrypted with, or false. nil: none is.
	TenantKey func(ctx context.Context, org events.OrgID) (chunk.Key, bool, error)
	URL       string // of the bus, as agents dial it
	URLFile   string // optional

	// Registerer takes the services' metrics. nil: they are not measured.
	Registerer prometheus.Registerer
	// Crash is called at named points; a simulation ends the plane there. nil: nothing.
	Crash func(point string)
	// Turn, if set, is called before each timer-driven round of the named actor:
	// a simulation gives every actor its own instant.
	Turn func(actor string)
	// Parallel is how many agent requests are answered at once; 0: 32. A simulation has 1.
	Parallel int
	// Drain is how long requests under way may take once the service is asked to stop. 0: none.
	Drain time.Duration
}

// Part is one service, built and ready to run.
type Part interface {
	// Run serves until ctx ends or the service fails, and returns nil in the first case.
	Run(ctx context.Context) error
	// Checks are what has to hold for the service to do its work.
	Checks() []process.Check
}

// Plane is all services of one installation in one process.
type Plane struct {
	ground   *ground
	gateway  *Gateway
	failover *Failover
	ledger   *Ledger
	console  *Console
	watcher  *Watcher
	bidder   *Bidder
}

// New builds the services; Run starts them.
func New(cfg Config) (*Plane, error) {
	g := newGround(cfg, false)
	p := &Plane{ground: g, gateway: newGateway(g), failover: newFailover(g), ledger: newLedger(g)}
	var err error
	if p.watcher, err = newWatcher(g); err != nil {
		return nil, err
	}
	if p.bidder, err = newBidder(g, p.gateway.Bootstrap); err != nil {
		return nil, err
	}
	p.console = newConsole(g, p.bidder.plan, p.gateway.gateway)
	return p, nil
}

// Ready is closed when the console can answer.
func (p *Plane) Ready() <-chan struct{} { return p.console.server.Ready() }

// Run serves until ctx ends or a service fails, and returns nil in the first case.
func (p *Plane) Run(ctx context.Context) error {
	var runs []func(context.Context) error
	for _, part := range [][]func(context.Context) error{
		p.gateway.runs(), p.failover.runs(), p.ledger.runs(), p.console.runs(), p.ground.prices.runs(), p.watcher.runs(), p.bidder.runs(),
	} {
		runs = append(runs, part...)
	}
	return together(ctx, runs...)
}

// Checks are what has to hold for the plane to do its work.
func (p *Plane) Checks() []process.Check {
	return append(p.gateway.Checks(), p.ground.feedAge()) // the gateway's are the longest list
}

// together runs all until ctx ends or one fails, and returns nil in the first case.
func together(ctx context.Context, runs ...func(context.Context) error) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, run := range runs {
		g.Go(func() error { return run(gctx) })
	}
	err := g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}
