package gcs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// once lets one operation send one request. The SDK can be told not to repeat
// requests, but goes on by itself with a new one whenever a body breaks, for as
// long as new ones are accepted.
type once struct{ next http.RoundTripper }

type attemptKey struct{}

// attempt is the one request of an operation.
type attempt struct {
	mu   sync.Mutex
	sent bool
	err  error // what broke its body
}

func withAttempt(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, new(attempt))
}

var errOnce = errors.New("the request was already sent once")

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	a, ok := r.Context().Value(attemptKey{}).(*attempt)
	if !ok { // one page of a list
		return o.next.RoundTrip(r)
	}
	if err := a.send(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper's duty; nothing was read of it
		}
		return nil, err
	}
	resp, err := o.next.RoundTrip(r)
	if err == nil {
		resp.Body = &watched{resp.Body, a}
	}
	return resp, err
}

func (a *attempt) send() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.sent {
		a.sent = true
		return nil
	}
	if a.err != nil {
		return a.err
	}
	return errOnce
}

// watched keeps what broke a body, for whoever asks for the rest.
type watched struct {
	io.ReadCloser
	attempt *attempt
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.attempt.mu.Lock()
		w.attempt.err = err
		w.attempt.mu.Unlock()
	}
	return n, err
}
