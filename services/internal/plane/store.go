package plane

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/installation"
)

// store is what a gateway tells consoles of the checkpoint store.
type store interface {
	Usage(ctx context.Context, job events.JobID) (gateway.Usage, error)
	Contents(ctx context.Context, job events.JobID, name string) (gateway.Contents, error)
	Access(ctx context.Context, r gateway.AccessRequest) (gateway.Access, error)
	Collect(ctx context.Context, r gateway.CollectRequest) (gateway.Collected, error)
}

// StoreReader tells a console of the checkpoint store where no gateway runs. Of
// the configuration it takes Store, Grant, Signer, TenantKey, Operator and Timers.
func StoreReader(cfg Config, book *failover.Book, now func() events.Moment) *gateway.Gateway {
	return gateway.New(gateway.Config{
		Book: book, Store: cfg.Store, Grant: cfg.Grant, Signer: cfg.Signer, TenantKey: cfg.TenantKey, Keys: cfg.Operator,
		Timers: cfg.Timers, Now: now, Logger: zap.NewNop(),
	})
}

// storeRequest is one of its questions; one field is set.
type storeRequest struct {
	Usage    events.JobID            `json:"usage,omitempty"`
	Contents *contentsOf             `json:"contents,omitempty"`
	Access   *gateway.AccessRequest  `json:"access,omitempty"`
	Collect  *gateway.CollectRequest `json:"collect,omitempty"`
}

type contentsOf struct {
	Job  events.JobID `json:"job"`
	Name string       `json:"name"`
}

// serveConsoles answers consoles that are programs of their own.
func (w *Gateway) serveConsoles(ctx context.Context) error {
	return w.serving("consoles", installation.SubjectStore, "gateway").run(ctx, func(ctx context.Context, m *nats.Msg) []byte {
		return answered(m.Data, func(r storeRequest) (any, error) {
			v, err := w.answerStore(ctx, r)
			return v, shown(err)
		})
	})
}

// roundLimit is within askLimit: a round that takes longer is asked for again.
const roundLimit = askLimit * 8 / 10

func (w *Gateway) answerStore(ctx context.Context, r storeRequest) (any, error) {
	switch {
	case r.Usage != "":
		return w.gateway.Usage(ctx, r.Usage)
	case r.Contents != nil:
		return w.gateway.Contents(ctx, r.Contents.Job, r.Contents.Name)
	case r.Access != nil:
		return w.gateway.Access(ctx, *r.Access)
	case r.Collect != nil:
		ctx, done := context.WithTimeout(ctx, roundLimit)
		defer done()
		return w.gateway.Collect(ctx, *r.Collect)
	}
	return nil, errors.New("nothing was asked of the checkpoint store")
}

// shown makes of a refusal what a person is to see as it is.
func shown(err error) error {
	if r, ok := failover.IsRefused(err); ok {
		return &console.Problem{Code: "conflict", Message: r.What, Remedy: r.Remedy}
	}
	if r, ok := errors.AsType[*events.Refusal](err); ok {
		return &console.Problem{Code: r.Code, Message: r.Message, Remedy: r.Remedy}
	}
	return err
}

// remoteStore asks a gateway that is a program of its own.
type remoteStore struct{ *ground }

func storeAsked[A any](ctx context.Context, s remoteStore, r storeRequest) (A, error) {
	a, err := asked[A](ctx, s.Conn, installation.SubjectStore, r)
	var p *console.Problem
	if err != nil && !errors.As(err, &p) {
		err = fmt.Errorf("asking the gateway about checkpoints: %w", err)
	}
	return a, err
}

func (s remoteStore) Usage(ctx context.Context, job events.JobID) (gateway.Usage, error) {
	return storeAsked[gateway.Usage](ctx, s, storeRequest{Usage: job})
}

func (s remoteStore) Contents(ctx context.Context, job events.JobID, name string) (gateway.Contents, error) {
	return storeAsked[gateway.Contents](ctx, s, storeRequest{Contents: &contentsOf{job, name}})
}

func (s remoteStore) Access(ctx context.Context, r gateway.AccessRequest) (gateway.Access, error) {
	return storeAsked[gateway.Access](ctx, s, storeRequest{Access: &r})
}

func (s remoteStore) Collect(ctx context.Context, r gateway.CollectRequest) (gateway.Collected, error) {
	return storeAsked[gateway.Collected](ctx, s, storeRequest{Collect: &r})
}
