package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nkeys"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// secrets keeps what people sealed for their jobs. It can open nothing.
type secrets interface {
	// Announce says which key secrets are to be sealed to.
	Announce(ctx context.Context, key string) error
	// Sealed returns what is kept for a job, or false.
	Sealed(ctx context.Context, job events.JobID) (events.Sealed, bool, error)
	// Remove forgets it for good; that there is nothing is no error.
	Remove(ctx context.Context, job events.JobID) error
}

// sealer has the key that secrets are sealed to.
type sealer interface {
	SecretsKey() (string, error)
	OpenSecrets(events.Sealed) ([]byte, error)
	SealSecrets(clear []byte, to string) (events.Sealed, error)
}

// announce says which key secrets are sealed to, until that has been heard.
func (g *Gateway) announce(ctx context.Context) error {
	if g.cfg.Secrets == nil {
		return nil
	}
	key, err := g.cfg.Keys.SecretsKey()
	if err != nil {
		return fmt.Errorf("the key for secrets: %w", err)
	}
	for {
		err := g.cfg.Secrets.Announce(ctx, key)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		g.cfg.Logger.Warn("the key for secrets is not announced yet", zap.Error(err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// errLostSecrets ends a job: machine after machine would be bought and could not join.
var errLostSecrets = errors.New("the job's secrets cannot be opened")

// secretsFor seals a job's secrets anew, for one agent. A job that has none costs nothing.
func (a ask) secretsFor(j failover.Job, r events.JoinRequest) (*events.Sealed, error) {
	if len(j.Spec.Secrets) == 0 {
		return nil, nil
	}
	if err := proven(r); err != nil {
		return nil, err
	}
	sealed, err := a.g.reseal(a.ctx, j, r.SealTo)
	if errors.Is(err, errLostSecrets) {
		a.g.cfg.Logger.Error("secrets lost", zap.String("job", string(j.ID)), zap.Error(err))
		if _, err := a.apply(failover.Cancel{By: "gateway", Reason: err.Error() + "; submit it again"}); err != nil {
			return nil, err
		}
		return nil, errFenced
	}
	return sealed, err
}

// proven says why a curve key is not known to be that of the agent's own key, or nil.
func proven(r events.JoinRequest) error {
	key, err := nkeys.FromPublicKey(r.Key)
	if err != nil || !nkeys.IsValidPublicCurveKey(r.SealTo) || key.Verify([]byte(r.SealTo), r.Proof) != nil {
		return invalid("seal_to: want a curve key signed by the agent's own: this job has secrets or encrypted checkpoints, which an older agent cannot take")
	}
	return nil
}

func (g *Gateway) reseal(ctx context.Context, j failover.Job, to string) (*events.Sealed, error) {
	if g.cfg.Secrets == nil {
		return nil, fmt.Errorf("job %s has secrets, and this gateway keeps none", j.ID)
	}
	sealed, kept, err := g.cfg.Secrets.Sealed(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	if !kept {
		return nil, fmt.Errorf("%w: they are not kept any more", errLostSecrets)
	}
	clear, err := g.cfg.Keys.OpenSecrets(sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: they were sealed to another key", errLostSecrets)
	}
	have, err := events.UnpackSecrets(j.ID, clear)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLostSecrets, err)
	}
	for _, name := range j.Spec.Secrets {
		if _, ok := have[name]; !ok {
			return nil, fmt.Errorf("%w: %.100q is not among them", errLostSecrets, name)
		}
	}
	out, err := g.cfg.Keys.SealSecrets(clear, to)
	return &out, err
}

// forget removes the secrets of a job that has ended.
func (g *Gateway) forget(ctx context.Context, e events.Event) {
	switch e.Fact.(type) {
	case events.JobEnded, events.JobClosed: // twice, should the first not have been possible
	default:
		return
	}
	job := events.JobID(e.Aggregate.ID)
	j, known := g.cfg.Book.Cached(job)
	if g.cfg.Secrets == nil || known && len(j.Spec.Secrets) == 0 {
		return
	}
	if err := g.cfg.Secrets.Remove(ctx, job); err != nil {
		g.cfg.Logger.Warn("secrets of an ended job not removed", zap.String("job", string(job)), zap.Error(err))
	}
}
