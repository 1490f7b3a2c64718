// Package nats keeps checkpoint objects on the bus, in one JetStream object
// bucket: the store of an installation that has no other. It is for small
// checkpoints, those of adapters: a bucket holds 1.5 GiB unless told otherwise,
// every object crosses the bus, and on the embedded one each MiB waits for the
// disk.
//
// Objects lie in the bucket as NATS' own object store lays them out, so that
// `nats object ls` and `nats object get` work on it: chunks of a MiB under a
// subject of their own, then one message with the object's description under its
// name. That message makes the object exist. Here it is published with the
// expectation that the subject has none, which the stream decides alone: of any
// number of writers one wins. NATS' own client has no such put; it would
// overwrite. The description also lists the chunks' sequences, so that a range
// is read by asking for just the chunks it lies in.
//
// Descriptions are read from the stream's leader, so nothing is late.
package nats

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/spotferry/spotferry/checkpoint"
)

// Config describes the bucket. It is made if it is missing.
type Config struct {
	Bucket string // "": DefaultBucket

	// MaxBytes bounds the bucket, and is reserved on the bus. 0: DefaultMaxBytes,
	// which fits beside the other streams of an embedded bus. At most 2 GiB:
	// what needs more wants a directory or a bucket of a cloud.
	MaxBytes int64
	Replicas int // 0: 1

	// StaleAfter is how old the chunks of an object without a description are when
	// Sweep takes them for left over from a writer that died. 0: an hour. A Put
	// gives up after half of it, so what is swept can never be described any more.
	StaleAfter time.Duration

	Now func() time.Time // the wall clock, which the bus shares; nil means time.Now
	ID  func() string    // names chunks, uniquely; nil means NATS' own ids
}

// Defaults and bounds.
const (
	DefaultBucket   = "checkpoints"
	DefaultMaxBytes = 1536 << 20
	mostBytes       = 2 << 30
	maxObject       = 1 << 30 // its description has to fit a message
	chunkSize       = 1 << 20
	staleAfter      = time.Hour
	patience        = 30 * time.Second // for one answer of the bus
)

// Validate reports what is out of range.
func (c Config) Validate() error {
	switch {
	case c.MaxBytes < 0 || c.MaxBytes > mostBytes:
		return fmt.Errorf("nats store: max bytes %d is not between 0 and %d: use a directory or a cloud's bucket for more", c.MaxBytes, mostBytes)
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("nats store: %d replicas, at most 5", c.Replicas)
	case c.StaleAfter < 0 || c.StaleAfter > 0 && c.StaleAfter < 4*patience:
		return fmt.Errorf("nats store: stale after %v is shorter than a put may take, %v", c.StaleAfter, 4*patience)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Bucket == "" {
		c.Bucket = DefaultBucket
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.StaleAfter == 0 {
		c.StaleAfter = staleAfter
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.ID == nil {
		c.ID = nuid.Next
	}
	return c
}

// Store is a checkpoint.Store on the bus.
type Store struct {
	cfg    Config
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	chunk  int
}

var _ checkpoint.Store = (*Store)(nil)

// Open finds or makes the bucket. The connection stays the caller's.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience), jetstream.WithPublishAsyncTimeout(patience))
	if err != nil {
		return nil, fmt.Errorf("nats store: %w", err)
	}
	s := &Store{cfg: cfg, nc: nc, js: js, chunk: int(min(chunkSize, nc.MaxPayload()))}
	if s.stream, err = bucket(ctx, js, cfg); err != nil {
		return nil, fmt.Errorf("nats store: bucket %s: %w", cfg.Bucket, meaning(ctx, err))
	}
	return s, nil
}

// bucket returns the stream under the bucket.
func bucket(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, "OBJ_"+cfg.Bucket)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return stream, err
	}
	_, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: cfg.Bucket, Description: "checkpoints",
		MaxBytes: cfg.MaxBytes, Replicas: cfg.Replicas, Storage: jetstream.FileStorage})
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) { // made by another at the same time
		return nil, err
	}
	return js.Stream(ctx, "OBJ_"+cfg.Bucket)
}

// Close ends what the store has going on the connection.
func (s *Store) Close() { s.js.CleanupPublisher() }

func (s *Store) named(name string) string {
	return "$O." + s.cfg.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

func (s *Store) chunks(id string) string { return "$O." + s.cfg.Bucket + ".C." + id }

func (s *Store) check(ctx context.Context, doing, name string) error {
	if !checkpoint.ObjectName(name) {
		return fmt.Errorf("%s %q: not an object name", doing, name)
	}
	return ctx.Err()
}

// stored is a message of the stream, as its leader tells it.
type stored struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// errNone: the stream has no such message.
var errNone = errors.New("no message")

// leader asks the stream's leader for one message. jetstream itself would ask
// any replica of a bucket, and those may be behind.
func (s *Store) leader(ctx context.Context, request string) (stored, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := s.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET.OBJ_"+s.cfg.Bucket, []byte(request))
	if err != nil {
		return stored{}, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *stored             `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return stored{}, fmt.Errorf("the bus answered what is not JSON: %w", err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return stored{}, errNone
	case answer.Error != nil:
		return stored{}, answer.Error
	case answer.Message == nil:
		return stored{}, errors.New("the bus answered without a message")
	}
	return *answer.Message, nil
}

// purge removes the messages of a subject.
func (s *Store) purge(ctx context.Context, subject string, more ...jetstream.StreamPurgeOpt) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.stream.Purge(ctx, append(more, jetstream.WithPurgeSubject(subject))...)
}
