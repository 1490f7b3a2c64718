// Package plane is the control plane: every service, built on one bus and run
// together. The all-in-one and the simulation call it; separate programs call
// the same constructors one by one.
package plane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Config of a Plane. Every field is required unless it says so.
type Config struct {
	Conn     *nats.Conn // to MAIN
	Log      *natsbus.Log
	Operator *natsbus.Operator
	Accounts *natsbus.Accounts
	Store    checkpoint.Store
	Grant    events.StoreGrant
	Sellers  map[string]provider.Provider // wrapped, see provider.Stack
	Clock    trace.Clock
	Timers   events.Timers
	Poll     time.Duration // between looks at a seller's offers and list, control time
	URL      string        // of the bus, as agents dial it
	URLFile  string        // optional
	Org      events.OrgID
	Mark     string // of this installation, on every machine it buys
	Now      func() time.Time
	Version  string
	Logger   *zap.Logger
	// Crash is called at named points; a simulation ends the plane there. nil: nothing.
	Crash func(point string)
	// Turn, if set, is called before each timer-driven round of the named actor:
	// a simulation gives every actor its own instant.
	Turn func(actor string)
	// Parallel is how many agent requests are answered at once; 0: 32. A simulation has 1.
	Parallel int
}

// Plane is all services of one installation in one process.
type Plane struct {
	cfg      Config
	bus      process.Bus
	jobs     *failover.Book
	money    *ledger.Book
	gateway  *gateway.Gateway
	failover *failover.Service
	ledger   *ledger.Service
	console  *console.Server
	vault    vault
	contact  contact
	buying   buying
}

// New builds the services; Run starts them.
func New(cfg Config) (*Plane, error) {
	if cfg.Parallel == 0 {
		cfg.Parallel = 32
	}
	if cfg.Crash == nil {
		cfg.Crash = func(string) {}
	}
	if cfg.Turn == nil {
		cfg.Turn = func(string) {}
	}
	p := &Plane{cfg: cfg, bus: process.Bus{Log: cfg.Log}, contact: contact{conn: cfg.Conn, now: cfg.Now, since: cfg.Now()}}
	p.jobs = failover.NewBook(cfg.Log, p.moment)
	p.money = ledger.NewBook(cfg.Log, "/spotferry/ledger", cfg.Now)
	p.vault = vault{js: cfg.Log.JetStream()}
	p.gateway = gateway.New(gateway.Config{
		Log: cfg.Log, Book: p.jobs, Accounts: accounts{cfg.Operator, cfg.Accounts, cfg.Now, cfg.Timers}, Signals: p.bus, Vault: &p.vault,
		Store: cfg.Store, Grant: cfg.Grant, Timers: cfg.Timers, URL: cfg.URL, URLFile: cfg.URLFile,
		Now: p.moment, Control: cfg.Clock.Control, Push: p.push, Logger: cfg.Logger.Named("gateway"),
	})
	p.failover = failover.New(failover.Config{
		Log: cfg.Log, Signals: p.bus, Book: p.jobs, Timers: cfg.Timers, Now: p.moment, Logger: cfg.Logger.Named("failover"),
		Healthy: p.contact.unbroken, Slot: func() { cfg.Turn("failover") },
	})
	p.ledger = ledger.New(ledger.Config{Log: cfg.Log, Book: p.money, Logger: cfg.Logger.Named("ledger"), Crash: cfg.Crash})
	if err := p.newBuying(); err != nil {
		return nil, err
	}
	p.console = console.New(console.Config{
		Log: cfg.Log, Signals: p.bus, Book: p.jobs, Money: p.money, Org: cfg.Org, Offers: p.offers, Sellers: cfg.Sellers,
		Logs: p.bus, Plan: p.plan, Health: p.health, Now: p.moment, Version: cfg.Version, Logger: cfg.Logger.Named("console"),
	})
	return p, nil
}

func (p *Plane) moment() events.Moment { return p.cfg.Clock.Moment(p.cfg.Now()) }

// push tells an agent to renew at once. A push that gets lost costs one heartbeat.
func (p *Plane) push(job events.JobID, epoch int) {
	_ = p.cfg.Conn.Publish(events.DownSubject(job, epoch), nil)
}

// Ready is closed when the console can answer.
func (p *Plane) Ready() <-chan struct{} { return p.console.Ready() }

// Run serves until ctx ends or a service fails, and returns nil in the first case.
func (p *Plane) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		p.gateway.Run, p.serveAgents, p.failover.Run, p.ledger.Run, p.console.Run,
		func(ctx context.Context) error { return p.console.Serve(ctx, p.cfg.Conn) },
	} {
		g.Go(func() error { return run(gctx) })
	}
	p.runBuying(gctx, g)
	err := g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}

