package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/checkpoint/store/retry"
	"github.com/spotferry/spotferry/checkpoint/store/signed"
	"github.com/spotferry/spotferry/events"
)

// granter asks the gateway for signed requests: this machine has no key of the
// store, and nothing it is given outlives its epoch by more than minutes.
type granter struct{ cfg Config }

// Grant implements signed.Granter.
func (g granter) Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error) {
	ask, able := g.cfg.Control.(interface {
		Grant(context.Context, events.GrantRequest) (events.GrantReply, error)
	})
	if !able {
		return nil, errors.New("the control plane gives no access to the checkpoint store")
	}
	req := events.GrantRequest{Lease: g.cfg.Bootstrap.Lease, Verb: string(verb), Names: make([]events.GrantObject, len(objects))}
	for i, o := range objects {
		req.Names[i] = events.GrantObject{Name: o.Name, Size: o.Size}
	}
	reply, err := ask.Grant(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("asking for access: %w", err)
	}
	if len(reply.Access) != len(objects) {
		return nil, fmt.Errorf("asking for access: %d answers to %d objects", len(reply.Access), len(objects))
	}
	now := g.cfg.Now() // with its monotonic reading, which the store compares
	out := make([]checkpoint.Access, len(objects))
	for i, a := range reply.Access {
		out[i] = checkpoint.Access{Method: a.Method, URL: a.URL, Header: a.Header, Until: now.Add(a.Life)}
	}
	return out, nil
}

// openStore opens what a grant names: by signed requests here, anything else as configured.
func (c Config) openStore(g events.StoreGrant) (checkpoint.Store, error) {
	if g.Kind != "signed" {
		return c.OpenStore(g)
	}
	s, err := signed.Open(signed.Config{Granter: granter{c}})
	if err != nil {
		return nil, err
	}
	return retry.New(s, retry.Config{
		Jitter: rand.Float64,
		OnRepeat: func(op, name string, err error) {
			c.Log.Info("store, trying again", zap.String("op", op), zap.String("object", name), zap.Error(err))
		},
		OnState: func(state string) { c.Log.Warn("store's breaker", zap.String("state", state)) },
	}), nil
}

// checkpointKey is under what name a tenant's key is sealed.
const checkpointKey = "checkpoint-key"

// openKey returns the key that checkpoints are sealed with; the zero key if they are not.
func openKey(cfg Config, g events.StoreGrant) (key chunk.Key, err error) {
	if g.Key == nil {
		return key, nil
	}
	o, able := cfg.Control.(opener)
	if !able {
		return key, errors.New("joining: the key of the checkpoints cannot be opened here")
	}
	clear, err := o.Open(*g.Key)
	if err != nil {
		return key, fmt.Errorf("joining: opening the key of the checkpoints: %w", err)
	}
	got, err := events.UnpackSecrets(cfg.Bootstrap.Job, clear)
	if err != nil {
		return key, fmt.Errorf("joining: the key of the checkpoints: %w", err)
	}
	b, err := hex.DecodeString(got[checkpointKey].Reveal())
	if err != nil || len(b) != len(key) {
		return key, errors.New("joining: the key of the checkpoints is not one")
	}
	copy(key[:], b)
	return key, nil
}
