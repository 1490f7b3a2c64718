package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/figures"
	"github.com/spotferry/spotferry/services/internal/installation"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/tracing"
)

// runtime is what a program has while it runs.
type runtime struct {
	flags        *process.Flags
	installation *installation.Installation
	log          *zap.Logger
	registry     *prometheus.Registry
	admin        *process.Admin
	spans        *tracing.Exporter

	conns    []*nats.Conn
	streams  *natsbus.Log
	counters natsbus.Counters
	marks    *natsbus.HighWater
}

// begin reads the command line and the installation, and opens the admin port.
func begin(f *process.Flags, args []string, env environment) (*runtime, error) {
	if err := f.Read(args, env.getenv); err != nil {
		return nil, err
	}
	if err := f.Required("installation", "creds"); err != nil {
		return nil, err
	}
	log, err := process.NewLogger(env.stderr, f.Name(), f.LogLevel)
	if err != nil {
		return nil, err
	}
	r := &runtime{flags: f, log: log, registry: process.NewRegistry(f.Name(), process.Version())}
	if r.spans, err = tracing.Open(env.getenv, "spotferry-"+f.Name(), process.Version()); err != nil {
		return nil, err
	}
	if r.installation, err = installation.Load(f.Installation); err != nil {
		return nil, err
	}
	if f.Admin == "" {
		return r, nil
	}
	if r.admin, err = process.Listen(f.Admin, r.registry); err != nil {
		return nil, err
	}
	return r, r.admin.WriteAddress(f.AdminFile)
}

// part is what a program runs besides its admin port and its marks.
type part interface {
	Run(ctx context.Context) error
	Checks() []process.Check
}

// serve builds the program's part and runs it until ctx ends, and returns nil
// then. The admin port answers from the first moment: a program that waits for the bus says so.
func (r *runtime) serve(ctx context.Context, build func(context.Context) (part, error)) error {
	defer r.close()
	g, gctx := errgroup.WithContext(ctx)
	if r.admin != nil {
		g.Go(func() error { return r.admin.Run(gctx, r.log) })
	}
	g.Go(func() error {
		p, err := build(gctx)
		if err != nil {
			return err
		}
		if r.admin != nil {
			r.admin.SetReady(p.Checks())
		}
		r.log.Info("serving", zap.String("installation", r.installation.Dir()), zap.String("version", process.Version()))
		if r.marks != nil {
			g.Go(func() error { return r.marks.Run(gctx) })
		}
		if err := p.Run(gctx); err != nil || gctx.Err() != nil {
			return err
		}
		return errors.New("it ended by itself")
	})
	err := g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		r.log.Info("stopped")
		return nil
	}
	if err != nil {
		r.log.Error("ends", zap.Error(err))
		return fmt.Errorf("%s: %w", r.flags.Name(), err)
	}
	return nil
}

func (r *runtime) close() {
	for _, c := range r.conns {
		c.Close()
	}
	// The program's own context has ended, and the last spans may still go out.
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := r.spans.Close(ctx); err != nil {
		r.log.Warn("spans lost", zap.Error(err))
	}
	_ = r.log.Sync() // of standard error, which may not know how
}

// lastSpans is how long a program that ends waits for a collector of traces.
const lastSpans = 2 * time.Second

// startPatience is how long a program that starts waits between its tries to reach the bus.
const startPatience = 500 * time.Millisecond

// connect opens a connection and waits for the bus as long as it takes.
func (r *runtime) connect(ctx context.Context, name string, creds natsbus.Credentials) (*nats.Conn, error) {
	cfg := r.installation.Reach(natsbus.ConnConfig{Credentials: creds, Name: name, Log: r.log.Named("bus"), Jitter: spread})
	for told := false; ; told = true {
		nc, err := natsbus.Connect(cfg)
		if err == nil {
			r.conns = append(r.conns, nc)
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nil, err
		}
		if !told {
			r.log.Warn("waiting for the bus", zap.Error(err))
		}
		if err := pause(ctx, startPatience); err != nil {
			return nil, err
		}
	}
}

// join connects with the program's own credentials, sees that the streams are what they were, and opens them.
func (r *runtime) join(ctx context.Context) error {
	text, err := os.ReadFile(r.flags.Creds)
	if err != nil {
		return fmt.Errorf("--creds: %w", err)
	}
	creds, err := natsbus.ParseCredentials(string(text))
	if err != nil {
		return fmt.Errorf("--creds %s: %w", r.flags.Creds, err)
	}
	nc, err := r.connect(ctx, r.flags.Name(), creds)
	if err != nil {
		return err
	}
	if r.streams, err = natsbus.New(nc, natsbus.Options{Log: r.log.Named("log"), Counters: &r.counters, Jitter: spread, Point: r.flags.Faults.Point, Wrap: r.flags.Faults.Wrap}); err != nil {
		return err
	}
	figures.Bus(r.registry, &r.counters)
	return r.declare(ctx, nc)
}

// declare checks the streams against their marks, if the program keeps any, and makes those that are missing.
func (r *runtime) declare(ctx context.Context, nc *nats.Conn) error {
	js := r.streams.JetStream()
	if r.flags.Marks != "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		r.flags.Marks = strings.ReplaceAll(r.flags.Marks, "%h", host)
		if err := os.MkdirAll(filepath.Dir(r.flags.Marks), 0o700); err != nil {
			return fmt.Errorf("--marks: %w", err)
		}
		r.marks, err = natsbus.OpenHighWater(natsbus.HighWaterConfig{
			Conn: nc, JS: js, File: r.flags.Marks, Every: marksEvery, Replicas: r.installation.Replicas, Log: r.log,
		})
		if err != nil {
			return err
		}
		if err := r.marks.Check(ctx); err != nil {
			return err
		}
	}
	for { // a cluster that is just starting has no leader yet
		err := natsbus.Declare(ctx, js, r.installation.Replicas)
		if err == nil || ctx.Err() != nil || errors.Is(err, natsbus.ErrStreamMismatch) {
			return err
		}
		r.log.Warn("the streams are not there yet", zap.Error(err))
		if err := pause(ctx, startPatience); err != nil {
			return err
		}
	}
}

// marksEvery is how often each program marks how far the streams have been. What
// one misses between, the others' marks and the chain of events cover.
const marksEvery = 3 * time.Second

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
