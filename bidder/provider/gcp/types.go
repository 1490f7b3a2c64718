package gcp

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// computeEngine is the name of Compute Engine among the services that are billed.
const computeEngine = "services/6F81-5844-456A"

// partition is what one local SSD has, in GiB.
const partition = 375

// shapes reads which machines with GPUs each zone has.
func (c *Client) shapes(ctx context.Context) (map[string][]shape, *provider.Error) {
	plain := map[string]map[string]shape{} // by zone and name, also without GPUs
	sold := map[string][]shape{}
	ctx, t := wire.Embark(ctx, wire.MostOffers)
	err := pages(func(token string) (string, error) {
		p, err := c.compute.MachineTypes.AggregatedList(c.cfg.Project).Filter(machineFilter).MaxResults(500).
			PageToken(token).Context(ctx).Do(partial)
		if err != nil {
			return "", err
		}
		if p == nil {
			return "", errNoAnswer
		}
		for scope, in := range p.Items {
			zone := last(scope)
			if !c.buysIn(zone) {
				continue
			}
			for _, m := range in.MachineTypes {
				note(plain, sold, zone, m)
			}
		}
		return p.NextPageToken, nil
	})
	if err == nil {
		err = c.attachable(ctx, plain, sold)
	}
	if err != nil {
		return nil, failed(provider.OpOffers, t.Sent(), err)
	}
	return sold, nil
}

func (c *Client) buysIn(zone string) bool {
	return plainName.MatchString(zone) && (len(c.cfg.Regions) == 0 || slices.Contains(c.cfg.Regions, regionOf(zone)))
}

// note takes a machine type of a zone.
func note(plain map[string]map[string]shape, sold map[string][]shape, zone string, m *compute.MachineType) {
	if m == nil || m.Deprecated != nil && (m.Deprecated.State == "OBSOLETE" || m.Deprecated.State == "DELETED") {
		return
	}
	s := shape{name: m.Name, vcpu: int(m.GuestCpus), ramMiB: int(m.MemoryMb)}
	if m.BundledLocalSsds != nil {
		s.ssdGiB = int(m.BundledLocalSsds.PartitionCount) * partition
	}
	if len(m.Accelerators) == 1 && m.Accelerators[0] != nil {
		s.gpu, s.gpus = m.Accelerators[0].GuestAcceleratorType, int(m.Accelerators[0].GuestAcceleratorCount)
	}
	if plain[zone] == nil {
		plain[zone] = map[string]shape{}
	}
	if _, twice := plain[zone][s.name]; twice || !plainName.MatchString(s.name) {
		return
	}
	plain[zone][s.name] = s
	if s.sane() {
		sold[zone] = append(sold[zone], s)
	}
}

// attachable adds the types that take GPUs, in the zones that have these GPUs.
func (c *Client) attachable(ctx context.Context, plain map[string]map[string]shape, sold map[string][]shape) error {
	return pages(func(token string) (string, error) {
		p, err := c.compute.AcceleratorTypes.AggregatedList(c.cfg.Project).Filter(acceleratorFilter).MaxResults(500).
			PageToken(token).Context(ctx).Do(partial)
		if err != nil {
			return "", err
		}
		if p == nil {
			return "", errNoAnswer
		}
		for scope, in := range p.Items {
			zone := last(scope)
			for _, a := range in.AcceleratorTypes {
				if a != nil {
					sold[zone] = append(sold[zone], attach(plain[zone], a.Name)...)
				}
			}
		}
		return p.NextPageToken, nil
	})
}

// attach is what a zone's types become with a GPU.
func attach(plain map[string]shape, gpu string) []shape {
	var out []shape
	for _, w := range withGPU {
		s, ok := plain[w.machine]
		if !ok || w.gpu != gpu {
			continue
		}
		s.gpu, s.gpus, s.suffix, s.attached = w.gpu, w.gpus, w.suffix, true
		if s.sane() {
			out = append(out, s)
		}
	}
	return out
}

// rates reads what the parts cost.
func (c *Client) rates(ctx context.Context) (prices, *provider.Error) {
	all := prices{}
	ctx, t := wire.Embark(ctx, wire.MostOffers)
	err := pages(func(token string) (string, error) {
		p, err := c.billing.Services.Skus.List(computeEngine).CurrencyCode("USD").PageSize(5000).PageToken(token).Context(ctx).Do()
		if err != nil {
			return "", err
		}
		if p == nil {
			return "", errNoAnswer
		}
		for _, s := range p.Skus {
			all.add(s)
		}
		return p.NextPageToken, nil
	})
	if err != nil {
		return nil, failed(provider.OpOffers, t.Sent(), err)
	}
	return all, nil
}
