package gcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// Launch implements provider.Provider. It waits until Google has made the machine
// or said why not; a context that ends before is an unknown outcome.
//
// A request id is remembered for an hour or so, operations for two weeks: of a token
// whose machine has ended the operations are asked first, so that a late repetition
// does not buy another.
func (c *Client) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	if ctx.Err() != nil {
		return provider.Instance{}, provider.HeldBack(ctx, provider.OpLaunch)
	}
	if refusal := c.check(spec, token); refusal != nil {
		return provider.Instance{}, refusal
	}
	i, err := c.launch(ctx, spec, token)
	if err != nil {
		if err.Scope == "pool" {
			err.Pool = pointer(spec.Pool)
		}
		return provider.Instance{}, err
	}
	c.memory.saw(i, c.cfg.Now().Market)
	return i, nil
}

func (c *Client) launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, *provider.Error) {
	q, refusal := c.quote(ctx, spec)
	if refusal != nil {
		return c.repeated(ctx, spec, token, refusal)
	}
	before, err := c.buried(ctx, spec, c.names.Of(token))
	switch {
	case err != nil:
		return provider.Instance{}, unsent(err)
	case before != nil:
		return c.found(ctx, spec, token)
	}
	body, bad := c.machine(spec, token, q)
	if bad != nil {
		return provider.Instance{}, &provider.Error{Kind: provider.Invalid, Op: provider.OpLaunch, Err: bad}
	}
	op, failure := c.insert(ctx, spec.Pool.Zone, c.requestID(token), body)
	switch {
	case failure != nil && failure.Kind == provider.Conflict:
		return c.taken(ctx, spec, token, failure)
	case failure != nil:
		return provider.Instance{}, failure
	}
	if op, failure = c.done(ctx, spec.Pool.Zone, op); failure != nil {
		return provider.Instance{}, failure
	}
	if broken(op) {
		return c.fellThrough(ctx, spec, token, op)
	}
	return c.found(ctx, spec, token)
}

// unsent marks the error of a call that came before the insertion, which was
// then not sent: it says nothing of an earlier one.
func unsent(e *provider.Error) *provider.Error {
	e.Op, e.MaybeCreated = provider.OpLaunch, false
	if e.Kind == provider.UnknownOutcome || e.Kind == provider.NotFound {
		e.Kind = provider.Transient
	}
	if e.Err == nil {
		e.Err = provider.ErrHeldBack
	} else {
		e.Err = fmt.Errorf("%w: %w", provider.ErrHeldBack, e.Err)
	}
	return e
}

// repeated answers a request that would be refused today: the machine of an
// earlier one stands nevertheless.
func (c *Client) repeated(ctx context.Context, spec provider.LaunchSpec, token string, refusal *provider.Error) (provider.Instance, *provider.Error) {
	if errors.Is(refusal, provider.ErrHeldBack) {
		return provider.Instance{}, refusal
	}
	i, err := c.lookup(ctx, spec, token)
	switch {
	case err != nil && err.Kind == provider.Conflict:
		return provider.Instance{}, err
	case err != nil:
		return provider.Instance{}, unsent(err)
	case i == nil:
		return provider.Instance{}, refusal
	}
	return *i, nil
}

// insert sends the request. What comes back is an operation.
func (c *Client) insert(ctx context.Context, zone, id string, body *compute.Instance) (*compute.Operation, *provider.Error) {
	ctx, t := wire.Embark(ctx, wire.Most)
	op, err := c.compute.Instances.Insert(c.cfg.Project, zone, body).RequestId(id).Context(ctx).Do()
	if err == nil && (op == nil || op.Name == "") {
		err = errNoOperation
	}
	if err != nil {
		return nil, failed(provider.OpLaunch, t.Sent(), err)
	}
	return op, nil
}

var errNoOperation = errors.New("the answer is not about the operation that was asked for")

// done waits for an operation. Google's own wait returns when it likes, so it is
// asked again, but never faster than Pause. Whatever goes wrong meanwhile, the
// request has been accepted.
func (c *Client) done(ctx context.Context, zone string, op *compute.Operation) (*compute.Operation, *provider.Error) {
	lost := func(e *provider.Error) *provider.Error {
		e.Kind, e.MaybeCreated = provider.UnknownOutcome, true
		return e
	}
	for name := op.Name; op.Status != "DONE"; {
		began := time.Now()
		callCtx, t := wire.Embark(ctx, wire.Most)
		next, err := c.compute.ZoneOperations.Wait(c.cfg.Project, zone, name).Context(callCtx).Do()
		if err == nil && (next == nil || next.Name != name) {
			err = errNoOperation
		}
		if err != nil {
			return nil, lost(failed(provider.OpLaunch, t.Sent(), err))
		}
		op = next
		if op.Status != "DONE" && !sleep(ctx, c.cfg.Pause-time.Since(began)) {
			return nil, lost(provider.Unanswered(provider.OpLaunch, context.Cause(ctx)))
		}
	}
	return op, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// broken says whether a finished operation failed. HTTP said 200.
func broken(op *compute.Operation) bool {
	return op.HttpErrorStatusCode >= 400 || op.Error != nil && len(op.Error.Errors) > 0
}

// fellThrough answers for an operation that failed. Google takes away what it had
// made by then; whether it has, only the name tells.
func (c *Client) fellThrough(ctx context.Context, spec provider.LaunchSpec, token string, op *compute.Operation) (provider.Instance, *provider.Error) {
	why := classify(provider.OpLaunch, toldLate(op))
	if why.Kind == provider.Conflict {
		return c.taken(ctx, spec, token, why)
	}
	_, err := c.get(ctx, spec.Pool.Zone, c.names.Of(token))
	why.MaybeCreated = why.Kind == provider.UnknownOutcome || err == nil || err.Kind != provider.NotFound
	c.cfg.Log.Debug("insertion failed", zap.String("name", c.names.Of(token)), zap.String("code", why.Code), zap.Bool("maybe_created", why.MaybeCreated))
	return provider.Instance{}, why
}
