package wire

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// Trip is one call that a vendor's client makes: how much of an answer it takes,
// and whether it was sent.
type Trip struct {
	limit int64
	sent  atomic.Bool
}

// Sent says whether the call may have reached the seller.
func (t *Trip) Sent() bool { return t.sent.Load() }

type tripKey struct{}

// Embark starts a call that takes an answer of up to limit bytes.
func Embark(ctx context.Context, limit int64) (context.Context, *Trip) {
	t := &Trip{limit: limit}
	return context.WithValue(ctx, tripKey{}, t), t
}

// Bounds is what a vendor's client sends through: it bounds answers and notes which
// calls were sent. It belongs below the credentials, so that asking for a token is
// not taken for the call itself.
type Bounds struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b Bounds) RoundTrip(r *http.Request) (*http.Response, error) {
	t, ok := r.Context().Value(tripKey{}).(*Trip)
	if !ok {
		t = &Trip{limit: Most}
	}
	trace := &httptrace.ClientTrace{WroteHeaders: func() { t.sent.Store(true) }}
	answer, err := b.Next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, err
	}
	t.sent.Store(true)
	answer.Body = &bounded{answer.Body, t.limit}
	return answer, nil
}

// bounded is a body that fails with ErrTooLong rather than go on for ever.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Stay is the CheckRedirect of clients that follow none, which would take the
// credentials along.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Clip keeps a stranger's words short.
func Clip(s string) string {
	const most = 400
	s = strings.ToValidUTF8(s, "?")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
