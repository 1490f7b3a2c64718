package runpod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Offers implements provider.Provider.
func (c *Client) Offers(ctx context.Context) ([]events.Offer, error) {
	if ctx.Err() != nil {
		return nil, provider.HeldBack(ctx, provider.OpOffers)
	}
	return c.look(ctx)
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

// errNoData is of an answer of success that has nothing in it.
var errNoData = errors.New("an answer without data")

// rest asks the REST API. Without into, the answer has no body, or is any object.
func (c *Client) rest(ctx context.Context, op, method, path string, body, into any) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, op)
	}
	a, err := c.api.Ask(ctx, wire.Question{Method: method, Path: path, Body: body})
	if err != nil {
		return wire.Broken(ctx, op, err)
	}
	if !a.OK() {
		return c.refusal(op, a, problemOf(a.Body))
	}
	if into == nil && a.Status == http.StatusNoContent {
		return nil
	}
	if into == nil {
		into = &map[string]json.RawMessage{}
		if bytes.Equal(bytes.TrimSpace(a.Body), []byte("null")) {
			return wire.Garbled(op, a, errNoData)
		}
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return wire.Garbled(op, a, err)
	}
	return nil
}

func (c *Client) refusal(op string, a wire.Answer, p problem) *provider.Error {
	e := classify(op, a.Status, p)
	if e.Kind == provider.Throttled {
		e.RetryAfter = wire.RetryAfter(a.Header, c.cfg.Now().Control)
	}
	return e
}

// graph asks the GraphQL API, whose errors come with status 200.
func (c *Client) graph(ctx context.Context, op, query string, variables, into any) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, op)
	}
	body := map[string]any{"query": query}
	if variables != nil {
		body["variables"] = variables
	}
	a, err := c.api.Ask(ctx, wire.Question{Method: http.MethodPost, Path: "/graphql", Body: body, Most: wire.MostOffers})
	if err != nil {
		return wire.Broken(ctx, op, err)
	}
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors []struct {
			Message    wire.Text `json:"message"`
			Extensions struct {
				Code wire.Text `json:"code"`
			} `json:"extensions"`
		} `json:"errors"`
	}
	err = json.Unmarshal(a.Body, &answer)
	if !a.OK() {
		return c.refusal(op, a, problemOf(a.Body))
	}
	if err == nil && len(answer.Errors) > 0 {
		first := answer.Errors[0]
		return classify(op, http.StatusOK, problem{Title: first.Extensions.Code, Detail: first.Message})
	}
	if err == nil && (len(answer.Data) == 0 || bytes.Equal(answer.Data, []byte("null"))) {
		err = errNoData
	}
	if err == nil {
		err = json.Unmarshal(answer.Data, into)
	}
	if err != nil {
		return wire.Garbled(op, a, err)
	}
	return nil
}
