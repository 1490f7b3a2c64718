package azure

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/named"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// Client is a subscription as a seller. It is safe for concurrent use.
type Client struct {
	cfg     Config
	vms     *armcompute.VirtualMachinesClient
	skus    *armcompute.ResourceSKUsClient
	prices  *wire.API
	names   named.Names
	catalog *catalog
	memory  *memory
}

var _ provider.Provider = (*Client)(nil)

// New builds a client. It calls nothing.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	endpoint, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("azure: Endpoint: %w", err)
	}
	base := http.RoundTripper(http.DefaultTransport.(*http.Transport).Clone())
	if cfg.Client != nil && cfg.Client.Transport != nil {
		base = cfg.Client.Transport
	}
	// One attempt for every call: repeating is for whoever decides. Credentials go over
	// plain HTTP only where the endpoint was given so.
	options := &arm.ClientOptions{DisableRPRegistration: true}
	options.Retry = policy.RetryOptions{MaxRetries: -1}
	options.Telemetry = policy.TelemetryOptions{ApplicationID: "spotferry"}
	options.InsecureAllowCredentialWithHTTP = endpoint.Scheme == "http"
	options.Cloud = cloud.AzurePublic
	options.Cloud.Services = map[cloud.ServiceName]cloud.ServiceConfiguration{
		cloud.ResourceManager: {Audience: theEndpoint, Endpoint: cfg.Endpoint},
	}
	options.Transport = carrier(base, endpoint)
	c := &Client{cfg: cfg, names: named.New(cfg.Mark, maxName, machineName), catalog: newCatalog(), memory: newMemory()}
	if c.vms, err = armcompute.NewVirtualMachinesClient(cfg.Subscription, cfg.Credential, options); err != nil {
		return nil, fmt.Errorf("azure: Endpoint: %w", err)
	}
	if c.skus, err = armcompute.NewResourceSKUsClient(cfg.Subscription, cfg.Credential, options); err != nil {
		return nil, fmt.Errorf("azure: Endpoint: %w", err)
	}
	if c.prices, err = wire.NewAPI(cfg.Prices, "", &http.Client{Transport: base}); err != nil {
		return nil, fmt.Errorf("azure: Prices: %w", err)
	}
	return c, nil
}

// maxPages is more pages than any list has.
const maxPages = 10_000

// errRound says that a list never ends.
var errRound = errors.New("the list's pages lead back to one that was read already")

// pages reads a list to its end. read returns the link to the page after.
func pages(read func(link string) (string, error)) error {
	seen := map[string]bool{}
	for link := ""; ; {
		next, err := read(link)
		if err != nil || next == "" {
			return err
		}
		if seen[next] || len(seen) >= maxPages {
			return errRound
		}
		seen[next], link = true, next
	}
}
