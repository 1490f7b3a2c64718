package runpod

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// What a pod finds in its environment: the user data in base64, and the record of
// its purchase.
const (
	envBootstrap = "SPOTFERRY_BOOTSTRAP"
	envRecord    = "SPOTFERRY_RECORD"
)

// shop is the client as the desk uses it.
type shop struct{ *Client }

func (c *Client) nameStart() string { return "sf1:" + c.cfg.Mark + ":" }

// Buy implements keyless.Shop.
func (s shop) Buy(ctx context.Context, spec provider.LaunchSpec, r keyless.Record) (events.InstanceID, keyless.Record, error) {
	q, err := s.quote(ctx, spec)
	if err != nil {
		return "", r, err
	}
	r = r.At(s.cfg.Now())
	r.Price, r.Terms = q.Price, q.Terms
	packed, err := r.Pack()
	if err != nil {
		return "", r, refusal(spec.Pool, provider.Invalid, "record", err.Error())
	}
	env := map[string]string{envBootstrap: base64.StdEncoding.EncodeToString(spec.UserData), envRecord: packed}
	id, err := "", error(nil)
	if spec.Pool.Capacity == events.Bid {
		id, err = s.rent(ctx, q, s.nameStart()+r.Token, env)
	} else {
		id, err = s.deploy(ctx, q, s.nameStart()+r.Token, env)
	}
	if err == nil && id == "" {
		err = wire.Garbled(provider.OpLaunch, wire.Answer{Status: http.StatusOK}, errors.New("bought, and no pod is named"))
	}
	return events.InstanceID(id), r, s.judge(spec.Pool, err)
}

// judge gives a refusal its pool, and tells what one without a reason means.
func (c *Client) judge(p events.Pool, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, refused := errors.AsType[*provider.Error](err)
	if !refused {
		clear(c.refused)
		return err
	}
	if e.Code == unexplained {
		c.refused[p] = true
		if e.Kind = verdict(len(c.refused), len(c.quotes)); e.Kind == provider.Invalid {
			e.Scope = ""
			e.Message += " (every pool answers so: it is the request)"
		}
	}
	if e.Scope == "pool" {
		e.Pool = &p
	}
	return e
}

// deploy makes a pod on demand.
func (c *Client) deploy(ctx context.Context, q quote, name string, env map[string]string) (string, error) {
	var made struct {
		ID wire.Text `json:"id"`
	}
	body := map[string]any{
		"name": name, "image": c.cfg.Image, "disk": c.cfg.DiskGB, "env": env, "cloud": "SECURE",
		"gpu": map[string]any{"id": q.gpuID, "count": q.GPU.Count}, "dataCenterIds": []string{q.Pool.Zone},
	}
	if c.cfg.Args != "" {
		body["args"] = c.cfg.Args
	}
	err := c.rest(ctx, provider.OpLaunch, http.MethodPost, "/v2/pods", body, &made)
	return made.ID.Name(), err
}

// rentMutation makes an interruptible pod.
const rentMutation = `mutation Rent($input: PodRentInterruptableInput!) { podRentInterruptable(input: $input) { id } }`

// rent bids for an interruptible pod, for each of its GPUs.
func (c *Client) rent(ctx context.Context, q quote, name string, env map[string]string) (string, error) {
	pairs := []map[string]string{}
	for _, k := range []string{envBootstrap, envRecord} {
		pairs = append(pairs, map[string]string{"key": k, "value": env[k]})
	}
	input := map[string]any{
		"bidPerGpu": json.Number(q.perGPU.String()), "gpuCount": q.GPU.Count, "gpuTypeId": q.gpuID, "cloudType": "SECURE", "dataCenterId": q.Pool.Zone,
		"name": name, "imageName": c.cfg.Image, "dockerArgs": c.cfg.Args, "containerDiskInGb": c.cfg.DiskGB, "volumeInGb": 0, "env": pairs,
	}
	var made struct {
		Pod *struct {
			ID wire.Text `json:"id"`
		} `json:"podRentInterruptable"`
	}
	if err := c.graph(ctx, provider.OpLaunch, rentMutation, map[string]any{"input": input}, &made); err != nil || made.Pod == nil {
		return "", err
	}
	return made.Pod.ID.Name(), nil
}

// quote is what the pool costs now. One that looks too dear, or is not there, is looked up again.
func (c *Client) quote(ctx context.Context, spec provider.LaunchSpec) (quote, error) {
	q, known := c.quoted(spec.Pool)
	if !known || !q.Fresh(c.cfg.Now().Control) || q.Price > spec.MaxPrice {
		if _, err := c.look(ctx); err != nil {
			return q, keyless.NotBought(err)
		}
		q, known = c.quoted(spec.Pool)
	}
	switch {
	case !known:
		return q, refusal(spec.Pool, provider.OfferGone, "not listed", "nothing is sold in "+spec.Pool.String()+": ask for offers again")
	case q.Price > spec.MaxPrice:
		return q, refusal(spec.Pool, provider.PriceTooLow, "list price", "the price is "+q.Price.String())
	}
	return q, nil
}

func (c *Client) quoted(p events.Pool) (quote, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, ok := c.quotes[p]
	return q, ok
}

func refusal(p events.Pool, k provider.Kind, code, why string) *provider.Error {
	return &provider.Error{Kind: k, Op: provider.OpLaunch, Scope: "pool", Pool: &p, Code: code, Message: why}
}

// Destroy implements keyless.Shop.
func (s shop) Destroy(ctx context.Context, id events.InstanceID) error {
	return s.rest(ctx, provider.OpTerminate, http.MethodDelete, "/v2/pods/"+url.PathEscape(string(id)), nil, nil)
}
