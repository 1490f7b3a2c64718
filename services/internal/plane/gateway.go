package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/installation"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Gateway answers agents, and the bidder when it asks for a machine's user data.
type Gateway struct {
	*ground
	gateway *gateway.Gateway
}

// NewGateway builds a gateway that runs alone. It needs Operator, Accounts, Store, Grant and URL or URLFile.
func NewGateway(cfg Config) *Gateway { return newGateway(newGround(cfg, true)) }

func newGateway(g *ground) *Gateway {
	var metrics *gateway.Metrics
	if g.Registerer != nil {
		metrics = gateway.NewMetrics(g.Registerer)
	}
	return &Gateway{g, gateway.New(gateway.Config{
		Log: g.Log, Book: g.jobs, Accounts: accounts{g.Operator, g.Accounts, g.Now, g.Timers}, Signals: g.bus, Vault: &vault{js: g.Log.JetStream()},
		Secrets: natsbus.NewSecrets(g.Log.JetStream()), Keys: g.Operator,
		Store: g.Store, Grant: g.Grant, Timers: g.Timers, URL: g.URL, URLFile: g.URLFile,
		Now: g.moment, Control: g.Clock.Control, Push: g.push, Logger: g.Logger.Named("gateway"),
		Workers: min(g.Parallel, 8), Collection: g.Collection, Metrics: metrics, Turn: func() { g.Turn("collector") },
		Signer: g.Signer, TenantKey: g.TenantKey,
	})}
}

// push tells an agent to renew at once. A push that gets lost costs one heartbeat.
func (g *ground) push(job events.JobID, epoch int) {
	_ = g.Conn.Publish(events.DownSubject(job, epoch), nil)
}

// Bootstrap returns a machine's user data, the same for the same lease.
func (w *Gateway) Bootstrap(ctx context.Context, job events.JobID, epoch int, lease events.LeaseID) ([]byte, error) {
	return w.gateway.Bootstrap(ctx, job, epoch, lease)
}

// Run serves until ctx ends.
func (w *Gateway) Run(ctx context.Context) error { return together(ctx, w.runs()...) }

func (w *Gateway) runs() []func(context.Context) error {
	runs := []func(context.Context) error{w.gateway.Run, w.serveAgents}
	if w.apart {
		runs = append(runs, w.serveBidders, w.serveConsoles)
	}
	return runs
}

// Checks are what has to hold for the gateway to do its work.
func (w *Gateway) Checks() []process.Check {
	return append(w.basics(), process.Check{Name: "store", Test: func(ctx context.Context) error {
		_, err := w.Store.Stat(ctx, "v1/readyz")
		if errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return nil // it answers
		}
		return err
	}})
}

// serveAgents answers agents' requests, several at a time, until ctx ends.
func (w *Gateway) serveAgents(ctx context.Context) error {
	s := w.serving("agents", "agent.*.*.*", "gateway")
	if w.Parallel == 1 {
		s.turn = "gateway"
	}
	return s.run(ctx, func(ctx context.Context, m *nats.Msg) []byte { return w.gateway.Handle(ctx, m.Subject, m.Data) })
}

// serveBidders hands out user data to bidders that are programs of their own.
func (w *Gateway) serveBidders(ctx context.Context) error {
	return w.serving("bidders", installation.SubjectBootstrap, "gateway").run(ctx, func(ctx context.Context, m *nats.Msg) []byte {
		return answered(m.Data, func(r bootstrapRequest) ([]byte, error) { return w.Bootstrap(ctx, r.Job, r.Epoch, r.Lease) })
	})
}

type bootstrapRequest struct {
	Job   events.JobID   `json:"job"`
	Epoch int            `json:"epoch"`
	Lease events.LeaseID `json:"lease"`
}

// remoteBootstrap asks a gateway that is a program of its own.
func (g *ground) remoteBootstrap(ctx context.Context, job events.JobID, epoch int, lease events.LeaseID) ([]byte, error) {
	b, err := asked[[]byte](ctx, g.Conn, installation.SubjectBootstrap, bootstrapRequest{job, epoch, lease})
	if err == nil && !json.Valid(b) {
		err = errors.New("the answer is no user data")
	}
	if err != nil {
		return nil, fmt.Errorf("asking the gateway for the user data of %s: %w", lease, err)
	}
	return b, nil
}
