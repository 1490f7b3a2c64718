package bidder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/ops"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Market is what the bidder needs to know of prices and risk.
type Market interface {
	// Offers returns the newest valid offer of every pool; Decide judges their age.
	Offers() []events.Offer
	// Rate returns how often machines of a pool are reclaimed at an age, an hour of
	// market time, and the market hours a machine of that age is expected to go on; 0: unknown.
	Rate(p events.Pool, age time.Duration) (perHour, life float64)
	// Changed is closed at the next change of an offer.
	Changed() <-chan struct{}
}

// seller is what the bidder needs of a provider.Provider.
type seller interface {
	Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error)
	Terminate(ctx context.Context, id events.InstanceID) error
	List(ctx context.Context) (provider.Listing, error)
}

// Crash points, in the order in which a purchase and a release reach them.
const (
	CrashBeforeIntent    = "before-intent"                // decided, nothing written
	CrashReserved        = "after-reserve"                // money set aside, no intent
	CrashAfterIntent     = "after-intent"                 // intent written, nothing called
	CrashAfterCall       = "after-call-before-response"   // the seller acted, the answer is not read
	CrashBeforeRecord    = "after-response-before-record" // the answer is known, not written
	CrashBeforeTerminate = "before-terminate"             // wanted gone, not asked
	CrashNoConfirm       = "after-terminate-no-confirm"   // asked, not confirmed
	CrashConfirmed       = "confirmed-not-recorded"       // the seller says gone, not written
	CrashBeforeAdopt     = "before-adopt"                 // a stray found, not written
)

// Config of a Service. Required are Log, Book, Market, Sellers, Bootstrap, Now,
// Timers, Mark and Logger; the zero value of the rest is the default told.
// Durations are control time unless they say otherwise.
type Config struct {
	Log     events.Log
	Book    *ledger.Book
	Market  Market
	Sellers map[string]provider.Provider // by events.Pool.Seller, stacked with retry, breaker, limit
	// Bootstrap returns a machine's user data: the same bytes for the same lease, whenever asked.
	Bootstrap func(ctx context.Context, job events.JobID, epoch int, lease events.LeaseID) ([]byte, error)
	Now       func() events.Moment
	Timers    events.Timers
	Mark      string // of this installation, on every machine it buys; others' machines are never touched
	Logger    *zap.Logger
	Metrics   *Metrics // nil: not measured

	Scale    int64         // market seconds in a control second; 1
	Poll     time.Duration // between looks at a seller that has machines of ours; Timers.Heartbeat
	Idle     time.Duration // between looks at one that has none; a quarter of Timers.GC
	Call     time.Duration // one List or Terminate may take; 30 s
	Launch   time.Duration // one Launch may take; Timers.Boot
	Takeover time.Duration // another replica's work is taken over after; Timers.Hold
	Restart  time.Duration // lost by a move, until moves have been seen; a tenth of Timers.Boot
	Acquire  time.Duration // to acquire on-demand, until that has been seen; a twentieth of Timers.Boot
	Teardown time.Duration // from asking for a machine's end to its last billed moment; twice Timers.Fence
	Stop     time.Duration // an orderly save and stop, before paid-until; twice Timers.Hold; a job's own grace if that is longer
	Retry    time.Duration // a waiting job looks at the market again; six times Timers.Heartbeat
	Horizon  time.Duration // market time a machine is paid ahead; an hour, at least six times Stop, or a job's own grace
	Parallel int           // launches and terminations at once; 16

	// Crash is called at the named points; tests end the service there. nil: nothing.
	Crash func(point string)
	// Turn, if set, is called before each timer-driven round of the named actor: a
	// simulation gives every actor its own instant.
	Turn func(actor string)
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	c.Scale = max(c.Scale, 1)
	def(&c.Poll, c.Timers.Heartbeat)
	def(&c.Idle, c.Timers.GC/4)
	def(&c.Call, 30*time.Second)
	def(&c.Launch, c.Timers.Boot)
	def(&c.Takeover, c.Timers.Hold)
	def(&c.Restart, c.Timers.Boot/10)
	def(&c.Acquire, c.Timers.Boot/20)
	def(&c.Teardown, 2*c.Timers.Fence)
	def(&c.Stop, 2*c.Timers.Hold)
	def(&c.Retry, 6*c.Timers.Heartbeat)
	def(&c.Horizon, max(time.Hour, 6*c.Stop*time.Duration(c.Scale)))
	if c.Parallel <= 0 {
		c.Parallel = 16
	}
	if c.Crash == nil {
		c.Crash = func(string) {}
	}
	if c.Turn == nil {
		c.Turn = func(string) {}
	}
	return c
}

