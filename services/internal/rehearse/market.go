package rehearse

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

// pools is how many pools the private market has: one that took a machine away
// is left alone for a while, and the job is to go on at once.
const pools = 6

// Market is what the private seller sells from: this machine, a few times over,
// as whatever the job asks for. It takes nothing away by itself.
func Market(spec events.JobSpec) trace.Spec {
	gpu := events.GPU{Vendor: "nvidia", Model: "V100", Form: "SXM", Count: 1, MemoryMiB: 16384}
	if a := spec.Resources.Accelerators; len(a) > 0 {
		gpu.Model, gpu.Count = a[0].Model, a[0].Count
	}
	row := func(zone string, capacity events.CapacityType) trace.TablePool {
		pool := events.Pool{Seller: "local", Region: "here", Zone: zone, InstanceType: "this-machine", Capacity: capacity, Gang: 1}
		onDemand := pool
		onDemand.Zone, onDemand.Capacity = "here-1", events.OnDemand
		return trace.TablePool{Prices: []events.PriceFrom{{Price: events.DollarPerHour / 100}}, Info: trace.PoolInfo{OnDemand: onDemand, Offer: events.Offer{
			Pool: pool, Country: "US", SpeedPct: 100, DiskGB: 1 << 20, VCPU: 1 << 10, RAMMiB: 1 << 24, GPU: gpu,
			Terms: events.Terms{GrainS: 1, MinimumS: 1, FreeIfReclaimedS: 0},
		}}}
	}
	t := trace.Table{}
	for n := range pools {
		t.List = append(t.List, row(fmt.Sprintf("here-%d", n+1), events.Spot))
	}
	t.List = append(t.List, row("here-1", events.OnDemand))
	return trace.Spec{Kind: "table", Table: &t}
}

// Divide is by how much the waits of a rehearsal's system are shorter than in
// earnest. A short one cannot wait half a minute to find a machine gone; a long
// one leaves more time for what is slow, such as a checkpoint that is written with pauses.
func Divide(limit time.Duration) int {
	switch {
	case limit >= 3*time.Minute:
		return 2
	case limit >= time.Minute:
		return 5
	}
	return 10
}
