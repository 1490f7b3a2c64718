package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// errChanged: a file is not any more what the list said. Listing again helps.
var errChanged = errors.New("it changed while it was fetched")

// client gets files over plain HTTP.
type client struct {
	http  *http.Client
	stall time.Duration
}

func newClient(cfg OpenConfig) client {
	return client{stall: cfg.Stall, http: &http.Client{Transport: cfg.Transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("it leads from one address to another without end")
		}
		if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return refusal("use an address that stays with https", "%s leads to http", via[0].URL.Redacted())
		}
		if next.URL.Host != via[0].URL.Host {
			next.Header.Del("Authorization")
		}
		return nil
	}}}
}

// answer is a response whose transfer is watched.
type answer struct {
	*http.Response
	ctx   context.Context
	watch *wire.Watch
	doing string
}

// get sends a request. An answer that is not 2xx is an error; what of those is
// good in a place is in also.
func (c client) get(ctx context.Context, doing, url string, header map[string]string, also ...int) (*answer, error) {
	watched, w := wire.NewWatch(ctx, c.stall)
	req, err := http.NewRequestWithContext(watched, http.MethodGet, url, nil)
	if err != nil {
		w.End()
		return nil, refusal("correct the address", "%s: %v", doing, wire.Broken(err))
	}
	for k, v := range header {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	req.Header.Set("User-Agent", "spotferry")
	resp, err := c.http.Do(req)
	if err != nil {
		defer w.End()
		if r, ok := errors.AsType[*Refusal](err); ok {
			return nil, r
		}
		return nil, fmt.Errorf("%s: %w", doing, wire.Broken(w.Meaning(watched, err)))
	}
	if resp.StatusCode/100 != 2 {
		for _, code := range also {
			if resp.StatusCode == code {
				return &answer{resp, watched, w, doing}, nil
			}
		}
		defer w.End()
		defer resp.Body.Close()
		return nil, meaning(doing, wire.Answer(resp))
	}
	return &answer{resp, watched, w, doing}, nil
}

// close leaves an answer without reading it.
func (a *answer) close() {
	a.watch.End()
	_ = a.Body.Close()
}

// object reads an answer to its end, which is after n bytes; n < 0: wherever that is.
func (a *answer) object(n int64) io.ReadCloser {
	if n >= 0 {
		return wire.NewObject(a.ctx, a.watch, a.Body, n, a.doing)
	}
	return &stream{a}
}

// stream is a body of unknown length.
type stream struct{ *answer }

func (s *stream) Read(p []byte) (int, error) {
	s.watch.Moved()
	n, err := s.Body.Read(p)
	s.watch.Rest()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s: %w", s.doing, wire.Broken(s.watch.Meaning(s.ctx, err)))
	}
	return n, err
}

func (s *stream) Close() error {
	s.close()
	return nil
}

// meaning makes of an answer a refusal, a change, or trouble that may pass.
func meaning(doing string, e *wire.Error) error {
	switch {
	case errors.Is(e.Kind, checkpoint.ErrNotFound):
		return refusal("correct the name, or give the job the rights to see it", "%s: there is no such thing (%d)", doing, e.Status)
	case errors.Is(e.Kind, checkpoint.ErrExists), errors.Is(e.Kind, checkpoint.ErrCorrupt): // 412 and 416: not the file that was listed
		return fmt.Errorf("%s: %w", doing, errChanged)
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		e.Kind, e.Remedy = nil, ""
		return refusal("give the job credentials that may read it, as secrets", "%s: %v", doing, e)
	case e.Kind != nil:
		what := *e
		what.Kind, what.Remedy = nil, ""
		return refusal(e.Remedy, "%s: %v", doing, &what)
	}
	return fmt.Errorf("%s: %w", doing, e)
}

// part opens n bytes of a file from off; all of it when that is the whole or its
// size is unknown.
func (c client) part(ctx context.Context, doing, url string, header map[string]string, f File, off, n int64) (io.ReadCloser, *answer, error) {
	ranged := n >= 0 && (off > 0 || n < f.Size)
	if ranged {
		more := map[string]string{"Range": span(off, n)}
		for k, v := range header {
			more[k] = v
		}
		header = more
	}
	a, err := c.get(ctx, doing, url, header)
	if err != nil {
		return nil, nil, err
	}
	if err := a.fits(f, ranged, off, n); err != nil {
		a.close()
		return nil, nil, fmt.Errorf("%s: %w", doing, err)
	}
	return a.object(n), a, nil
}

func (a *answer) fits(f File, ranged bool, off, n int64) error {
	if f.mark != "" && mark(a.Header) != f.mark {
		return errChanged
	}
	if ranged {
		if a.StatusCode != http.StatusPartialContent {
			return fmt.Errorf("asked for a part, the answer is %s", a.Status)
		}
		return wire.Span(a.Header.Get("Content-Range"), off, n)
	}
	if n >= 0 && a.ContentLength >= 0 && a.ContentLength != n {
		return errChanged
	}
	return nil
}

// mark is what tells one content of an address from the next: a strong ETag, or
// a date. A weak ETag says that the contents mean the same, not that they are.
func mark(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// decode reads a JSON answer of at most 64 MiB, and returns the header.
func (c client) decode(ctx context.Context, doing, url string, header map[string]string, into any) (http.Header, error) {
	a, err := c.get(ctx, doing, url, header)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := json.NewDecoder(io.LimitReader(a.object(-1), 64<<20)).Decode(into); err != nil {
		return nil, fmt.Errorf("%s: the answer: %w", doing, wire.Broken(err))
	}
	return a.Header, nil
}

// total is the size in a Content-Range, or -1.
func total(contentRange string) int64 {
	_, size, _ := strings.Cut(contentRange, "/")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