// Validate names the first field that is missing.
func (c Config) Validate() error {
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"Log", c.Log == nil}, {"Book", c.Book == nil}, {"Market", c.Market == nil}, {"Sellers", len(c.Sellers) == 0},
		{"Bootstrap", c.Bootstrap == nil}, {"Now", c.Now == nil}, {"Logger", c.Logger == nil},
		{"Timers", c.Timers.Heartbeat <= 0}, {"Mark", c.Mark == ""},
	} {
		if f.missing {
			return fmt.Errorf("bidder: Config.%s is required", f.name)
		}
	}
	return nil
}

// Service carries decisions out. Make it with New.
type Service struct {
	cfg     Config
	ops     *ops.Book
	world   *world
	flights flights
	slots   chan struct{}
	pollers map[string]*poller
	stood   standing
}

// New returns a service; Run starts it.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Service{
		cfg: cfg, ops: ops.NewBook(cfg.Log, source, func() time.Time { return cfg.Now().Control }), world: newWorld(cfg.Timers.Settle, cfg.Scale), slots: make(chan struct{}, cfg.Parallel),
		pollers: map[string]*poller{}, stood: standing{since: map[events.Pool]time.Time{}},
	}
	for name, p := range cfg.Sellers {
		s.pollers[name] = newPoller(name, p)
	}
	return s, nil
}

// Run serves until ctx ends or a part fails, and returns nil in the first case.
// Every goroutine it started has ended when it returns.
//
// Replicas share one durable consumer of job events, which hands each event to
// one of them; all of them read everything besides, and take over what is still
// owed after Config.Takeover. Two that act at once meet at the log's expectation
// and at the seller's token.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("bidder: %s: %w", name, err))
			}
		}()
	}
	caughtUp := make(chan struct{})
	s.flights.open(ctx)
	part("reading jobs and leases", func(ctx context.Context) error {
		return s.cfg.Log.Consume(ctx, events.Subscription{
			Filters: []string{events.FilterJobs, events.FilterLeases, events.FilterOps}, Last: true, CaughtUp: func() { close(caughtUp) },
		}, func(_ context.Context, e events.Event) error { s.world.apply(e); return nil })
	})
	select {
	case <-caughtUp:
	case <-ctx.Done():
	}
	part("consuming commands", func(ctx context.Context) error {
		return s.cfg.Log.Consume(ctx, events.Subscription{Name: "bidder", Filters: []string{events.FilterJobs}}, s.told)
	})
	part("consuming decisions of operations", func(ctx context.Context) error {
		return s.cfg.Log.Consume(ctx, events.Subscription{Name: "bidder-ops", Filters: []string{events.FilterOps}}, s.ordered)
	})
	for _, name := range slices.Sorted(maps.Keys(s.pollers)) {
		part("polling "+name, func(ctx context.Context) error { return s.poll(ctx, s.pollers[name]) })
	}
	part("watching the market", s.watch)
	part("sweeping", s.sweep)
	<-ctx.Done()
	s.flights.close()
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// sortedPollers lists the sellers in a fixed order.
func (s *Service) sortedPollers() []*poller {
	var out []*poller
	for _, name := range slices.Sorted(maps.Keys(s.pollers)) {
		out = append(out, s.pollers[name])
	}
	return out
}

// market returns d of control time as market time.
func (s *Service) market(d time.Duration) time.Duration { return d * time.Duration(s.cfg.Scale) }

// sleep waits for d of control time or for ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
