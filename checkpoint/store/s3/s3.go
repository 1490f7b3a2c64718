package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Config says where the bucket is and who asks.
type Config struct {
	Bucket string
	Prefix string // what object names begin with in the bucket, an object name itself; "" for nothing
	// Endpoint is the service's URL, "https://<account>.r2.cloudflarestorage.com";
	// "" means Amazon's in Region.
	Endpoint string
	Region   string // "" means us-east-1, which services without regions take
	// PathStyle puts the bucket into the path and not into the host name. It is
	// on by itself for an endpoint that is an IP address or has a port.
	PathStyle bool

	// Access and Secret are the keys, Session what goes with temporary ones.
	// Without them the standard chain is asked: AWS_* in the environment, the
	// shared credentials file, and what the machine or its container is given.
	Access, Secret, Session string

	// Unconditional is for a service without conditional writes; see the package
	// comment for what is lost.
	Unconditional bool
	// Checksum sends the CRC32C of every body that can be read twice, so that the
	// service refuses one that was damaged on the way: 0.15 CPU seconds per GB.
	// Over plain HTTP, where nothing else would notice, it is always sent.
	Checksum bool

	Part  int64         // objects larger than this are put in parts of it; 0 means 64 MiB
	Stall time.Duration // how long a transfer may stand still; 0 means [wire.Stall]
	Now   func() time.Time

	Transport http.RoundTripper // nil means [wire.Transport]'s
}

// Validate reports what is missing or out of range.
func (c Config) Validate() error {
	switch {
	case c.Bucket == "":
		return errors.New("s3 store: no bucket")
	case c.Prefix != "" && !checkpoint.ObjectName(c.Prefix):
		return fmt.Errorf("s3 store: prefix %q is not an object name: no slash at either end, no part that begins with a dot", c.Prefix)
	case (c.Access == "") != (c.Secret == ""):
		return errors.New("s3 store: access key and secret key: give both, or neither for the standard chain")
	case c.Part != 0 && (c.Part < 5<<20 || c.Part > 5<<30):
		return fmt.Errorf("s3 store: parts of %d bytes: the protocol wants 5 MiB to 5 GiB", c.Part)
	case c.Stall < 0:
		return fmt.Errorf("s3 store: a stall of %v", c.Stall)
	}
	_, err := c.endpoint()
	return err
}

func (c Config) endpoint() (*url.URL, error) {
	if c.Endpoint == "" {
		return &url.URL{Scheme: "https", Host: "s3." + c.region() + ".amazonaws.com"}, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, fmt.Errorf("s3 store: endpoint %q is not http:// or https:// with a host and nothing behind", c.Endpoint)
	}
	return u, nil
}

func (c Config) region() string {
	if c.Region == "" {
		return "us-east-1"
	}
	return c.Region
}

// Store is a checkpoint.Store and a checkpoint.Signer in a bucket.
type Store struct {
	cfg    Config
	prefix string // with its slash
	core   minio.Core
	secure bool
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Signer = (*Store)(nil)
)

// Open returns the store. It asks nothing of the service yet; see [Store.Probe].
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	where, err := cfg.endpoint()
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, secure: where.Scheme == "https"}
	if cfg.Prefix != "" {
		s.prefix = cfg.Prefix + "/"
	}
	opts := &minio.Options{
		Creds:        cfg.credentials(),
		Secure:       s.secure,
		Region:       cfg.region(), // known, or it is asked for
		Transport:    transport{cfg.Transport},
		BucketLookup: minio.BucketLookupAuto,
		MaxRetries:   1, // none
	}
	if cfg.PathStyle || where.Port() != "" {
		opts.BucketLookup = minio.BucketLookupPath
	}
	client, err := minio.New(where.Host, opts)
	if err != nil {
		return nil, fmt.Errorf("s3 store: %w", err)
	}
	s.core = minio.Core{Client: client}
	return s, nil
}

func (c Config) withDefaults() Config {
	if c.Part == 0 {
		c.Part = 64 << 20
	}
	if c.Stall == 0 {
		c.Stall = wire.Stall
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Transport == nil {
		c.Transport = wire.Transport()
	}
	return c
}

func (c Config) credentials() *credentials.Credentials {
	if c.Access != "" {
		return credentials.NewStaticV4(c.Access, c.Secret, c.Session)
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 10 * time.Second}},
	})
}

// Close releases the connections that are idle.
func (s *Store) Close() error {
	if t, ok := s.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// begin checks what every call checks, and begins to watch it.
func (s *Store) begin(ctx context.Context, doing, name string) (context.Context, *call, error) {
	if !checkpoint.ObjectName(name) {
		return nil, nil, fmt.Errorf("%s %q: not an object name", doing, name)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	watched, w := wire.NewWatch(ctx, s.cfg.Stall)
	c := &call{watch: w, doing: doing + " " + name}
	c.ctx = context.WithValue(watched, callKey{}, c)
	return c.ctx, c, nil
}
