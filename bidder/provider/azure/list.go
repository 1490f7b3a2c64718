package azure

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// List implements provider.Provider. It reads the subscription's machines, then how
// they stand, which is another list. Machines that it knew and that are missing are
// asked for one by one, since lists lag behind and reads of one machine do not.
// A page that failed, but for the first, makes the list incomplete; one that leads
// astray is an error.
func (c *Client) List(ctx context.Context) (provider.Listing, error) {
	if ctx.Err() != nil {
		return provider.Listing{}, provider.HeldBack(ctx, provider.OpList)
	}
	out := provider.Listing{Complete: true, At: c.cfg.Now().Control}
	machines, whole, err := c.read(ctx, false)
	if err != nil {
		return provider.Listing{}, err
	}
	out.Complete = whole
	stands, whole, err := c.read(ctx, true)
	if err != nil {
		return provider.Listing{}, err
	}
	out.Complete = out.Complete && whole
	now := c.cfg.Now().Market
	for name, vm := range machines {
		out.Instances = append(out.Instances, c.sight(name, vm, view(stands[name])))
	}
	for _, id := range c.memory.all() {
		if machines[string(id)] != nil {
			continue
		}
		i, ok := c.memory.buried(id)
		if !ok && out.Complete {
			if i, ok, err = c.missing(ctx, id); err != nil {
				out.Complete = false
			}
		}
		if ok {
			out.Instances = append(out.Instances, i)
		}
	}
	c.memory.forget(now)
	slices.SortFunc(out.Instances, func(a, b provider.Instance) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

func (c *Client) sight(name string, vm *armcompute.VirtualMachine, stands *armcompute.VirtualMachineInstanceView) provider.Instance {
	f, err := c.factsOf(name, vm.Tags)
	i := c.instance(name, vm, stands)
	if err != nil {
		c.cfg.Log.Warn("a machine of ours has lost its tags", zap.String("instance", name))
		return i
	}
	return c.memory.saw(i, f.Digest, c.cfg.Now().Market)
}

// missing is a machine that was there, and is not in the list.
func (c *Client) missing(ctx context.Context, id events.InstanceID) (provider.Instance, bool, *provider.Error) {
	vm, err := c.get(ctx, provider.OpList, string(id))
	switch {
	case err == nil && c.mine(string(id), vm):
		return c.sight(string(id), vm, view(vm)), true, nil
	case err == nil:
		return provider.Instance{}, false, nil
	case err.Kind != provider.NotFound:
		return provider.Instance{}, false, err
	}
	i, _, ok := c.memory.vanished(id, c.cfg.Now().Market)
	return i, ok, nil
}

// mine says whether a machine carries this environment's name and mark.
func (c *Client) mine(name string, vm *armcompute.VirtualMachine) bool {
	return c.names.Ours(name) && text(vm.Tags[markTag]) == c.cfg.Mark
}

// read is one of the two lists: machines, of ours only, or how all stand.
func (c *Client) read(ctx context.Context, status bool) (map[string]*armcompute.VirtualMachine, bool, *provider.Error) {
	options := &armcompute.VirtualMachinesClientListAllOptions{}
	if status {
		options.StatusOnly = pointer("true")
	}
	found := map[string]*armcompute.VirtualMachine{}
	pager := c.vms.NewListAllPager(options)
	first := true
	ctx, t := wire.Embark(ctx, wire.Most)
	err := pages(func(string) (string, error) {
		if !first && !pager.More() {
			return "", nil
		}
		p, err := pager.NextPage(ctx)
		if err != nil {
			return "", err
		}
		first = false
		for _, vm := range p.Value {
			if vm == nil {
				continue
			}
			name, ok := c.here(text(vm.ID))
			if !ok || found[name] != nil || !status && !c.mine(name, vm) {
				continue
			}
			found[name] = vm
		}
		return text(p.NextLink), nil
	})
	switch {
	case err == nil:
		return found, true, nil
	case first, ctx.Err() != nil, errors.Is(err, errRound), errors.Is(err, errForeign):
		return nil, false, failed(provider.OpList, t.Sent(), err)
	}
	c.cfg.Log.Info("a page of machines cannot be read", zap.Error(plain(err)))
	return found, false, nil
}
