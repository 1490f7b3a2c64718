package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Launch implements provider.Provider. It waits until Azure has made the machine or
// said why not; a context that ends before is an unknown outcome.
func (c *Client) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	if ctx.Err() != nil {
		return provider.Instance{}, provider.HeldBack(ctx, provider.OpLaunch)
	}
	if no := c.check(spec, token); no != nil {
		return provider.Instance{}, no
	}
	i, err := c.launch(ctx, spec, token)
	if err != nil {
		if err.Scope == "pool" {
			err.Pool = pointer(spec.Pool)
		}
		return provider.Instance{}, err
	}
	return i, nil
}

func (c *Client) launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, *provider.Error) {
	there, err := c.lookup(ctx, spec, token)
	switch {
	case err != nil && err.Kind == provider.Conflict:
		return provider.Instance{}, err
	case err != nil:
		return provider.Instance{}, unsent(err)
	case there != nil:
		return *there, nil
	}
	q, no := c.quote(ctx, spec)
	if no != nil {
		return provider.Instance{}, no
	}
	body, bad := c.machine(spec, token, q)
	if bad != nil {
		return provider.Instance{}, &provider.Error{Kind: provider.Invalid, Op: provider.OpLaunch, Code: "request", Err: bad}
	}
	late, no := c.create(ctx, c.names.Of(token), body)
	switch {
	case no == nil:
		return c.made(ctx, spec, token)
	case no.Kind == provider.UnknownOutcome, no.Code == "unreachable":
		return provider.Instance{}, no
	}
	return c.fellThrough(ctx, spec, token, no, late)
}

// unsent marks the error of a call that came before the creation, which was
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

// create asks for a machine where there is none, and waits for the operation. late
// says that the operation was accepted before it failed.
func (c *Client) create(ctx context.Context, name string, body armcompute.VirtualMachine) (late bool, no *provider.Error) {
	callCtx, t := wire.Embark(ctx, wire.Most)
	p, err := c.vms.BeginCreateOrUpdate(callCtx, c.cfg.ResourceGroup, name, body,
		&armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: pointer("*")})
	if err != nil {
		return false, failed(provider.OpLaunch, t.Sent(), err)
	}
	end, no := follow(ctx, c.cfg.Pause, provider.OpLaunch, p)
	if no != nil {
		no.Kind, no.MaybeCreated = provider.UnknownOutcome, true // it was accepted
		return false, no
	}
	return true, end
}

// longest is how long Azure can have us wait before we look again.
const longest = time.Minute

// follow waits for an operation to end. It returns why it failed, nil if it did
// not; broken says that it could not be followed.
func follow[T any](ctx context.Context, pause time.Duration, op string, p *runtime.Poller[T]) (why, broken *provider.Error) {
	var last refusal
	wait := pause
	for !p.Done() {
		if !sleep(ctx, wait) {
			return nil, provider.Unanswered(op, context.Cause(ctx))
		}
		callCtx, t := wire.Embark(ctx, wire.Most)
		r, err := p.Poll(callCtx)
		if why := ended(op, err); why != nil {
			return why, nil
		}
		if err != nil {
			return nil, failed(op, t.Sent(), err)
		}
		if last, err = read(r); err != nil {
			return nil, failed(op, t.Sent(), err)
		}
		if wait = min(retryAfter(r), longest); wait == 0 {
			wait = pause
		}
	}
	state := last.Status
	if state == "" {
		state = last.Properties.ProvisioningState
	}
	switch strings.ToLower(state) {
	case "failed", "canceled", "cancelled":
		code, said := last.words()
		return classify(op, answer{code: code, text: said, late: true}), nil
	}
	return nil, nil
}

// ended is why an operation failed, if the error of a look at it says that: some are
// told as the answer that the request itself would have had.
func ended(op string, err error) *provider.Error {
	e, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || e.StatusCode != http.StatusConflict && e.StatusCode != http.StatusBadRequest {
		return nil
	}
	a := told(e)
	if _, known := meanings[strings.ToLower(a.code)]; !known {
		return nil
	}
	a.late = true
	return classify(op, a)
}

// read is what an operation says of itself. The body was kept by the poller.
func read(r *http.Response) (refusal, error) {
	var said refusal
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) == 0 {
		return said, err
	}
	if json.Unmarshal(body, &said) != nil {
		return said, errors.New("what an operation says of itself cannot be read")
	}
	return said, nil
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

// made is the machine of a token after Azure has said that it was made.
func (c *Client) made(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, *provider.Error) {
	i, err := c.lookup(ctx, spec, token)
	switch {
	case err != nil && err.Kind == provider.Conflict:
		return provider.Instance{}, err
	case err != nil:
		err.Kind, err.MaybeCreated = provider.UnknownOutcome, true
		return provider.Instance{}, err
	case i == nil:
		return provider.Instance{}, &provider.Error{
			Kind: provider.UnknownOutcome, Op: provider.OpLaunch, Scope: "seller", MaybeCreated: true, Code: "notFound",
			Message: "nothing is there under the name " + c.names.Of(token),
		}
	}
	return *i, nil
}

// fellThrough answers for a creation that failed. What it left is deleted by its name
// before the refusal is told. What is there though nothing was accepted now was
// made by another request under the token, and is what the caller wants.
func (c *Client) fellThrough(ctx context.Context, spec provider.LaunchSpec, token string, why *provider.Error, late bool) (provider.Instance, *provider.Error) {
	if !late {
		i, err := c.lookup(ctx, spec, token)
		switch {
		case err == nil && i == nil:
			why.MaybeCreated = why.Kind == provider.Conflict // it was there a moment ago
			return provider.Instance{}, why
		case err == nil && !(i.State == provider.Gone && i.Remains && i.EndedBy == "fault"):
			return *i, nil
		case err != nil && err.Kind == provider.Conflict:
			return provider.Instance{}, err
		case err != nil:
			why.MaybeCreated = true
			return provider.Instance{}, why
		}
	}
	name := c.names.Of(token)
	why.MaybeCreated = !c.remove(ctx, name)
	c.memory.drop(events.InstanceID(name))
	c.cfg.Log.Info("creation failed", zap.String("name", name), zap.String("code", why.Code), zap.Bool("maybe_created", why.MaybeCreated))
	return provider.Instance{}, why
}

// remove deletes what a failed creation left, and says whether it is surely gone.
func (c *Client) remove(ctx context.Context, name string) bool {
	callCtx, t := wire.Embark(ctx, wire.Most)
	p, err := c.vms.BeginDelete(callCtx, c.cfg.ResourceGroup, name, nil)
	if err != nil {
		return failed(provider.OpTerminate, t.Sent(), err).Kind == provider.NotFound
	}
	// Whatever the operation says, whether something is there decides.
	_, _ = follow(ctx, c.cfg.Pause, provider.OpTerminate, p)
	_, no := c.get(ctx, provider.OpTerminate, name)
	return no != nil && no.Kind == provider.NotFound
}
