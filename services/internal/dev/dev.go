package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/bidder/provider/remote"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/plane"
	"github.com/spotferry/spotferry/services/internal/storage"
	"github.com/spotferry/spotferry/services/internal/tracing"
)

// Config of a system on one machine.
type Config struct {
	Dir     string // state directory
	Version string
	Now     func() time.Time // control time; time.Now
	Logger  *zap.Logger
	Spans   *tracing.Exporter // takes the failovers' traces; nil: nobody does

	// The following are fixed when the state directory is made; later ones must
	// agree or be zero.
	Market trace.Spec // zero: a seeded model; the directory of a recorded one is absolute
	Scale  int64      // market seconds in a second; 0: 1
	Divide int        // of the default timers; 0: 1
	// Encrypt gives the organisation a key for its checkpoints. One that it has stays.
	Encrypt bool
	Store   string // URL of the checkpoint store, see package storage; "": a directory in Dir

	Admin       string // host:port of /metrics, /livez and /readyz; "": none
	EvidenceDir string // absolute; where the parts leave evidence, "" for nowhere
	Ready       func() // called once the command line can be answered
}

const (
	sellerName = "local"
	org        = "local"
)

// Run runs the system until ctx ends, and returns nil then. Machines go on
// without it: a later Run on the same directory finds them.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	abs, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return err
	}
	l := layout{abs}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("the state directory cannot be made: %w", err)
	}
	if err := l.usable(); err != nil {
		return err
	}
	release, err := patiently(ctx, ErrRunning, l.lock)
	if err != nil {
		return err
	}
	defer release()
	st, err := l.establish(cfg)
	if err != nil {
		return err
	}
	s := &system{cfg: cfg, layout: l, state: st}
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.run(ctx)
}

// system is one run.
type system struct {
	cfg    Config
	layout layout
	state  state

	bus      *natsbus.Embedded
	operator *natsbus.Operator
	conns    []*nats.Conn
	store    *storage.Opened
	log      *natsbus.Log
	marks    *natsbus.HighWater
	local    *local.Seller
	plane    *plane.Plane
	admin    operated
	counters natsbus.Counters
}

func (s *system) close() {
	for _, c := range s.conns {
		c.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
	if s.bus != nil {
		s.bus.Shutdown()
	}
}

func (s *system) open(ctx context.Context) error {
	if err := s.openBus(ctx, true); err != nil {
		return err
	}
	var err error
	if s.store, err = storage.Open(ctx, s.layout.storeURL(s.state), s.cfg.Logger); err != nil {
		return fmt.Errorf("opening the checkpoint store: %w", err)
	}
	if s.store.Grant.Cache, err = s.layout.inputCache(); err != nil {
		return fmt.Errorf("the directory for inputs cannot be made: %w", err)
	}
	if s.cfg.Encrypt {
		if err := s.layout.keys().Make(org); err != nil {
			return fmt.Errorf("making the checkpoints' key: %w", err)
		}
	}
	if err := s.openAdmin(); err != nil {
		return err
	}
	if err := s.openSeller(); err != nil {
		return err
	}
	if err := s.writeUser(); err != nil {
		return err
	}
	return s.openPlane()
}

// keys are where those are that checkpoints are encrypted with.
func (l layout) keys() storage.Keys { return storage.Keys{Dir: l.path("operator")} }

// openBus starts the embedded bus, checks its streams against their marks, and declares them.
func (s *system) openBus(ctx context.Context, listen bool) (err error) {
	s.operator, err = natsbus.OpenOperator(natsbus.OperatorConfig{Dir: s.layout.path("operator"), Entropy: rand.Reader, Now: s.cfg.Now})
	if err != nil {
		return fmt.Errorf("opening the bus's keys: %w", err)
	}
	s.bus, err = natsbus.Start(natsbus.EmbeddedConfig{Dir: s.layout.path("bus"), Listen: listen, Operator: s.operator, Log: s.cfg.Logger.Named("bus")})
	if err != nil {
		return err
	}
	nc, err := s.connect("services")
	if err != nil {
		return err
	}
	if s.log, err = natsbus.New(nc, natsbus.Options{Log: s.cfg.Logger.Named("log"), Room: s.bus.Room, Counters: &s.counters}); err != nil {
		return err
	}
	s.marks, err = natsbus.OpenHighWater(natsbus.HighWaterConfig{Conn: nc, JS: s.log.JetStream(), File: s.layout.path("highwater.json"), Log: s.cfg.Logger})
	if err != nil {
		return err
	}
	if err := s.marks.Verify(ctx); err != nil {
		return err
	}
	return natsbus.Declare(ctx, s.log.JetStream(), 1)
}

// connect opens a connection to MAIN with a credential of its own.
func (s *system) connect(name string) (*nats.Conn, error) {
	creds, err := s.operator.Service(name)
	if err != nil {
		return nil, err
	}
	return s.dial(name, creds)
}

func (s *system) dial(name string, creds natsbus.Credentials) (*nats.Conn, error) {
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: s.bus, Credentials: creds, Name: name, Log: s.cfg.Logger.Named("bus")})
	if err != nil {
		return nil, err
	}
	s.conns = append(s.conns, nc)
	return nc, nil
}

