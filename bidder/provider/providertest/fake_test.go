package providertest_test

import (
	"math/big"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

const price = events.DollarPerHour

func moment() events.Moment { return events.Moment{Control: time.Now(), Market: time.Now()} }

func open(cfg providertest.Config) *providertest.Fake {
	cfg.Now = moment
	cfg.Offers = append(cfg.Offers, providertest.SampleOffer("fake", "us-west-2", price))
	return providertest.New(cfg)
}

func TestFakeKeepsTheContract(t *testing.T) {
	providertest.RunInBubble(t, func(*testing.T) providertest.Harness {
		return providertest.FakeHarness(open(providertest.Config{}), nil)
	})
}

func TestASluggishFakeKeepsTheContract(t *testing.T) {
	providertest.RunInBubble(t, func(*testing.T) providertest.Harness {
		return providertest.FakeHarness(open(providertest.Config{
			Buy: 20 * time.Second, Boot: 30 * time.Second, Stop: 45 * time.Second,
			Visible: 60 * time.Second, EndVisible: 30 * time.Second,
		}), nil)
	})
}

func TestStackKeepsTheContract(t *testing.T) {
	providertest.RunInBubble(t, func(*testing.T) providertest.Harness {
		return providertest.FakeHarness(open(providertest.Config{Buy: time.Second}), func(p provider.Provider) provider.Provider {
			return provider.Stack(p, provider.StackConfig{Seller: "fake"})
		})
	})
}

func TestScheduledThingsHappenOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		start := time.Now()
		var mu sync.Mutex
		say := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, what+" at "+time.Since(start).String())
		}
		f := open(providertest.Config{
			OnLaunch: func(provider.Instance, provider.LaunchSpec) { say("launch") },
			OnNotice: func(n provider.Notice) {
				if n.Withdrawn {
					say("withdrawn")
				} else {
					say("notice")
				}
			},
			OnEnd: func(i provider.Instance) { say("end by " + i.EndedBy) },
		})
		go func() { _ = f.Run(t.Context()) }()
		spec := providertest.SampleSpec(providertest.SampleOffer("fake", "us-west-2", price))
		buy := func(token string) events.InstanceID {
			i, err := f.Launch(t.Context(), spec, token)
			if err != nil {
				t.Fatal(err)
			}
			return i.ID
		}
		a, b := buy("a"), buy("b")
		f.ReclaimAt(a, start.Add(10*time.Minute), 2*time.Minute)
		f.ReclaimAt(b, start.Add(20*time.Minute), 2*time.Minute)
		f.At(start.Add(19*time.Minute), func() { f.Withdraw(b) })
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		want := []string{
			"launch at 0s", "launch at 0s", "notice at 8m0s", "end by seller at 10m0s", "notice at 18m0s", "withdrawn at 19m0s",
		}
		if len(told) != len(want) {
			t.Fatalf("told %v, want %v", told, want)
		}
		for n := range want {
			if told[n] != want[n] {
				t.Errorf("told %v, want %v", told, want)
			}
		}
		if live := f.Live(); len(live) != 1 || live[0].Instance != b {
			t.Errorf("alive %+v, want only %s", live, b)
		}
	})
}

func TestForeignMachinesAreCountedNotSold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(providertest.Config{})
		p := providertest.SampleOffer("fake", "us-west-2", price).Pool
		shown := f.Foreign(p, "somebody-1-1", map[string]string{"env": "production"}, true)
		f.Foreign(p, "somebody-1-2", nil, false)
		l, err := f.List(t.Context())
		if err != nil || len(l.Instances) != 1 || l.Instances[0].ID != shown {
			t.Fatalf("list %+v, %v; want the one foreign machine that is shown", l, err)
		}
		if f.MeterTotal() != 0 || len(f.Live()) != 0 || f.ForeignKills() != 0 {
			t.Error("foreign machines count as ours")
		}
		if err := f.Terminate(t.Context(), shown); err != nil || f.ForeignKills() != 1 {
			t.Errorf("terminating it: %v, counted %d; want 1", err, f.ForeignKills())
		}
	})
}

func TestAnAuctionTakesBackWhoBidsTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := providertest.SampleOffer("fake", "eu-1", price)
		o.Pool.Capacity = events.Bid
		o.Terms.FollowsMarket = true
		f := providertest.New(providertest.Config{Now: moment, Offers: []events.Offer{o}})
		spec := providertest.SampleSpec(o)
		low, err := f.Launch(t.Context(), spec, "low")
		if err != nil {
			t.Fatal(err)
		}
		spec.MaxPrice = 10 * price
		high, err := f.Launch(t.Context(), spec, "high")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		f.SetPrice(o.Pool, 3*price)
		if i, _ := f.Instance(low.ID); i.EndedBy != "seller" {
			t.Errorf("the low bid is %s by %q, want taken back", i.State, i.EndedBy)
		}
		i, _ := f.Instance(high.ID)
		if i.State == provider.Gone || len(i.Prices) != 2 || i.Prices[1].Price != 3*price {
			t.Errorf("the high bid is %s at %v, want alive at the new price", i.State, i.Prices)
		}
	})
}

func TestBillFollowsTheSellersRules(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return base.Add(time.Duration(s * float64(time.Second))) }
	one := []events.PriceFrom{{From: base, Price: 3_600_000_000}} // a tenth of a cent a second
	two := append(one[:1:1], events.PriceFrom{From: at(90), Price: 7_200_000_000})
	for _, tc := range []struct {
		name       string
		start, end float64
		by         string
		prices     []events.PriceFrom
		terms      events.Terms
		want       events.MicroUSD
	}{
		{"seconds are rounded up", 0, 10.2, "us", one, events.Terms{GrainS: 1}, 11_000},
		{"a launch costs at least the minimum", 0, 3, "us", one, events.Terms{GrainS: 1, MinimumS: 60}, 60_000},
		{"a machine that lived no time costs nothing without a minimum", 0, 0, "us", one, events.Terms{GrainS: 60}, 0},
		{"taken back early is free", 0, 3599, "seller", one, events.Terms{GrainS: 1, MinimumS: 60, FreeIfReclaimedS: 3600}, 0},
		{"given back early is not free", 0, 10, "us", one, events.Terms{GrainS: 1, FreeIfReclaimedS: 3600}, 10_000},
		{"a price counts from when it holds", 0, 100, "us", two, events.Terms{GrainS: 1}, 90_000 + 20_000},
		{"rounding up is charged at the last price", 0, 100, "us", two, events.Terms{GrainS: 60}, 90_000 + 60_000},
		{"aligned grains are those the machine touched", 30, 61, "us", one, events.Terms{GrainS: 60, AlignedGrain: true}, 120_000},
		{"an aligned grain has the price it began with", 30, 130, "us", two, events.Terms{GrainS: 60, AlignedGrain: true}, 120_000 + 120_000},
		{"an end before the start costs nothing", 10, 0, "us", one, events.Terms{GrainS: 1}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := providertest.Bill(at(tc.start), at(tc.end), tc.by, tc.prices, tc.terms); got != tc.want {
				t.Errorf("Bill = %d µ$, want %d", got, tc.want)
			}
		})
	}
}

func TestBillIsWithinHalfAMicroDollarAStretchOfTheExactSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		from, exact := base, new(big.Rat)
		var prices []events.PriceFrom
		stretches := rapid.IntRange(1, 5).Draw(t, "stretches")
		for range stretches {
			p := rapid.Int64Range(1, 100_000_000_000).Draw(t, "price")
			s := rapid.Int64Range(1, 100_000).Draw(t, "seconds")
			prices = append(prices, events.PriceFrom{From: from, Price: events.PerInstanceHour(p)})
			exact.Add(exact, big.NewRat(p, 1000).Mul(big.NewRat(p, 1000), big.NewRat(s, 3600)))
			from = from.Add(time.Duration(s) * time.Second)
		}
		got := providertest.Bill(base, from, "us", prices, events.Terms{GrainS: 1})
		off := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(got)), exact)
		if off.Abs(off).Cmp(big.NewRat(int64(stretches), 2)) > 0 {
			t.Fatalf("Bill = %d, exact %s: off by more than half a micro-dollar a stretch", got, exact.FloatString(3))
		}
	})
}
