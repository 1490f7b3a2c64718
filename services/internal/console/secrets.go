package console

import (
	"context"
	"errors"
	"slices"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
)

// secrets keeps sealed secrets. The console cannot open what it hands in.
type secrets interface {
	// Key is the public key that secrets are sealed to.
	Key(ctx context.Context) (string, error)
	// Keep stores what was sealed for a job. The same again changes nothing.
	Keep(ctx context.Context, job events.JobID, sealed events.Sealed) error
}

// SecretsKey is the public key that secrets are sealed to.
type SecretsKey struct {
	Key string `json:"key"`
}

// maxSealed is the most bytes of one job's sealed secrets.
const maxSealed = 400 << 10

var keepsNoSecrets = &Problem{Code: "unavailable", Message: "secrets cannot be taken here", Remedy: "start the system: its gateway says which key they are sealed to"}

func (s *Server) secretsKey(ctx context.Context) (SecretsKey, error) {
	if s.cfg.Secrets == nil {
		return SecretsKey{}, keepsNoSecrets
	}
	key, err := s.cfg.Secrets.Key(ctx)
	if errors.Is(err, natsbus.ErrNoKey) {
		return SecretsKey{}, keepsNoSecrets
	}
	return SecretsKey{key}, err
}

// keepSecrets stores the secrets of a job that is about to be submitted, so that
// no machine of it can come to join without them.
func (s *Server) keepSecrets(ctx context.Context, r SubmitRequest) error {
	if len(r.Spec.Secrets) == 0 && r.Secrets == nil {
		return nil
	}
	switch {
	case r.Secrets == nil || len(r.Secrets.Box) == 0:
		return &Problem{Code: "invalid", Message: "the spec names secrets, and none are sealed with it", Remedy: "submit it with 'spotferry run'"}
	case len(r.Spec.Secrets) == 0 || len(r.Secrets.Box) > maxSealed || !slices.IsSorted(r.Spec.Secrets):
		return &Problem{Code: "invalid", Message: "the sealed secrets are too long, or the spec does not name them in order", Remedy: "submit it with 'spotferry run'"}
	case s.cfg.Secrets == nil:
		return keepsNoSecrets
	}
	j, err := s.cfg.Book.Job(ctx, r.ID)
	switch {
	case err == nil && (j.Over() || j.Aggregate.Org != s.cfg.Org):
		return nil // a repetition that came late, or another's job: nothing is kept for it, and Submit judges it
	case err != nil && !errors.Is(err, failover.ErrNoJob):
		return err
	}
	err = s.cfg.Secrets.Keep(ctx, r.ID, *r.Secrets)
	if errors.Is(err, natsbus.ErrOtherSecrets) {
		return &Problem{Code: "conflict", Message: "other secrets are kept for job " + string(r.ID), Remedy: "submit it as a new job"}
	}
	return err
}
