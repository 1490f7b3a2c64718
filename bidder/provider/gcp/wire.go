package gcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"
	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/compute/v1"
)

// The most that an answer may have. A page of prices has thousands of rows.
const (
	maxAnswer = 8 << 20
	maxPrices = 64 << 20
)

// trip is one call: how much of an answer it takes, and whether it was sent.
type trip struct {
	limit int64
	sent  atomic.Bool
}

type tripKey struct{}

// embark starts a call that takes an answer of up to limit bytes.
func embark(ctx context.Context, limit int64) (context.Context, *trip) {
	t := &trip{limit: limit}
	return context.WithValue(ctx, tripKey{}, t), t
}

// wire bounds answers and notes which calls were sent. It is below the
// credentials, so that asking for a token is not taken for the call itself.
type wire struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	t, ok := r.Context().Value(tripKey{}).(*trip)
	if !ok {
		t = &trip{limit: maxAnswer}
	}
	trace := &httptrace.ClientTrace{WroteHeaders: func() { t.sent.Store(true) }}
	answer, err := w.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, err
	}
	t.sent.Store(true)
	answer.Body = &bounded{answer.Body, t.limit}
	return answer, nil
}

var errTooLong = errors.New("the answer is longer than any answer can be")

// bounded is a body that fails rather than go on for ever.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

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
		Transport:     wire{base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
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
