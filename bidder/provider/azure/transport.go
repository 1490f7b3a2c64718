package azure

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// road goes to one host only: links to pages and operations come from answers, and
// the credentials would go along.
type road struct {
	next wire.Bounds
	to   *url.URL
}

func carrier(base http.RoundTripper, to *url.URL) *http.Client {
	return &http.Client{Transport: road{wire.Bounds{Next: base}, to}, CheckRedirect: wire.Stay}
}

var errForeign = errors.New("an answer links to another host")

// RoundTrip implements http.RoundTripper.
func (w road) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != w.to.Host || r.URL.Scheme != w.to.Scheme {
		return nil, fmt.Errorf("%w: %q", errForeign, wire.Clip(r.URL.Host))
	}
	// Without it the transport does not send a creation a second time by itself.
	r = r.Clone(r.Context())
	r.GetBody = nil
	return w.next.RoundTrip(r)
}
