// Package gcs keeps checkpoint objects in a bucket of Google Cloud Storage, and
// signs requests for machines that are to reach it without a key.
//
// It links Google's SDK, so only the gateway's program imports it. It speaks
// JSON over HTTP, never gRPC, and asks once: one operation is one request, and
// repeating is a wrapper's work.
//
// The bucket wants uniform access, no object versioning, and its soft delete
// (seven days unless told otherwise) off: what collection removes is billed
// until then. The account needs storage.objects.{create,get,list,delete}.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"

	"github.com/spotferry/spotferry/checkpoint"
)

// Config says which bucket, and as whom.
type Config struct {
	Bucket string
	Prefix string // of every object's name in the bucket, as "spotferry/"; "": none

	// Credentials is a file with a service account's key, or another of Google's
	// credential files; "": the application default credentials. Without a key in
	// it, each signature is a call to Google's IAM (about 50 ms), and the account
	// needs iam.serviceAccounts.signBlob on itself.
	Credentials string

	// Endpoint replaces https://storage.googleapis.com. Credentials go into
	// signatures only, and no token is sent, where it is not https.
	Endpoint string

	Now func() time.Time // the wall clock that Access.Until is on; nil means time.Now
}

const (
	endpoint = "https://storage.googleapis.com"
	// maxPut bounds the memory of one Put. Machines, which put the bulk, do so by
	// signed requests and are bounded by the size that was signed.
	maxPut = 64 << 20
	// nameRoom is what a bucket's limit of 1024 bytes leaves beside an object name.
	nameRoom = 1024 - 512
)

// Validate reports what is missing or out of range.
func (c Config) Validate() error {
	if c.Bucket == "" {
		return errors.New("gcs store: no bucket")
	}
	if strings.ContainsAny(c.Bucket, "/?#") {
		return fmt.Errorf("gcs store: bucket %q has a character that bucket names do not have: give the bare name", c.Bucket)
	}
	if len(c.Prefix) > nameRoom || strings.HasPrefix(c.Prefix, "/") {
		return fmt.Errorf("gcs store: prefix %.40q begins with a slash or is longer than %d bytes", c.Prefix, nameRoom)
	}
	if c.Endpoint == "" {
		return nil
	}
	if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("gcs store: endpoint %q is not an http or https URL", c.Endpoint)
	}
	return nil
}

// Store is a checkpoint.Store and checkpoint.Signer.
type Store struct {
	bucket *storage.BucketHandle
	client *storage.Client
	name   string // of the bucket
	prefix string
	host   *url.URL
	signer signer
	now    func() time.Time
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Signer = (*Store)(nil)
)

// Open reads the credentials. It sends nothing to the bucket.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = endpoint
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	host, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("gcs store: %w", err)
	}
	transport, signer, err := identify(ctx, cfg.Credentials, host.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("gcs store: %w", err)
	}
	client, err := storage.NewClient(ctx, storage.WithJSONReads(), // XML's errors the SDK does not pass on
		option.WithHTTPClient(&http.Client{Transport: once{transport}}),
		option.WithEndpoint(strings.TrimSuffix(cfg.Endpoint, "/")+"/storage/v1/"))
	if err != nil {
		return nil, fmt.Errorf("gcs store: %w", err)
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	return &Store{bucket: client.Bucket(cfg.Bucket), client: client, name: cfg.Bucket, prefix: cfg.Prefix,
		host: host, signer: signer, now: cfg.Now}, nil
}

// Close releases connections.
func (s *Store) Close() error { return s.client.Close() }

// object checks a name and returns its handle, and a context good for one request.
func (s *Store) object(ctx context.Context, doing, name string) (context.Context, *storage.ObjectHandle, error) {
	if !checkpoint.ObjectName(name) {
		return nil, nil, fmt.Errorf("%s %q: not an object name", doing, name)
	}
	return withAttempt(ctx), s.bucket.Object(s.prefix + name), ctx.Err()
}