// serveAgents answers agents' requests, several at a time, until ctx ends.
func (p *Plane) serveAgents(ctx context.Context) error {
	sub, err := p.cfg.Conn.QueueSubscribeSync("agent.*.*.*", "gateway")
	if err != nil {
		return fmt.Errorf("serving agents: %w", err)
	}
	var g errgroup.Group
	g.SetLimit(p.cfg.Parallel)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil && p.cfg.Parallel == 1:
			p.cfg.Turn("gateway")
			p.answer(ctx, m)
		case err == nil:
			g.Go(func() error { p.answer(ctx, m); return nil })
		case errors.Is(err, nats.ErrSlowConsumer):
			p.cfg.Logger.Warn("agent requests dropped: more came than can be answered")
		default:
			_ = g.Wait()
			_ = sub.Unsubscribe() // of a connection that is closed there is none
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("serving agents: %w", err)
		}
	}
}

func (p *Plane) answer(ctx context.Context, m *nats.Msg) {
	if err := m.Respond(p.gateway.Handle(ctx, m.Subject, m.Data)); err != nil && ctx.Err() == nil {
		p.cfg.Logger.Warn("answer to an agent not sent", zap.String("subject", m.Subject), zap.Error(err))
	}
}

// accounts mints with credentials that outlive the silence limit twice over.
type accounts struct {
	*natsbus.Operator
	pushed *natsbus.Accounts
	now    func() time.Time
	timers events.Timers
}

func (a accounts) AddJob(ctx context.Context, job events.JobID) error {
	return a.pushed.AddJob(ctx, job)
}

func (a accounts) DropJob(ctx context.Context, job events.JobID) error {
	return a.pushed.DropJob(ctx, job)
}

func (a accounts) Revoke(ctx context.Context, job events.JobID, key string) error {
	return a.pushed.Revoke(ctx, job, key)
}

// agentLife is how long an agent's credential is good. It has to outlast any
// absence that its machine survives; the fence, not the expiry, ends it.
const agentLife = 30 * 24 * time.Hour

func (a accounts) User(job events.JobID, epoch int, key string) (string, error) {
	return a.Operator.User(job, epoch, key, natsbus.Validity{From: a.now(), To: a.now().Add(agentLife)})
}

func (a accounts) Bootstrap(job events.JobID, epoch int, lease events.LeaseID) (string, error) {
	return a.Operator.Bootstrap(job, epoch, lease, natsbus.Validity{From: a.now(), To: a.now().Add(max(2*a.timers.Boot, 2*a.timers.Silence))})
}

// vault keeps bootstrap tokens in a bucket that only MAIN can read.
type vault struct {
	js jetstream.JetStream
}

const vaultBucket = "sf_bootstrap"

func (v *vault) Keep(ctx context.Context, key string, value []byte) ([]byte, error) {
	kv, err := v.js.KeyValue(ctx, vaultBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = v.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: vaultBucket, History: 1})
		if errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = v.js.KeyValue(ctx, vaultBucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening bucket %s: %w", vaultBucket, err)
	}
	_, err = kv.Create(ctx, key, value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		have, err := kv.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", key, err)
		}
		return have.Value(), nil
	}
	return value, err
}

func (p *Plane) health(ctx context.Context) []console.Check {
	checks := []console.Check{{Name: "bus", OK: p.cfg.Conn.IsConnected(), Detail: p.cfg.Conn.ConnectedUrlRedacted(), Remedy: "is the bus running?"}}
	names := make([]string, 0, len(p.cfg.Sellers))
	for name := range p.cfg.Sellers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c := console.Check{Name: "seller " + name, OK: true}
		l, err := p.cfg.Sellers[name].List(ctx)
		switch {
		case err != nil:
			c.OK, c.Detail, c.Remedy = false, err.Error(), "see the seller's own log"
		case !l.Complete:
			c.OK, c.Detail, c.Remedy = false, "its list of machines is incomplete", "try again; nothing is reaped meanwhile"
		default:
			c.Detail = fmt.Sprintf("%d machines listed", len(l.Instances))
		}
		checks = append(checks, c)
	}
	dead, err := p.cfg.Log.DeadLetters(ctx)
	c := console.Check{Name: "dead letters", OK: err == nil && len(dead) == 0, Detail: fmt.Sprintf("%d", len(dead)), Remedy: "each names stream and sequence; see the log"}
	if err != nil {
		c.Detail = err.Error()
	}
	return append(checks, c, p.feedHealth())
}
