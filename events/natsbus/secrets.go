package natsbus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
)

// curve is the key that people seal the secrets of their jobs to. It follows
// from the operator's keys, so that every gateway has it and no restart loses it.
func (o *Operator) curve() (nkeys.KeyPair, error) {
	kp, err := o.derive(nkeys.PrefixByteAccount, "secrets", "")
	if err != nil {
		return nil, fmt.Errorf("deriving the key for secrets: %w", err)
	}
	seed, err := kp.Seed()
	if err != nil {
		return nil, fmt.Errorf("deriving the key for secrets: %w", err)
	}
	_, raw, err := nkeys.DecodeSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("deriving the key for secrets: %w", err)
	}
	if seed, err = nkeys.EncodeSeed(nkeys.PrefixByteCurve, raw); err != nil {
		return nil, fmt.Errorf("deriving the key for secrets: %w", err)
	}
	return nkeys.FromCurveSeed(seed)
}

// SecretsKey is the public half of the key that secrets are sealed to.
func (o *Operator) SecretsKey() (string, error) {
	kp, err := o.curve()
	if err != nil {
		return "", err
	}
	return kp.PublicKey()
}

// OpenSecrets opens what was sealed to SecretsKey.
func (o *Operator) OpenSecrets(s events.Sealed) ([]byte, error) {
	kp, err := o.curve()
	if err != nil {
		return nil, err
	}
	clear, err := kp.Open(s.Box, s.From)
	if err != nil {
		return nil, fmt.Errorf("opening sealed secrets: %w", err)
	}
	return clear, nil
}

// SealSecrets seals clear for the holder of a public curve key.
func (o *Operator) SealSecrets(clear []byte, to string) (events.Sealed, error) {
	kp, err := o.curve()
	if err != nil {
		return events.Sealed{}, err
	}
	from, err := kp.PublicKey()
	if err != nil {
		return events.Sealed{}, err
	}
	box, err := kp.SealWithRand(clear, to, o.entropy)
	if err != nil {
		return events.Sealed{}, fmt.Errorf("sealing secrets: %w", err)
	}
	return events.Sealed{From: from, Box: box}, nil
}

// Why secrets cannot be kept.
var (
	ErrNoKey        = errors.New("no gateway has said yet which key secrets are sealed to")
	ErrOtherSecrets = errors.New("other secrets are kept for this job")
)

// secretsBucket holds sealed secrets and the key they are sealed to. Only MAIN
// reads it. It is no stream of truth: what is in it can be deleted for good.
const (
	secretsBucket = "sf_secrets"
	secretsKeyKey = "key"
)

// Secrets keeps sealed secrets of jobs until they are removed.
type Secrets struct{ js jetstream.JetStream }

// NewSecrets returns the secrets that are kept on a bus.
func NewSecrets(js jetstream.JetStream) *Secrets { return &Secrets{js} }

func (s *Secrets) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := s.js.KeyValue(ctx, secretsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = s.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: secretsBucket, History: 1, Storage: jetstream.FileStorage})
		if errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = s.js.KeyValue(ctx, secretsBucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening bucket %s: %w", secretsBucket, err)
	}
	return kv, nil
}

// Announce says which key secrets are sealed to. Whoever holds it says so at its start.
func (s *Secrets) Announce(ctx context.Context, key string) error {
	kv, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	have, err := kv.Get(ctx, secretsKeyKey)
	if err == nil && string(have.Value()) == key {
		return nil
	}
	if _, err := kv.PutString(ctx, secretsKeyKey, key); err != nil {
		return fmt.Errorf("announcing the key for secrets: %w", err)
	}
	return nil
}

// Key is what was announced, or ErrNoKey.
func (s *Secrets) Key(ctx context.Context) (string, error) {
	kv, err := s.bucket(ctx)
	if err != nil {
		return "", err
	}
	have, err := kv.Get(ctx, secretsKeyKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", ErrNoKey
	}
	if err != nil {
		return "", fmt.Errorf("reading the key for secrets: %w", err)
	}
	return string(have.Value()), nil
}

// Keep stores what was sealed for a job. Storing the same again changes nothing;
// something else is ErrOtherSecrets: nobody exchanges the secrets of a job.
func (s *Secrets) Keep(ctx context.Context, job events.JobID, sealed events.Sealed) error {
	kv, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	b, err := json.Marshal(sealed)
	if err != nil {
		return err
	}
	_, err = kv.Create(ctx, jobKey(job), b)
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return err
	}
	have, err := kv.Get(ctx, jobKey(job))
	if err != nil {
		return fmt.Errorf("reading the secrets of job %s: %w", job, err)
	}
	if !bytes.Equal(have.Value(), b) {
		return ErrOtherSecrets
	}
	return nil
}

// Sealed returns what is kept for a job, or false.
func (s *Secrets) Sealed(ctx context.Context, job events.JobID) (events.Sealed, bool, error) {
	var out events.Sealed
	kv, err := s.bucket(ctx)
	if err != nil {
		return out, false, err
	}
	have, err := kv.Get(ctx, jobKey(job))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return out, false, nil
	}
	if err == nil {
		err = json.Unmarshal(have.Value(), &out)
	}
	if err != nil {
		return out, false, fmt.Errorf("reading the secrets of job %s: %w", job, err)
	}
	return out, true, nil
}

// Remove forgets the secrets of a job; that there are none is no error.
func (s *Secrets) Remove(ctx context.Context, job events.JobID) error {
	kv, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	if _, err := kv.Get(ctx, jobKey(job)); errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil // and no marker of a removal piles up
	}
	if err := kv.Purge(ctx, jobKey(job)); err != nil {
		return fmt.Errorf("removing the secrets of job %s: %w", job, err)
	}
	return nil
}

func jobKey(job events.JobID) string { return "job." + string(job) }
