package azure

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// maxUserData is what a machine takes of user data before it is encoded.
const maxUserData = 48 << 10

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
	case len(spec.UserData) > maxUserData:
		return no("user_data has %d bytes; a machine takes up to %d", len(spec.UserData), maxUserData)
	}
	return nil
}

// machine is the request's body.
func (c *Client) machine(spec provider.LaunchSpec, token string, q quote) (armcompute.VirtualMachine, error) {
	tags, err := facts{
		Token: token, Mark: c.cfg.Mark, Pool: spec.Pool, Price: q.offer.Price, Terms: q.offer.Terms,
		Labels: spec.Labels, Digest: spec.Digest(),
	}.tags()
	if err != nil {
		return armcompute.VirtualMachine{}, err
	}
	name := c.names.Of(token)
	p := &armcompute.VirtualMachineProperties{
		HardwareProfile: &armcompute.HardwareProfile{VMSize: pointer(armcompute.VirtualMachineSizeTypes(spec.Pool.InstanceType))},
		Priority:        pointer(armcompute.VirtualMachinePriorityTypesRegular),
		StorageProfile:  c.disk(spec.Pool.Region),
		OSProfile: &armcompute.OSProfile{
			ComputerName: &name, AdminUsername: &c.cfg.Admin,
			LinuxConfiguration: &armcompute.LinuxConfiguration{
				DisablePasswordAuthentication: pointer(true),
				SSH: &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
					Path: pointer("/home/" + c.cfg.Admin + "/.ssh/authorized_keys"), KeyData: &c.cfg.SSHKey,
				}}},
			},
		},
		NetworkProfile: c.network(spec.Pool.Region),
		UserData:       pointer(base64.StdEncoding.EncodeToString(spec.UserData)),
	}
	if spec.Pool.Capacity == events.Spot {
		p.Priority = pointer(armcompute.VirtualMachinePriorityTypesSpot)
		p.EvictionPolicy = pointer(armcompute.VirtualMachineEvictionPolicyTypesDelete)
		p.BillingProfile = &armcompute.BillingProfile{MaxPrice: pointer(highest(spec.MaxPrice, q.onDemand))}
	}
	return armcompute.VirtualMachine{Location: &spec.Pool.Region, Tags: tags, Properties: p}, nil
}

// highest is the price above which Azure is to evict: five decimals, rounded down.
// Spot never costs more than on demand, so who would pay that is not evicted for the price: -1.
func highest(price, onDemand events.PerInstanceHour) float64 {
	const fifth = events.DollarPerHour / 100_000
	if onDemand > 0 && price >= onDemand || price < fifth {
		return -1
	}
	return float64(price/fifth) / 100_000
}

// disk goes with its machine, however that ends.
func (c *Client) disk(region string) *armcompute.StorageProfile {
	image := &armcompute.ImageReference{}
	if parts := strings.Split(c.cfg.Image, ":"); len(parts) == 4 && !strings.HasPrefix(c.cfg.Image, "/") {
		image.Publisher, image.Offer, image.SKU, image.Version = &parts[0], &parts[1], &parts[2], &parts[3]
	} else {
		image.ID = pointer(strings.ReplaceAll(c.cfg.Image, "%s", region))
	}
	return &armcompute.StorageProfile{
		ImageReference: image,
		OSDisk: &armcompute.OSDisk{
			CreateOption: pointer(armcompute.DiskCreateOptionTypesFromImage),
			DeleteOption: pointer(armcompute.DiskDeleteOptionTypesDelete),
			DiskSizeGB:   pointer(int32(c.cfg.DiskGB)),
			ManagedDisk:  &armcompute.ManagedDiskParameters{StorageAccountType: pointer(armcompute.StorageAccountTypes(c.cfg.DiskType))},
		},
	}
}

// network has the interface made with the machine and deleted with it.
func (c *Client) network(region string) *armcompute.NetworkProfile {
	address := &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{
		Primary: pointer(true),
		Subnet:  &armcompute.SubResource{ID: pointer(strings.ReplaceAll(c.cfg.Subnet, "%s", region))},
	}
	if c.cfg.Public {
		address.PublicIPAddressConfiguration = &armcompute.VirtualMachinePublicIPAddressConfiguration{
			Name: pointer("public"), SKU: &armcompute.PublicIPAddressSKU{Name: pointer(armcompute.PublicIPAddressSKUNameStandard)},
			Properties: &armcompute.VirtualMachinePublicIPAddressConfigurationProperties{DeleteOption: pointer(armcompute.DeleteOptionsDelete)},
		}
	}
	return &armcompute.NetworkProfile{
		NetworkAPIVersion: pointer(armcompute.NetworkAPIVersionTwoThousandTwentyTwo1101),
		NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{{
			Name: pointer("nic"),
			Properties: &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{
				Primary: pointer(true), DeleteOption: pointer(armcompute.DeleteOptionsDelete),
				IPConfigurations: []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{{Name: pointer("ip"), Properties: address}},
			},
		}},
	}
}
