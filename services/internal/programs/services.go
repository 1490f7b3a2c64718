package programs

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/remote"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/figures"
	"github.com/spotferry/spotferry/services/internal/plane"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/storage"
)

// spread draws what retries of many programs are spread by.
func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return mrand.N(d)
}

// service is a program that is one part of the plane.
type service struct {
	name, purpose string
	sells         bool // it talks to sellers
	marked        bool // it acts on the streams of truth
	operator      bool // it mints and pushes accounts
	traces        bool // it tells the failovers' traces
	figures       []figures.Set
	stores        []storage.Scheme
	build         func(plane.Config) (plane.Part, error)
}

// services are those of which any number may run.
func services() []service {
	return []service{
		{name: "gateway", purpose: "lets agents in, and makes true what they report", marked: true, operator: true, figures: []figures.Set{figures.Checkpoints},
			build: func(c plane.Config) (plane.Part, error) { return plane.NewGateway(c), nil }},
		{name: "bidder", purpose: "decides what to buy for jobs, and buys it", sells: true, marked: true, figures: []figures.Set{figures.Leases},
			build: func(c plane.Config) (plane.Part, error) { return plane.NewBidder(c) }},
		{name: "watcher", purpose: "asks sellers for their offers and publishes what a buyer would notice", sells: true, figures: []figures.Set{figures.Prices},
			build: func(c plane.Config) (plane.Part, error) { return plane.NewWatcher(c) }},
		{name: "failover", purpose: "carries jobs from machine to machine", marked: true, traces: true, figures: []figures.Set{figures.Failovers},
			build: func(c plane.Config) (plane.Part, error) { return plane.NewFailover(c), nil }},
		{name: "ledger", purpose: "accounts for what was spent", marked: true, figures: []figures.Set{figures.Money},
			build: func(c plane.Config) (plane.Part, error) { return plane.NewLedger(c), nil }},
		{name: "console", purpose: "answers people and their command lines", sells: true, marked: true, figures: []figures.Set{figures.Streams},
			build: func(c plane.Config) (plane.Part, error) { return plane.NewConsole(c), nil }},
	}
}

func (s service) run(ctx context.Context, args []string, stdout io.Writer) error {
	return s.start(ctx, args, stdout, surroundings())
}

func (s service) start(ctx context.Context, args []string, stdout io.Writer, env environment) error {
	f := process.NewFlags(s.name, s.purpose, stdout)
	f.Connected()
	if s.marked {
		f.Marked()
	}
	operator := ""
	if s.operator {
		f.StringVar(&operator, "operator", "", "directory with the keys of the bus; \"\": the installation's")
	}
	r, err := begin(f, args, env)
	if err != nil {
		return err
	}
	if s.operator && operator == "" {
		operator = r.installation.OperatorDir()
	}
	return r.serve(ctx, func(ctx context.Context) (part, error) { return s.assemble(ctx, r, operator) })
}

// assemble makes the service of what the installation says.
func (s service) assemble(ctx context.Context, r *runtime, operator string) (part, error) {
	if err := r.join(ctx); err != nil {
		return nil, err
	}
	c := r.plane()
	if s.sells {
		if err := r.sellers(&c); err != nil {
			return nil, err
		}
	}
	if s.operator {
		if err := r.keys(ctx, &c, operator, s.stores); err != nil {
			return nil, err
		}
	}
	built, err := s.build(c)
	if err != nil {
		return nil, err
	}
	var p part = built
	if s.traces {
		p = r.telling(p)
	}
	return figures.Beside(p, figures.Config{Log: r.streams, Clock: c.Clock, Now: c.Now, Registerer: r.registry, Logger: r.log}, s.figures...), nil
}

// drain is how long requests under way may take when a program is asked to stop.
const drain = 5 * time.Second

// plane is the configuration that every service has.
func (r *runtime) plane() plane.Config {
	i := r.installation
	return plane.Config{
		Conn: r.conns[0], Log: r.streams, Clock: i.Clock, Timers: i.Timers(), Org: events.OrgID(i.Org), Mark: i.Mark, Now: r.flags.Faults.Now, Crash: r.flags.Faults.Point,
		Version: process.Version(), Logger: r.log, Poll: i.Poll(), Registerer: r.registry, Drain: drain,
	}
}

// limit is what one program may ask of one seller, a second.
var limit = provider.LimitConfig{PerSecond: 200, Burst: 200}

// sellers reaches each through its own process.
func (r *runtime) sellers(c *plane.Config) error {
	c.Sellers = map[string]provider.Provider{}
	metrics := provider.NewMetrics(r.registry)
	for _, name := range r.installation.Sellers {
		client, err := remote.NewClient(c.Conn, name, remote.ClientConfig{})
		if err != nil {
			return err
		}
		c.Sellers[name] = provider.Stack(client, provider.StackConfig{Seller: name, Limit: limit, Metrics: metrics})
	}
	return nil
}

// keys opens what only the gateway has: the operator's keys, a way to push accounts, and the store.
func (r *runtime) keys(ctx context.Context, c *plane.Config, dirname string, stores []storage.Scheme) error {
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: dirname, Entropy: rand.Reader, Now: time.Now})
	if err != nil {
		return fmt.Errorf("--operator: %w", err)
	}
	system, err := op.System("gateway")
	if err != nil {
		return err
	}
	pusher, err := r.connect(ctx, "gateway-accounts", system)
	if err != nil {
		return err
	}
	store, err := storage.Open(ctx, r.installation.StoreURL(), r.log, stores...)
	if err != nil {
		return fmt.Errorf("opening the checkpoint store: %w", err)
	}
	c.Operator, c.Accounts = op, natsbus.NewAccounts(op, pusher)
	c.Store, c.Signer, c.Grant, c.TenantKey = store.Store, store.Signer, store.Grant, storage.Keys{Dir: dirname}.Of
	reach := r.installation.Reach(natsbus.ConnConfig{})
	c.URL, c.URLFile = reach.URL, reach.URLFile
	if c.URL == "" {
		c.URL = c.Conn.ConnectedUrl() // where it was when this was made; the file says where it is
	}
	return nil
}
