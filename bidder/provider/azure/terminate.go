package azure

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Terminate implements provider.Provider. It deletes the machine, with the disk and
// the interface that were made with it. The deletion takes a while; List says when it is done.
//
// A machine of another environment is not touched: its name and its tags say whose it is.
func (c *Client) Terminate(ctx context.Context, id events.InstanceID) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpTerminate)
	}
	name := strings.ToLower(string(id))
	if len(name) > maxName || !machineName.MatchString(name) {
		c.cfg.Log.Warn("nothing can have this id", zap.String("instance", wire.Clip(string(id))))
		return nil
	}
	vm, no := c.get(ctx, provider.OpTerminate, name)
	switch {
	case no != nil && no.Kind == provider.NotFound:
		return nil
	case no != nil:
		return no
	}
	if mark := vm.Tags[markTag]; !c.names.Ours(name) || mark != nil && *mark != c.cfg.Mark {
		return &provider.Error{
			Kind: provider.Invalid, Op: provider.OpTerminate, Code: "foreign",
			Message: fmt.Sprintf("%s is not of the environment %q: ask those who made it", name, c.cfg.Mark),
		}
	}
	if i := c.instance(name, vm, view(vm)); i.State == provider.Stopping && vm.Properties != nil && strings.EqualFold(text(vm.Properties.ProvisioningState), "Deleting") {
		return nil
	}
	callCtx, t := wire.Embark(ctx, wire.Most)
	if _, err := c.vms.BeginDelete(callCtx, c.cfg.ResourceGroup, name, nil); err != nil {
		if e := failed(provider.OpTerminate, t.Sent(), err); e.Kind != provider.NotFound {
			return e
		}
	}
	c.memory.asking(events.InstanceID(name))
	return nil
}
