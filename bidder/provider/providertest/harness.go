package providertest

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// SampleOffer is a plausible offer: one V100 in zone "<region>a" at price an hour.
// Change what a test is about.
func SampleOffer(seller, region string, price events.PerInstanceHour) events.Offer {
	return events.Offer{
		Pool: events.Pool{
			Seller: seller, Region: region, Zone: region + "a", InstanceType: "p3.2xlarge", Capacity: events.Spot, Gang: 1,
		},
		GPU:  events.GPU{Vendor: "nvidia", Model: "V100", Form: "SXM2", Count: 1, MemoryMiB: 16384},
		VCPU: 8, RAMMiB: 62464, DiskGB: 100, Country: "US", Price: price, SpeedPct: 100,
		Terms:   events.Terms{GrainS: 1, MinimumS: 60, FreeIfReclaimedS: 3600},
		NoticeS: 120,
	}
}

// SampleSpec is a request for what o offers, at up to twice its price.
func SampleSpec(o events.Offer) provider.LaunchSpec {
	return provider.LaunchSpec{
		Pool: o.Pool, MaxPrice: 2 * o.Price, UserData: []byte(`{"job":"01jconformance"}`),
		Labels: map[string]string{"env": "test", "org": "acme", "job": "01jconformance"},
	}
}

// FakeHarness wraps a fake, seen through look (nil: Typed), for the suite.
func FakeHarness(f *Fake, look func(provider.Provider) provider.Provider) Harness {
	if look == nil {
		look = provider.Typed
	}
	offers := func() events.Offer {
		return read(f, func() events.Offer { return f.sortedPools()[0].offer })
	}
	n := 0
	return Harness{
		Seller: look(f),
		Spec:   func() provider.LaunchSpec { return SampleSpec(offers()) },
		Token: func() string {
			n++
			return fmt.Sprintf("01jconformance-1-%d", n)
		},
		Pass:    time.Sleep,
		Settle:  f.cfg.Visible + f.cfg.EndVisible + f.cfg.Boot + f.cfg.Stop + 5*time.Second,
		Script:  f.Script,
		Reclaim: func(id events.InstanceID) { f.Kill(id, "seller") },
		Warn:    f.Warn,
		Bought:  func() int { return len(f.Intervals()) },
	}
}
