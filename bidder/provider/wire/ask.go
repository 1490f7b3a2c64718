package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/spotferry/spotferry/bidder/provider"
)

// The longest answers that are read.
const (
	Most       = 8 << 20
	MostOffers = 64 << 20
)

// ErrTooLong is wrapped by failures of answers that did not end where they should.
var ErrTooLong = errors.New("the answer is too long")

// API is where questions go.
type API struct {
	base, key string
	client    *http.Client
}

// NewAPI makes one. The key travels as a bearer token. client may be nil.
func NewAPI(base, key string, client *http.Client) (*API, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil {
		return nil, fmt.Errorf("endpoint %q: write https://, a host and nothing that is secret", base)
	}
	own := http.Client{}
	if client != nil {
		own = *client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &API{strings.TrimSuffix(base, "/"), key, &own}, nil
}

// Question is one call.
type Question struct {
	Method, Path string
	Query        url.Values
	Body         any   // as JSON; nil: none
	Most         int64 // of the answer; 0: Most
}

// Answer is what came back whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// OK says whether the status is one of success.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Failure is a question without an answer.
type Failure struct {
	Sent bool // it may have reached the seller
	Err  error
}

// Error says what went wrong.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Ask asks once. Every status is an answer; a *Failure is not.
func (a *API) Ask(ctx context.Context, q Question) (Answer, error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := a.request(traced, q)
	if err != nil {
		return Answer{}, &Failure{Err: err}
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return Answer{}, &Failure{sent.Load(), bare(err)}
	}
	defer resp.Body.Close()
	most := q.Most
	if most == 0 {
		most = Most
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("%w: more than %d bytes with status %d", ErrTooLong, most, resp.StatusCode)
	}
	if err != nil {
		return Answer{}, &Failure{true, err}
	}
	return Answer{resp.StatusCode, resp.Header, body}, nil
}

func (a *API) request(ctx context.Context, q Question) (*http.Request, error) {
	var body io.Reader
	if q.Body != nil {
		b, err := json.Marshal(q.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	target := a.base + q.Path
	if len(q.Query) > 0 {
		target += "?" + q.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "spotferry")
	if a.key != "" {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// bare is err without the address that was asked, which has no place in logs when it carries a query.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// Broken is the failure of a question in the contract's terms. What surely was not
// sent is Transient, for a launch too; what was sent is as Unanswered says.
func Broken(ctx context.Context, op string, err error) *provider.Error {
	f, ok := errors.AsType[*Failure](err)
	if ok && !f.Sent {
		if ctx.Err() != nil {
			return provider.HeldBack(ctx, op)
		}
		return &provider.Error{Kind: provider.Transient, Op: op, Scope: "seller", Code: "unreachable", Err: err}
	}
	e := provider.Unanswered(op, err)
	e.Scope, e.Code = "seller", "unanswered"
	return e
}

// Garbled is the failure of an answer that cannot be read: whatever it was, it was
// sent. Nothing of it is shown, since what sellers tell of machines has their secrets in it.
func Garbled(op string, a Answer, err error) *provider.Error {
	e := provider.Unanswered(op, fmt.Errorf("reading %s: %w", a.shape(), err))
	e.Scope, e.Code = "seller", fmt.Sprintf("%d unreadable", a.Status)
	return e
}

func (a Answer) shape() string {
	what := "an answer"
	if bytes.HasPrefix(bytes.TrimSpace(a.Body), []byte("<")) {
		what = "a page of HTML"
	}
	return fmt.Sprintf("%s of %d bytes", what, len(a.Body))
}

// excerptLen is how much of a seller's words is kept for people.
const excerptLen = 200

// Excerpt is the beginning of a refusal on one line.
func Excerpt(b []byte) string {
	if len(b) > excerptLen {
		b = b[:excerptLen]
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "?")), " ")
}
