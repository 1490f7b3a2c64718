package gcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/named"
)

// Client is a project as a seller. It is safe for concurrent use.
type Client struct {
	cfg     Config
	compute *compute.Service
	billing *cloudbilling.APIService
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
	http, err := carrier(cfg)
	if err != nil {
		return nil, err
	}
	// Neither service repeats a call by itself. The client has the credentials,
	// so that the library looks for none.
	ctx := context.Background() // outlives the caller: it belongs to the services
	c := &Client{cfg: cfg, names: named.New(cfg.Mark, maxName, plainName), catalog: newCatalog(), memory: newMemory()}
	c.compute, err = compute.NewService(ctx, option.WithHTTPClient(http), option.WithEndpoint(slashed(cfg.Compute)))
	if err != nil {
		return nil, fmt.Errorf("gcp: Compute %q: %w", cfg.Compute, err)
	}
	c.billing, err = cloudbilling.NewService(ctx, option.WithHTTPClient(http), option.WithEndpoint(slashed(cfg.Billing)))
	if err != nil {
		return nil, fmt.Errorf("gcp: Billing %q: %w", cfg.Billing, err)
	}
	return c, nil
}

func slashed(endpoint string) string { return strings.TrimSuffix(endpoint, "/") + "/" }

// partial asks for what there is when a zone does not answer, and for its name.
var partial = googleapi.QueryParameter("returnPartialSuccess", "true")

// maxPages is more pages than any list has.
const maxPages = 10_000

// errRound says that a list never ends.
var errRound = errors.New("the list's pages lead back to one that was read already")

// pages reads a list to its end. read returns the token of the page after.
func pages(read func(token string) (string, error)) error {
	seen := map[string]bool{}
	for token := ""; ; {
		next, err := read(token)
		if err != nil || next == "" {
			return err
		}
		if seen[next] || len(seen) >= maxPages {
			return errRound
		}
		seen[next], token = true, next
	}
}
