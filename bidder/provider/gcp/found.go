package gcp

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// found is the machine of a token after Google has said that it was made, or
// has been: in whatever state it is by now.
func (c *Client) found(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, *provider.Error) {
	i, err := c.lookup(ctx, spec, token)
	switch {
	case err != nil && err.Kind == provider.Conflict:
		return provider.Instance{}, err
	case err != nil:
		err.Kind, err.MaybeCreated = provider.UnknownOutcome, true
		return provider.Instance{}, err
	case i == nil:
		return provider.Instance{}, &provider.Error{
			Kind: provider.UnknownOutcome, Op: provider.OpLaunch, MaybeCreated: true, Code: "notFound",
			Message: "neither a machine nor its end is there under the name " + c.names.Of(token),
		}
	}
	return *i, nil
}

// taken answers for a name that is in use: by an earlier repetition, as a rule.
func (c *Client) taken(ctx context.Context, spec provider.LaunchSpec, token string, why *provider.Error) (provider.Instance, *provider.Error) {
	i, err := c.lookup(ctx, spec, token)
	switch {
	case err != nil && err.Kind != provider.Conflict:
		err.Kind, err.MaybeCreated = provider.UnknownOutcome, true
		return provider.Instance{}, err
	case err != nil:
		return provider.Instance{}, err
	case i == nil:
		why.MaybeCreated = true // between two lives, or not to be seen yet
		return provider.Instance{}, why
	}
	return *i, nil
}

// lookup is the machine of a token, nil if there is none and was none. It is a
// Conflict if what is there was bought by another request; its other errors are a read's.
func (c *Client) lookup(ctx context.Context, spec provider.LaunchSpec, token string) (*provider.Instance, *provider.Error) {
	zone, name := spec.Pool.Zone, c.names.Of(token)
	raw, err := c.get(ctx, zone, name)
	switch {
	case err == nil:
		return c.adopted(ctx, raw, spec)
	case err.Kind == provider.Invalid, err.Scope == "zone":
		return nil, nil // a zone that is none of ours has none of our machines
	case err.Kind != provider.NotFound:
		return nil, err
	}
	return c.buried(ctx, spec, name)
}

// adopted is a machine that is there, if it is the one that was asked for.
func (c *Client) adopted(ctx context.Context, raw *compute.Instance, spec provider.LaunchSpec) (*provider.Instance, *provider.Error) {
	f, err := c.factsOf(raw)
	if err == nil && f.Digest != spec.Digest() {
		err = errors.New("the token was used with another request")
	}
	if err != nil {
		return nil, &provider.Error{
			Kind: provider.Conflict, Op: provider.OpLaunch, Scope: "pool", Code: "alreadyExists", Message: wire.Clip(raw.Name) + " exists", Err: err,
		}
	}
	i := c.instance(spec.Pool.Zone, raw)
	if i.State == provider.Gone {
		lives, err := c.operations(ctx, spec.Pool.Zone, raw.Name)
		if err != nil {
			return nil, err
		}
		i = closed(i, lives[i.ID])
	}
	return &i, nil
}

// get reads one machine. Its error is a read's, but for Op.
func (c *Client) get(ctx context.Context, zone, name string) (*compute.Instance, *provider.Error) {
	ctx, t := wire.Embark(ctx, wire.Most)
	i, err := c.compute.Instances.Get(c.cfg.Project, zone, name).Context(ctx).Do()
	if err == nil && (i == nil || i.Name != name) {
		err = fmt.Errorf("asked for %s, the answer is about another machine", name)
	}
	if err != nil {
		e := failed(provider.OpList, t.Sent(), err)
		e.Op = provider.OpLaunch
		return nil, e
	}
	return i, nil
}