func (s *system) openSeller() error {
	exe, err := local.KeepExecutable(s.layout.path("bin"))
	if err != nil {
		return err
	}
	s.local, err = local.New(local.Config{
		Dir: s.layout.path("seller"), Exe: exe, HostArgs: []string{"host"}, AgentArgs: []string{exe, "agent"},
		Market: s.state.Market, Clock: s.state.Clock, EvidenceDir: s.cfg.EvidenceDir, Now: s.cfg.Now,
		OfferTTL: 4 * s.state.Poll(), Log: s.cfg.Logger.Named("seller"),
	})
	return err
}

func (s *system) openPlane() error {
	system, err := s.operator.System("gateway")
	if err != nil {
		return err
	}
	pusher, err := s.dial("gateway-accounts", system)
	if err != nil {
		return err
	}
	client, err := remote.NewClient(s.conns[0], sellerName, remote.ClientConfig{})
	if err != nil {
		return err
	}
	s.plane, err = plane.New(plane.Config{
		Conn: s.conns[0], Log: s.log, Operator: s.operator, Accounts: natsbus.NewAccounts(s.operator, pusher),
		Store: s.store.Store, Signer: s.store.Signer, Grant: s.store.Grant, TenantKey: s.layout.keys().Of,
		Sellers: map[string]provider.Provider{sellerName: provider.Stack(client, provider.StackConfig{Seller: sellerName, Limit: provider.LimitConfig{PerSecond: 200, Burst: 200}, Metrics: s.admin.sellers()})},
		Clock:   s.state.Clock, Timers: s.state.Timers(), Poll: s.state.Poll(), URL: s.bus.URL(), URLFile: s.bus.URLFile(),
		Org: events.OrgID(s.state.Org), Mark: s.state.Mark, Now: s.cfg.Now, Version: s.cfg.Version, Logger: s.cfg.Logger, Registerer: s.admin.registerer(),
	})
	return err
}

// userName is who the command line is to the bus.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return events.Token(u.Username)
	}
	return "someone"
}

func (s *system) writeUser() error {
	creds, err := s.operator.Person(userName(), string(console.Admin), natsbus.Validity{From: s.cfg.Now()})
	if err != nil {
		return err
	}
	text, err := creds.Text()
	if err != nil {
		return err
	}
	return replaceFile(s.layout.path("user.creds"), []byte(text), 0o600)
}

// run serves the seller and the plane until ctx ends.
func (s *system) run(ctx context.Context) error {
	sellerConn, err := s.connect("seller-" + sellerName)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	heard := make(chan struct{})
	g.Go(func() error {
		return remote.Serve(gctx, sellerConn, s.local, remote.ServerConfig{
			Seller: sellerName, Version: "1.0.0", Log: s.cfg.Logger.Named("seller"), Ready: func() { close(heard) }, Tracer: s.cfg.Spans.Tracer(),
		})
	})
	g.Go(func() error { return s.marks.Run(gctx) })
	g.Go(func() error { return s.serveAdmin(gctx) })
	g.Go(func() error { return s.cfg.Spans.Follow(gctx, s.log, s.cfg.Logger.Named("tracing")) })
	g.Go(func() error {
		select {
		case <-heard:
		case <-gctx.Done():
			return gctx.Err()
		}
		return s.runPlane(gctx)
	})
	g.Go(func() error {
		select {
		case <-s.plane.Ready():
			s.cfg.Logger.Info("serving", zap.String("state", s.layout.dir), zap.String("bus", s.bus.URL()))
			if s.cfg.Ready != nil {
				s.cfg.Ready()
			}
		case <-gctx.Done():
		}
		return nil
	})
	err = g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}
