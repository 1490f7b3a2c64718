package plane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// accounts mints with credentials that outlive the silence limit twice over.
type accounts struct {
	*natsbus.Operator
	pushed *natsbus.Accounts
	now    func() time.Time
	timers events.Timers
}

func (a accounts) AddJob(ctx context.Context, job events.JobID) error {
	return a.pushed.AddJob(ctx, job)
}

func (a accounts) DropJob(ctx context.Context, job events.JobID) error {
	return a.pushed.DropJob(ctx, job)
}

func (a accounts) Revoke(ctx context.Context, job events.JobID, key string) error {
	return a.pushed.Revoke(ctx, job, key)
}

// agentLife is how long an agent's credential is good. It has to outlast any
// absence that its machine survives; the fence, not the expiry, ends it.
const agentLife = 30 * 24 * time.Hour

func (a accounts) User(job events.JobID, epoch int, key string) (string, error) {
	return a.Operator.User(job, epoch, key, natsbus.Validity{From: a.now(), To: a.now().Add(agentLife)})
}

func (a accounts) Bootstrap(job events.JobID, epoch int, lease events.LeaseID) (string, error) {
	return a.Operator.Bootstrap(job, epoch, lease, natsbus.Validity{From: a.now(), To: a.now().Add(max(2*a.timers.Boot, 2*a.timers.Silence))})
}

// vault keeps bootstrap tokens in a bucket that only MAIN can read.
type vault struct {
	js jetstream.JetStream
}

const vaultBucket = "sf_bootstrap"

func (v *vault) Keep(ctx context.Context, key string, value []byte) ([]byte, error) {
	kv, err := v.js.KeyValue(ctx, vaultBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = v.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: vaultBucket, History: 1})
		if errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = v.js.KeyValue(ctx, vaultBucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening bucket %s: %w", vaultBucket, err)
	}
	_, err = kv.Create(ctx, key, value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		have, err := kv.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", key, err)
		}
		return have.Value(), nil
	}
	return value, err
}
