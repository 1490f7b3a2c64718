package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// get reads one machine, with how it stands. Its error is a read's.
func (c *Client) get(ctx context.Context, op, name string) (*armcompute.VirtualMachine, *provider.Error) {
	ctx, t := wire.Embark(ctx, wire.Most)
	r, err := c.vms.Get(ctx, c.cfg.ResourceGroup, name, &armcompute.VirtualMachinesClientGetOptions{
		Expand: pointer(armcompute.InstanceViewTypesInstanceView),
	})
	if err == nil && !strings.EqualFold(text(r.Name), name) {
		err = fmt.Errorf("asked for %s, the answer is about another machine", name)
	}
	if err != nil {
		e := failed(provider.OpList, t.Sent(), err)
		e.Op = op
		return nil, e
	}
	return &r.VirtualMachine, nil
}

// lookup is the machine of a token, nil if there is none and was none. It is a
// Conflict if what is there was bought by another request; its other errors are a read's.
func (c *Client) lookup(ctx context.Context, spec provider.LaunchSpec, token string) (*provider.Instance, *provider.Error) {
	name := c.names.Of(token)
	vm, err := c.get(ctx, provider.OpLaunch, name)
	now := c.cfg.Now()
	switch {
	case err == nil:
		f, wrong := c.factsOf(name, vm.Tags)
		if wrong == nil && f.Digest != spec.Digest() {
			wrong = errAnother
		}
		if wrong != nil {
			return nil, taken(name, wrong)
		}
		i := c.memory.saw(c.instance(name, vm, view(vm)), f.Digest, now.Market)
		return &i, nil
	case err.Kind != provider.NotFound:
		return nil, err
	}
	i, digest, known := c.memory.vanished(events.InstanceID(name), now.Market)
	switch {
	case !known:
		return nil, nil
	case digest != spec.Digest():
		return nil, taken(name, errAnother)
	}
	return &i, nil
}

var errAnother = errors.New("the token was used with another request")

func taken(name string, why error) *provider.Error {
	return &provider.Error{
		Kind: provider.Conflict, Op: provider.OpLaunch, Scope: "pool", Code: "exists", Message: name + " exists", Err: why,
	}
}

func view(vm *armcompute.VirtualMachine) *armcompute.VirtualMachineInstanceView {
	if vm == nil || vm.Properties == nil {
		return nil
	}
	return vm.Properties.InstanceView
}

// instance is a machine that exists in our terms. A machine of ours whose tags
// cannot be read is told with what its name says: it costs money all the same.
func (c *Client) instance(name string, vm *armcompute.VirtualMachine, stands *armcompute.VirtualMachineInstanceView) provider.Instance {
	region := text(vm.Location)
	out := provider.Instance{
		ID: events.InstanceID(name), Token: c.names.Token(name),
		Pool: events.Pool{Seller: c.cfg.Seller, Region: region, Zone: region, Capacity: events.OnDemand, Gang: 1},
	}
	provisioning := ""
	if p := vm.Properties; p != nil {
		provisioning = text(p.ProvisioningState)
		if p.TimeCreated != nil {
			out.Started = p.TimeCreated.UTC()
		}
		if p.HardwareProfile != nil && p.HardwareProfile.VMSize != nil {
			out.Pool.InstanceType = string(*p.HardwareProfile.VMSize)
		}
		if p.Priority != nil && *p.Priority != armcompute.VirtualMachinePriorityTypesRegular {
			out.Pool.Capacity = events.Spot
		}
	}
	if f, err := c.factsOf(name, vm.Tags); err == nil {
		out.Token, out.Pool, out.Terms, out.Labels = f.Token, f.Pool, f.Terms, f.Labels
		if f.Price > 0 {
			out.Prices = []events.PriceFrom{{From: out.Started, Price: f.Price}}
		}
	}
	stand(&out, provisioning, stands)
	return out
}

// power is where a machine is by its instance view, "" if that does not say.
func power(v *armcompute.VirtualMachineInstanceView) (state string, status *armcompute.InstanceViewStatus) {
	if v == nil {
		return "", nil
	}
	for _, s := range v.Statuses {
		if s == nil {
			continue
		}
		if state, ok := strings.CutPrefix(strings.ToLower(text(s.Code)), "powerstate/"); ok {
			return state, s
		}
	}
	return "", nil
}

// stand says where a machine is in its life. One that is stopped or deallocated is
// gone and remains: its disk costs money, and one that stopped itself costs as if it ran.
// A creation that failed and left no machine to run is gone as well.
func stand(out *provider.Instance, provisioning string, v *armcompute.VirtualMachineInstanceView) {
	state, status := power(v)
	gone := func(by string) {
		out.State, out.EndedBy, out.Remains = provider.Gone, by, true
		if status != nil && status.Time != nil {
			out.Ended = status.Time.UTC()
		}
	}
	switch provisioning = strings.ToLower(provisioning); {
	case provisioning == "deleting", state == "stopping", state == "deallocating":
		out.State = provider.Stopping
	case state == "deallocated" && out.Pool.Capacity == events.Spot:
		gone("seller") // we delete and never deallocate
	case state == "deallocated":
		gone("us")
	case state == "stopped":
		gone("machine")
	case state == "running":
		out.State = provider.Running
	case provisioning == "failed" && state == "", provisioning == "canceled" && state == "":
		gone("fault")
	case provisioning == "succeeded" && state != "starting" && v == nil:
		out.State = provider.Running
	default:
		out.State = provider.Pending
	}
}
