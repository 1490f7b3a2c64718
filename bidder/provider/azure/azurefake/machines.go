package azurefake

import (
	"context"
	"encoding/base64"
	"math"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// vm is a machine on the wire.
type vm struct {
	ID         string            `json:"id,omitempty"`
	Name       string            `json:"name,omitempty"`
	Type       string            `json:"type,omitempty"`
	Location   string            `json:"location"`
	Tags       map[string]string `json:"tags,omitempty"`
	Properties map[string]any    `json:"properties"`
}

// at is a value somewhere in the properties, nil if there is none.
func (v vm) at(path ...string) any {
	var x any = v.Properties
	for _, p := range path {
		m, ok := x.(map[string]any)
		if !ok {
			return nil
		}
		x = m[p]
	}
	return x
}

func (v vm) word(path ...string) string {
	s, _ := v.at(path...).(string)
	return s
}

// wrong is what Azure would not take of a body, "" if it would.
func (v vm) wrong() (code, what string) {
	spot := v.word("priority") == "Spot"
	price, priced := v.at("billingProfile", "maxPrice").(float64)
	nics, _ := v.at("networkProfile", "networkInterfaceConfigurations").([]any)
	switch {
	case v.Location == "":
		return "LocationRequired", "location"
	case v.word("hardwareProfile", "vmSize") == "":
		return "InvalidParameter", "vmSize"
	case v.at("storageProfile", "imageReference") == nil:
		return "InvalidParameter", "imageReference"
	case v.word("osProfile", "computerName") == "" || v.at("osProfile", "linuxConfiguration", "ssh") == nil:
		return "InvalidParameter", "osProfile"
	case len(nics) == 0 || v.word("networkProfile", "networkApiVersion") == "":
		return "InvalidParameter", "networkProfile"
	case !spot && (v.word("evictionPolicy") != "" || priced):
		return "InvalidParameter", "evictionPolicy"
	case priced && (price != -1 && price <= 0 || math.Abs(price*1e5-math.Round(price*1e5)) > 1e-6):
		return "MaxPriceValueInvalid", "maxPrice"
	case len(v.Tags) > 50:
		return "InvalidTags", "tags"
	}
	for k, x := range v.Tags {
		if len(k) > 512 || len(x) > 256 || strings.ContainsAny(k, `<>%&\?/`) {
			return "InvalidTagValueLength", k
		}
	}
	return "", ""
}

// record is what is known here of a machine.
type record struct {
	group, name string
	body        vm
	behind      events.InstanceID
	born        time.Time
	made        bool // the seller behind has said so
	running     bool // the purchase is under way
	failed      bool // the creation did
	maybe       bool // and a machine may be behind all the same
	left        bool // and it is there still
	deleting    bool
	gone        bool
	alien       bool
}

func key(group, name string) string { return strings.ToLower(group + "/" + name) }

// dearest is a price that nothing has.
const dearest = events.PerInstanceHour(1 << 60)

// spec is what is bought behind.
func (r *record) spec(seller string) provider.LaunchSpec {
	data, _ := base64.StdEncoding.DecodeString(r.body.word("userData"))
	s := provider.LaunchSpec{
		Pool: events.Pool{
			Seller: seller, Region: r.body.Location, Zone: r.body.Location,
			InstanceType: r.body.word("hardwareProfile", "vmSize"), Capacity: events.OnDemand, Gang: 1,
		},
		MaxPrice: dearest, UserData: data, Labels: map[string]string{"resource-group": r.group},
	}
	if r.body.word("priority") == "Spot" {
		s.Pool.Capacity = events.Spot
	}
	if p, ok := r.body.at("billingProfile", "maxPrice").(float64); ok && p > 0 {
		s.MaxPrice = events.PerInstanceHour(math.Round(p * float64(events.DollarPerHour)))
	}
	return s
}

// behindAll are the machines of the seller behind by their token, which is a name here.
func (f *Fake) behindAll(ctx context.Context) (map[string]provider.Instance, bool, error) {
	l, err := f.backend.List(ctx)
	if err != nil {
		return nil, false, err
	}
	out := map[string]provider.Instance{}
	for _, i := range l.Instances {
		out[i.Token] = i
	}
	return out, l.Complete, nil
}

// stands is how a record's machine is: there is false if reads of it are 404, and
// listed if the lists have it. f.mu is held.
func (f *Fake) stands(r *record, all map[string]provider.Instance) (provisioning, power string, there, listed bool) {
	i, found := all[r.name]
	if found && !r.alien {
		r.behind, r.born = i.ID, i.Started
	}
	switch {
	case r.gone:
		return "", "", false, false
	case r.alien:
		return "Succeeded", "running", true, true
	case r.failed:
		return "Failed", "", r.left, r.left
	case !found && (r.made || r.running):
		return "Creating", "", true, false
	case !found:
		return "", "", false, false
	case i.State == provider.Gone:
		power, there = f.after(r, i.EndedBy)
		r.gone = !there
		return "Succeeded", power, there, there
	case r.deleting:
		return "Deleting", "stopping", true, true
	}
	switch i.State {
	case provider.Pending:
		return "Creating", "starting", true, true
	case provider.Stopping:
		return "Succeeded", "stopping", true, true
	}
	return "Succeeded", "running", true, true
}

// after is what is left of a machine that has ended.
func (f *Fake) after(r *record, by string) (power string, there bool) {
	switch {
	case r.deleting, by == "us":
		return "", false
	case by == "seller" && (f.cfg.Deallocates || r.body.word("evictionPolicy") != "Delete"):
		return "deallocated", true
	case by == "seller":
		return "", false
	}
	return "stopped", true
}

// shown is a record on the wire.
func (f *Fake) shown(r *record, provisioning, power string, view bool) vm {
	out := r.body
	out.ID = "/subscriptions/" + f.cfg.Subscription + "/resourceGroups/" + strings.ToUpper(r.group) + "/providers/Microsoft.Compute/virtualMachines/" + r.name
	out.Name, out.Type = r.name, "Microsoft.Compute/virtualMachines"
	out.Properties = map[string]any{}
	for k, v := range r.body.Properties {
		if k != "userData" { // it is not told unless it is asked for
			out.Properties[k] = v
		}
	}
	out.Properties["provisioningState"] = provisioning
	if !r.born.IsZero() {
		out.Properties["timeCreated"] = r.born.UTC().Format(time.RFC3339Nano)
	}
	if view {
		statuses := []any{map[string]any{"code": "ProvisioningState/" + strings.ToLower(provisioning), "level": "Info"}}
		if power != "" {
			statuses = append(statuses, map[string]any{"code": "PowerState/" + power, "level": "Info", "displayStatus": "VM " + power})
		}
		out.Properties["instanceView"] = map[string]any{"statuses": statuses}
	}
	return out
}
