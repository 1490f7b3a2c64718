package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// ServerConfig configures Serve. Zero fields mean their defaults.
type ServerConfig struct {
	Seller     string        // required; a subject token
	Version    string        // semantic version of the adapter; "0.0.0"
	Launch     time.Duration // the longest a launch may take; 15 min
	Other      time.Duration // the longest anything else may take; 2 min
	Parallel   int           // calls under way at once, for each operation; 128
	Relisten   time.Duration // before listening for notices again after it failed; 5 s
	Log        *zap.Logger   // nil: silent
	Registerer prometheus.Registerer
	Ready      func()       // called once requests are heard
	Tracer     trace.Tracer // of calls that carry a trace; nil: none is told
}

func (c ServerConfig) withDefaults() (ServerConfig, error) {
	if err := events.CheckToken("seller", c.Seller); err != nil {
		return c, err
	}
	set(&c.Version, "0.0.0")
	set(&c.Launch, 15*time.Minute)
	set(&c.Other, 2*time.Minute)
	set(&c.Parallel, 128)
	set(&c.Relisten, 5*time.Second)
	set(&c.Log, zap.NewNop())
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if c.Ready == nil {
		c.Ready = func() {}
	}
	return c, nil
}

func set[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

// Serve answers for p on nc until ctx ends, and returns nil then. Calls under
// way get their contexts cancelled and are waited for; a launch that is cut off so answers
// UnknownOutcome.
//
// nc becomes Serve's and is closed by it: the framework leaves the bus by
// draining each subscription in a goroutine of its own, which would outlive Serve
// on a connection that stays open.
func Serve(ctx context.Context, nc *nats.Conn, p provider.Provider, cfg ServerConfig) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		nc.Close()
		return err
	}
	s := &server{
		cfg: cfg, nc: nc, p: provider.Typed(p), slots: map[string]chan struct{}{},
		answered: promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "spotferry_provider_requests_total",
			Help: "Requests from the bus by result: ok, an error kind, malformed, panic, refused.",
		}, []string{"seller", "op", "result"}),
	}
	service, err := s.register(ctx)
	if err != nil {
		nc.Close()
		return fmt.Errorf("serving seller %s: %w", cfg.Seller, err)
	}
	if err := heard(ctx, nc); err != nil && ctx.Err() == nil {
		return errors.Join(fmt.Errorf("serving seller %s: %w", cfg.Seller, err), s.leave(service))
	}
	cfg.Log.Info("seller serving", zap.String("seller", cfg.Seller), zap.String("capabilities", capabilityNames(s.can())))
	cfg.Ready()
	if notifier, ok := provider.As[provider.Notifier](s.p); ok {
		s.calls.Go(func() { s.relay(ctx, notifier) })
	}
	<-ctx.Done()
	s.close()
	s.calls.Wait()
	return s.leave(service)
}

// leave sends what was answered, and is gone from the bus when it returns.
func (s *server) leave(service micro.Service) error {
	// The caller's context has ended, and the last answers must still go out.
	err := heard(context.Background(), s.nc)
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	s.nc.Close()
	if err = errors.Join(err, service.Stop()); err != nil {
		return fmt.Errorf("leaving the bus as seller %s: %w", s.cfg.Seller, err)
	}
	return nil
}

// heard returns when the bus knows of everything subscribed so far.
func heard(ctx context.Context, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return nc.FlushWithContext(ctx)
}

// server is one running Serve.
type server struct {
	cfg      ServerConfig
	nc       *nats.Conn
	p        provider.Provider
	slots    map[string]chan struct{}
	launches singleflight.Group
	answered *prometheus.CounterVec

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

func (s *server) can() provider.Capabilities { return provider.CapabilitiesOf(s.p) }

// register puts the endpoints on the bus. life is Serve's context: what is begun
// lives as long as the server, not as long as whoever asked.
func (s *server) register(life context.Context) (micro.Service, error) {
	service, err := micro.AddService(s.nc, micro.Config{
		Name: "provider-" + s.cfg.Seller, Version: s.cfg.Version,
		Description: "sells GPU capacity of " + s.cfg.Seller,
	})
	if err != nil {
		return nil, err
	}
	group := service.AddGroup(root + s.cfg.Seller)
	for _, e := range s.endpoints() {
		s.slots[e.op] = make(chan struct{}, s.cfg.Parallel)
		if err := group.AddEndpoint(e.op, micro.HandlerFunc(func(r micro.Request) { s.accept(life, e, r) })); err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.op, err)
		}
	}
	return service, nil
}

// accept starts one goroutine per call, because a launch takes minutes and the
// bus delivers one request after the other. What it cannot start it refuses at once.
func (s *server) accept(life context.Context, e endpoint, r micro.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.refuse(e.op, r, &provider.Error{Kind: provider.Transient, Op: e.op, Scope: "seller", Code: "stopping", Message: "this seller's process is stopping"})
		return
	}
	select {
	case s.slots[e.op] <- struct{}{}:
	default:
		s.refuse(e.op, r, &provider.Error{
			Kind: provider.Throttled, Op: e.op, Scope: "seller", Code: "busy", RetryAfter: time.Second,
			Message: fmt.Sprintf("%d calls are under way", s.cfg.Parallel),
		})
		return
	}
	s.calls.Go(func() {
		defer func() { <-s.slots[e.op] }()
		s.serve(life, e, r)
	})
}

func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *server) refuse(op string, r micro.Request, err error) {
	s.answered.WithLabelValues(s.cfg.Seller, op, "refused").Inc()
	s.respond(op, r, [][]byte{errorPage(op, err)})
}

// timeout is how long a call may take: what the caller waits, within our own limit.
// A launch is not cut short by its caller.
func (s *server) timeout(op string, r micro.Request) time.Duration {
	if op == provider.OpLaunch {
		return s.cfg.Launch
	}
	ms, err := strconv.ParseInt(r.Headers().Get(headerTimeout), 10, 64)
	if err != nil || ms <= 0 || ms > s.cfg.Other.Milliseconds() {
		return s.cfg.Other
	}
	return time.Duration(ms) * time.Millisecond
}

func (s *server) respond(op string, r micro.Request, pages [][]byte) {
	header := micro.WithHeaders(micro.Headers{headerCapabilities: {capabilityNames(s.can())}})
	for _, body := range pages {
		if err := r.Respond(body, header); err != nil {
			// The caller's time-out tells it what this means.
			s.cfg.Log.Warn("answer not sent", zap.String("seller", s.cfg.Seller), zap.String("op", op), zap.Error(err))
			return
		}
	}
}
