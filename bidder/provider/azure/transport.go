package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// The most that an answer may have. A page of sizes has thousands of rows.
const (
	maxAnswer = 8 << 20
	maxOffers = 64 << 20
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

// road bounds answers, notes which calls were sent, and goes to one host only: links
// to pages and operations come from answers, and the credentials would go along.
type road struct {
	next http.RoundTripper
	to   *url.URL
}

// carrier follows no redirection, which would take the credentials along.
func carrier(base http.RoundTripper, to *url.URL) *http.Client {
	return &http.Client{
		Transport:     road{base, to},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errForeign = errors.New("an answer links to another host")

// RoundTrip implements http.RoundTripper.
func (w road) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != w.to.Host || r.URL.Scheme != w.to.Scheme {
		return nil, fmt.Errorf("%w: %q", errForeign, clip(r.URL.Host))
	}
	t, ok := r.Context().Value(tripKey{}).(*trip)
	if !ok {
		t = &trip{limit: maxAnswer}
	}
	// Without it the transport does not send a creation a second time by itself.
	r = r.Clone(r.Context())
	r.GetBody = nil
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

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
