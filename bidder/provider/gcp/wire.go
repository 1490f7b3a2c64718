package gcp

import (
	"fmt"
	"net/http"

	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"
	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// bearer sends a token that somebody else keeps fresh.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// carrier is the HTTP client that both APIs are called with. It follows no
// redirection, which would take the token along.
func carrier(cfg Config) (*http.Client, error) {
	base := http.RoundTripper(http.DefaultTransport.(*http.Transport).Clone())
	if cfg.Client != nil && cfg.Client.Transport != nil {
		base = cfg.Client.Transport
	}
	client := &http.Client{
		Transport:     wire.Bounds{Next: base},
		CheckRedirect: wire.Stay,
	}
	if cfg.AccessToken != "" {
		client.Transport = bearer{cfg.AccessToken, client.Transport}
		return client, nil
	}
	creds, err := credentials.DetectDefault(&credentials.DetectOptions{
		Scopes: []string{compute.ComputeScope, cloudbilling.CloudBillingReadonlyScope},
	})
	if err != nil {
		return nil, fmt.Errorf("gcp: no credentials: set GOOGLE_APPLICATION_CREDENTIALS or log in with gcloud: %w", err)
	}
	if err := httptransport.AddAuthorizationMiddleware(client, creds); err != nil {
		return nil, fmt.Errorf("gcp: using the credentials: %w", err)
	}
	return client, nil
}
