package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Offers implements provider.Provider.
func (c *Client) Offers(ctx context.Context) ([]events.Offer, error) {
	if ctx.Err() != nil {
		return nil, provider.HeldBack(ctx, provider.OpOffers)
	}
	found, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Launch implements provider.Provider.
func (c *Client) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	return c.desk.Launch(ctx, spec, token)
}

// List implements provider.Provider.
func (c *Client) List(ctx context.Context) (provider.Listing, error) { return c.desk.List(ctx) }

// Terminate implements provider.Provider.
func (c *Client) Terminate(ctx context.Context, id events.InstanceID) error {
	return c.desk.Terminate(ctx, id)
}

// envelope is what every answer comes in.
type envelope struct {
	Data  json.RawMessage `json:"data"`
	Error *fault          `json:"error"`
}

// fault is Lambda's error.
type fault struct {
	Code       wire.Text `json:"code"`
	Message    wire.Text `json:"message"`
	Suggestion wire.Text `json:"suggestion"`
}

// errNoData is of an answer of success that has nothing in it.
var errNoData = errors.New("an answer without data")

// call asks, and reads the answer's data.
func (c *Client) call(ctx context.Context, op, method, path string, body, into any) error {
	if err := c.requests.Wait(ctx, op); err != nil {
		return err
	}
	a, err := c.api.Ask(ctx, wire.Question{Method: method, Path: "/api/v1" + path, Body: body, Most: wire.Most})
	if err != nil {
		return wire.Broken(ctx, op, err)
	}
	var e envelope
	err = json.Unmarshal(a.Body, &e)
	if !a.OK() || err == nil && e.Error != nil {
		return c.refused(op, a, e.Error)
	}
	if err == nil && (len(e.Data) == 0 || bytes.Equal(e.Data, []byte("null"))) {
		err = errNoData
	}
	if err == nil {
		err = json.Unmarshal(e.Data, into)
	}
	if err != nil {
		return wire.Garbled(op, a, err)
	}
	return nil
}

func (c *Client) refused(op string, a wire.Answer, f *fault) error {
	if f == nil { // no JSON, or none of Lambda's
		f = &fault{Message: wire.Text(wire.Excerpt(a.Body))}
	}
	e := classify(op, a.Status, *f)
	if e.Kind == provider.Throttled {
		wait := c.requests.Interval()
		if op == provider.OpLaunch {
			wait = c.launches.Interval()
		}
		e.RetryAfter = max(wire.RetryAfter(a.Header, c.cfg.Now().Control), wait)
	}
	return e
}

// classify says what a refusal means: by its code, then by its status.
func classify(op string, status int, f fault) *provider.Error {
	e := &provider.Error{Op: op, Code: string(f.Code), Message: wire.Excerpt([]byte(f.Message))}
	if f.Suggestion != "" {
		e.Message += " (" + wire.Excerpt([]byte(f.Suggestion)) + ")"
	}
	var known bool
	if e.Kind, e.Scope, known = byCode(op, string(f.Code)); !known || status == http.StatusTooManyRequests {
		e.Kind, e.Scope = byStatus(op, status)
	}
	if e.Code == "" {
		e.Code = strconv.Itoa(status)
	}
	e.MaybeCreated = e.Kind == provider.UnknownOutcome
	return e
}

func byCode(op, code string) (kind provider.Kind, scope string, known bool) {
	switch code {
	case "instance-operations/launch/insufficient-capacity":
		return provider.NoCapacity, "pool", true
	case "instance-operations/launch/file-system-in-wrong-region", "global/invalid-parameters":
		return provider.Invalid, "", true
	case "global/quota-exceeded":
		return provider.Quota, "account", true
	case "global/invalid-api-key", "global/account-inactive":
		return provider.Auth, "account", true
	case "global/duplicate":
		return provider.Conflict, "", true
	case "global/object-does-not-exist":
		if op == provider.OpLaunch { // a type, a region or a key that is not there
			return provider.Invalid, "", true
		}
		return provider.NotFound, "", true
	}
	return 0, "", false
}

// byStatus says what a status means where no code tells. What is not known may have
// made a machine, if that was asked for.
func byStatus(op string, status int) (provider.Kind, string) {
	launch := op == provider.OpLaunch
	switch {
	case status == http.StatusTooManyRequests:
		return provider.Throttled, "seller"
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return provider.Auth, "account"
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity, status == http.StatusMethodNotAllowed:
		return provider.Invalid, ""
	case status == http.StatusNotFound && launch:
		return provider.Invalid, ""
	case status == http.StatusNotFound:
		return provider.NotFound, ""
	case status == http.StatusConflict:
		return provider.Conflict, ""
	case launch:
		return provider.UnknownOutcome, "seller"
	}
	return provider.Transient, "seller"
}
