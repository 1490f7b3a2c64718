// Package azure keeps checkpoint objects in a container of Azure Blob Storage,
// as block blobs, and signs requests for machines that are to reach it without
// a key.
//
// It links Microsoft's SDK, so only the gateway's program imports it. One
// operation is one request; repeating is a wrapper's work.
//
// The container wants blob versioning and soft delete off: what collection
// removes is billed until they let go of it. With Entra the account needs the
// role Storage Blob Data Contributor on it, and Storage Blob Delegator.
package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// Config says which container, and as whom: either Key or Token.
type Config struct {
	Account   string
	Container string
	Prefix    string // of every blob's name, as "spotferry/"; "": none

	Key   string                 // the account's key, in base64: it opens the whole account
	Token azcore.TokenCredential // an identity of Entra: signatures are by a key that lives a day

	Endpoint string       // of the account; "": https://<account>.blob.core.windows.net
	Client   *http.Client // for proxies and certificates; nil: one with bounds of its own

	Now func() time.Time // the wall clock that Access.Until is on; nil means time.Now
}

const (
	// maxPut bounds the memory of one Put, which is one Put Blob and never a list
	// of blocks: blocks of a writer that died would hold up others for a week.
	maxPut = 64 << 20
	// nameRoom is what a blob name's limit of 1024 characters leaves beside an object name.
	nameRoom = 1024 - 512
)

// Validate reports what is missing or out of range.
func (c Config) Validate() error {
	for _, f := range [][2]string{{"account", c.Account}, {"container", c.Container}} {
		if f[1] == "" || strings.ContainsAny(f[1], "/?#.:") {
			return fmt.Errorf("azure store: %s %q is not a bare name", f[0], f[1])
		}
	}
	if (c.Key == "") == (c.Token == nil) {
		return errors.New("azure store: give the account's key or an Entra identity, and not both")
	}
	if len(c.Prefix) > nameRoom || strings.HasPrefix(c.Prefix, "/") {
		return fmt.Errorf("azure store: prefix %.40q begins with a slash or is longer than %d bytes", c.Prefix, nameRoom)
	}
	u, err := url.Parse(c.endpoint())
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("azure store: endpoint %q is not an http or https URL", c.Endpoint)
	}
	if c.Token != nil && u.Scheme != "https" {
		return fmt.Errorf("azure store: endpoint %q would see an identity's tokens in the clear: use https", c.Endpoint)
	}
	return nil
}

func (c Config) endpoint() string {
	if c.Endpoint == "" {
		return "https://" + c.Account + ".blob.core.windows.net"
	}
	return strings.TrimSuffix(c.Endpoint, "/")
}

// Store is a checkpoint.Store and checkpoint.Signer.
type Store struct {
	container *container.Client
	name      string // of the container
	prefix    string
	where     string // the container's URL
	protocol  string
	signer    signer
	now       func() time.Time
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Signer = (*Store)(nil)
)

// Open sends nothing.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Client == nil {
		transport := wire.Transport()
		transport.ResponseHeaderTimeout = time.Minute
		cfg.Client = &http.Client{Transport: transport}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	account, signer, err := identify(cfg, policy.ClientOptions{
		Retry:     policy.RetryOptions{MaxRetries: -1}, // none
		Telemetry: policy.TelemetryOptions{Disabled: true},
		Transport: cfg.Client,
	})
	if err != nil {
		return nil, fmt.Errorf("azure store: %w", err)
	}
	where := cfg.endpoint() + "/" + cfg.Container
	protocol, _, _ := strings.Cut(where, ":")
	return &Store{container: account.NewContainerClient(cfg.Container), name: cfg.Container, prefix: cfg.Prefix,
		where: where, protocol: protocol, signer: signer, now: cfg.Now}, nil
}

// identify returns the account, as whoever is configured, and what signs for it.
func identify(cfg Config, options policy.ClientOptions) (*service.Client, signer, error) {
	o := &service.ClientOptions{ClientOptions: options}
	if cfg.Key != "" {
		key, err := blob.NewSharedKeyCredential(cfg.Account, cfg.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("the account's key is not base64: %w", err)
		}
		account, err := service.NewClientWithSharedKeyCredential(cfg.endpoint(), key, o)
		return account, byKey(key), err
	}
	account, err := service.NewClient(cfg.endpoint(), cfg.Token, o)
	if err != nil {
		return nil, nil, err
	}
	return account, newDelegate(account, cfg.Now).sign, nil
}

// blob checks a name and returns its client.
func (s *Store) blob(ctx context.Context, doing, name string) (*blockblob.Client, error) {
	if !checkpoint.ObjectName(name) {
		return nil, fmt.Errorf("%s %q: not an object name", doing, name)
	}
	return s.container.NewBlockBlobClient(s.prefix + name), ctx.Err()
}
