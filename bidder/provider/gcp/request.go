package gcp

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// check refuses a request that can never be bought.
func (c *Client) check(spec provider.LaunchSpec, token string) *provider.Error {
	no := func(format string, args ...any) *provider.Error {
		return &provider.Error{Kind: provider.Invalid, Op: provider.OpLaunch, Code: "request", Message: fmt.Sprintf(format, args...)}
	}
	p := spec.Pool
	switch {
	case events.CheckToken("token", token) != nil:
		return no("%v", events.CheckToken("token", token))
	case spec.MaxPrice <= 0:
		return no("max_price is %s; name the most that may be paid", spec.MaxPrice)
	case p.Seller != c.cfg.Seller:
		return no("pool.seller is %q; this is %q", p.Seller, c.cfg.Seller)
	case p.Capacity != events.Spot && p.Capacity != events.OnDemand:
		return no("pool.capacity_type is %q; give spot or on-demand", p.Capacity)
	case p.Gang > 1:
		return no("pool.gang_size is %d; machines are sold one by one", p.Gang)
	case !plainName.MatchString(p.Zone):
		return no("pool.zone is %q; give one such as us-central1-a", p.Zone)
	case len(spec.UserData) > maxMetadata:
		return no("user_data has %d bytes; up to %d fit into metadata", len(spec.UserData), maxMetadata)
	case !utf8.Valid(spec.UserData):
		return no("user_data is not UTF-8, which metadata has to be")
	}
	return nil
}

// machine is the request's body. It is a function of the request and the price, so
// that a repetition is the same body.
func (c *Client) machine(spec provider.LaunchSpec, token string, q quote) (*compute.Instance, error) {
	told, err := json.Marshal(facts{
		Token: token, Mark: c.cfg.Mark, Pool: spec.Pool, Price: q.offer.Price, Terms: q.offer.Terms,
		Labels: spec.Labels, Digest: spec.Digest(),
	})
	if err != nil {
		return nil, fmt.Errorf("writing labels into metadata: %w", err)
	}
	if len(told) > maxMetadata {
		return nil, fmt.Errorf("labels have %d bytes with what else is kept; up to %d fit into metadata", len(told), maxMetadata)
	}
	zone, base := spec.Pool.Zone, q.shape
	i := &compute.Instance{
		Name:        c.names.Of(token),
		MachineType: "zones/" + zone + "/machineTypes/" + base.name,
		Labels:      map[string]string{markLabel: markValue(c.cfg.Mark), tokenLabel: tokenValue(token)},
		Metadata: &compute.Metadata{Items: []*compute.MetadataItems{
			{Key: userDataKey, Value: pointer(string(spec.UserData))},
			{Key: factsKey, Value: pointer(string(told))},
		}},
		Scheduling:        c.scheduling(spec.Pool.Capacity),
		Disks:             []*compute.AttachedDisk{c.disk(zone)},
		NetworkInterfaces: []*compute.NetworkInterface{c.nic(zone)},
	}
	if base.attached {
		i.GuestAccelerators = []*compute.AcceleratorConfig{{
			AcceleratorCount: int64(base.gpus), AcceleratorType: "zones/" + zone + "/acceleratorTypes/" + base.gpu,
		}}
	}
	if c.cfg.ServiceAccount != "" {
		i.ServiceAccounts = []*compute.ServiceAccount{{Email: c.cfg.ServiceAccount, Scopes: []string{compute.CloudPlatformScope}}}
	}
	return i, nil
}

// scheduling has a machine deleted whenever it ends by Google's hand, so that no
// disk is left that nobody looks after.
func (c *Client) scheduling(capacity events.CapacityType) *compute.Scheduling {
	s := &compute.Scheduling{
		ProvisioningModel: "STANDARD", OnHostMaintenance: "TERMINATE", AutomaticRestart: pointer(false),
	}
	if capacity == events.Spot {
		s.ProvisioningModel, s.Preemptible, s.InstanceTerminationAction = "SPOT", true, "DELETE"
		if c.cfg.NoticeLead > 0 {
			s.PreemptionNoticeDuration = &compute.Duration{Seconds: int64(math.Ceil(c.cfg.NoticeLead.Seconds()))}
		}
	}
	if c.cfg.MaxRun > 0 {
		s.MaxRunDuration = &compute.Duration{Seconds: int64(math.Ceil(c.cfg.MaxRun.Seconds()))}
		s.InstanceTerminationAction = "DELETE"
	}
	return s
}

func (c *Client) disk(zone string) *compute.AttachedDisk {
	return &compute.AttachedDisk{
		Boot: true, AutoDelete: true, Type: "PERSISTENT",
		InitializeParams: &compute.AttachedDiskInitializeParams{
			SourceImage: c.cfg.Image, DiskSizeGb: int64(c.cfg.DiskGB), DiskType: "zones/" + zone + "/diskTypes/" + c.cfg.DiskType,
			Labels: map[string]string{markLabel: markValue(c.cfg.Mark)},
		},
	}
}

func (c *Client) nic(zone string) *compute.NetworkInterface {
	n := &compute.NetworkInterface{Network: c.cfg.Network}
	if c.cfg.Subnetwork != "" {
		n.Subnetwork = strings.ReplaceAll(c.cfg.Subnetwork, "%s", regionOf(zone))
	}
	if !c.cfg.Internal {
		n.AccessConfigs = []*compute.AccessConfig{{Name: "External NAT", Type: "ONE_TO_ONE_NAT"}}
	}
	return n
}

func pointer[T any](v T) *T { return &v }
