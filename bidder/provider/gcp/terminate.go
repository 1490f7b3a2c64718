package gcp

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Terminate implements provider.Provider. It deletes the machine with its disk, also
// one that is stopped. The deletion takes a while; List says when it is done.
//
// A machine of another environment is not touched: its name says whose it is.
func (c *Client) Terminate(ctx context.Context, id events.InstanceID) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpTerminate)
	}
	zone, name, ok := splitID(id)
	if !ok {
		c.cfg.Log.Warn("nothing can have this id", zap.String("instance", wire.Clip(string(id))))
		return nil
	}
	if !c.names.Ours(name) {
		return &provider.Error{
			Kind: provider.Invalid, Op: provider.OpTerminate, Code: "foreign",
			Message: fmt.Sprintf("%s is not of the environment %q: ask those who made it", id, c.cfg.Mark),
		}
	}
	callCtx, t := wire.Embark(ctx, wire.Most)
	_, err := c.compute.Instances.Delete(c.cfg.Project, zone, name).Context(callCtx).Do()
	if err == nil {
		return nil
	}
	if e := failed(provider.OpTerminate, t.Sent(), err); e.Kind != provider.NotFound {
		return e
	}
	return nil
}
