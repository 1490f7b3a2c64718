package market

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const dollar = events.DollarPerHour

func at(s int) events.Moment {
	t := t0.Add(time.Duration(s) * time.Second)
	return events.Moment{Control: t, Market: t}
}

func poolIn(zone string) events.Pool {
	return events.Pool{Seller: "acme", Region: "r1", Zone: zone, InstanceType: "gpu8", Capacity: events.Spot, Gang: 1}
}

// quote is a possible offer of an eight-GPU machine, effective since t0.
func quote(zone string, price events.PerInstanceHour, change ...func(*events.Offer)) events.Offer {
	o := events.Offer{
		Pool: poolIn(zone), GPU: events.GPU{Vendor: "nvidia", Model: "H100", Form: "SXM", Count: 8, MemoryMiB: 81920},
		Price: price, Terms: events.Terms{GrainS: 1}, Market: t0,
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func say(facts []events.Fact) []string {
	var out []string
	for _, f := range facts {
		switch f := f.(type) {
		case events.OfferChanged:
			out = append(out, fmt.Sprintf("%s at %s", f.Offer.Pool.Zone, f.Offer.Price))
		case events.OfferExpired:
			out = append(out, f.Pool.Zone+" "+f.Reason)
		case events.OfferQuarantined:
			out = append(out, f.Pool.Zone+" quarantined: "+f.Field+" "+f.Reason)
		}
	}
	return out
}

func TestWhatAFeedPublishes(t *testing.T) {
	t.Parallel()
	type look struct {
		at     int
		offers []events.Offer
		fails  bool
		want   []string
	}
	since := func(s int) func(*events.Offer) { return func(o *events.Offer) { o.Market = at(s).Market } }
	a, b := quote("a", 10*dollar), quote("b", 12*dollar)
	const a10, a11, b12 = "a at 10.000000000", "a at 11.000000000", "b at 12.000000000"
	for _, tc := range []struct {
		name  string
		looks []look
	}{
		{"the first look is all news, ordered by pool", []look{{0, []events.Offer{b, a}, false, []string{a10, b12}}}},
		{"what did not change is not news", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{30, []events.Offer{a}, false, nil},
			{60, []events.Offer{quote("a", 11*dollar, since(50))}, false, []string{a11}},
		}},
		{"it is told again before consumers lose it", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{60, []events.Offer{a}, false, nil},
			{90, []events.Offer{a}, false, []string{a10}},
			{120, []events.Offer{a}, false, nil},
			{180, []events.Offer{a}, false, []string{a10}},
		}},
		{"an offer that is not returned is gone, once, and news when it is back", []look{
			{0, []events.Offer{a, b}, false, []string{a10, b12}},
			{30, []events.Offer{b}, false, []string{"a gone"}},
			{60, []events.Offer{b}, false, nil},
			{90, []events.Offer{a, b}, false, []string{a10, b12}},
		}},
		{"a feed that fails lets its offers expire rather than freeze", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{60, nil, true, nil},
			{180, nil, true, nil},
			{181, nil, true, []string{"a stale"}},
			{240, nil, true, nil},
			{270, []events.Offer{a}, false, []string{a10}},
		}},
		{"a seller that answers from an old look of its own goes stale too", []look{
			{0, []events.Offer{quote("a", 10*dollar, func(o *events.Offer) { o.Seen = at(0).Control })}, false, []string{a10}},
			{181, []events.Offer{quote("a", 10*dollar, func(o *events.Offer) { o.Seen = at(0).Control })}, false, []string{"a stale"}},
		}},
		{"of several rows of a pool the newest in effect wins", []look{
			{100, []events.Offer{quote("a", 11*dollar, since(90)), a, quote("a", 9*dollar, since(20))}, false, []string{a11}},
		}},
		{"a row older than what is known is not news", []look{
			{100, []events.Offer{quote("a", 11*dollar, since(90))}, false, []string{a11}},
			{130, []events.Offer{a}, false, nil},
		}},
		{"only a changed effective time is not news", []look{
			{100, []events.Offer{a}, false, []string{a10}},
			{130, []events.Offer{quote("a", 10*dollar, since(120))}, false, nil},
		}},
		{"a quote that cannot be is quarantined once, and its pool runs out", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{30, []events.Offer{quote("a", 0)}, false, []string{"a quarantined: price missing: null, unreadable and zero are unknown, not free"}},
			{60, []events.Offer{quote("a", 0)}, false, nil},
			{181, []events.Offer{quote("a", 0)}, false, []string{"a stale"}},
		}},
		{"a hundredfold price is never believed by itself, and is over when it comes back", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{30, []events.Offer{quote("a", 1000*dollar)}, false, []string{"a quarantined: price " + reasonJump}},
			{60, []events.Offer{quote("a", 1000*dollar)}, false, nil},
			{90, []events.Offer{quote("a", 11*dollar, since(80))}, false, []string{a11}},
		}},
		{"a price in cents is not a bargain", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{30, []events.Offer{quote("a", dollar/10)}, false, []string{"a quarantined: price " + reasonJump}},
		}},
		{"a price of one GPU is not that of eight", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{30, []events.Offer{quote("a", 10*dollar/8)}, false, []string{"a quarantined: price " + reasonPerGPU}},
		}},
		{"a new pool that costs what one GPU of its sibling costs is not believed", []look{
			{0, []events.Offer{b, quote("c", 12*dollar/8)}, false, []string{b12, "c quarantined: price " + reasonPerGPU}},
		}},
		{"eight GPUs at the price of one are not believed", []look{
			{0, []events.Offer{
				quote("b", 2*dollar, func(o *events.Offer) { o.Pool.InstanceType, o.GPU.Count = "gpu1", 1 }), quote("c", 2*dollar),
			}, false, []string{"b at 2.000000000", "c quarantined: price " + reasonPerGPU}},
		}},
		{"a real fall by other than the GPU count is news", []look{
			{0, []events.Offer{a}, false, []string{a10}},
			{30, []events.Offer{quote("a", 3*dollar, since(10))}, false, []string{"a at 3.000000000"}},
		}},
		{"another seller's pool is quarantined", []look{
			{0, []events.Offer{quote("a", dollar, func(o *events.Offer) { o.Pool.Seller = "rival" })}, false,
				[]string{"a quarantined: pool.seller another seller's name"}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFeed("acme", Limits{}, 3*time.Minute)
			for _, l := range tc.looks {
				var got []events.Fact
				if l.fails {
					got = f.expire(at(l.at))
				} else {
					got = f.look(at(l.at), l.offers)
				}
				if !slices.Equal(say(got), l.want) {
					t.Errorf("after %d s: %q, want %q", l.at, say(got), l.want)
				}
			}
		})
	}
}

func TestHowAQuarantineEnds(t *testing.T) {
	t.Parallel()
	cheap := func(zone string) events.Offer { return quote(zone, 10*dollar/8) }
	polls := func(f *feed, n int, offers ...events.Offer) (told []string) {
		for i := range n {
			told = append(told, say(f.look(at(30*i), offers))...)
		}
		return told
	}
	count := func(told []string, want string) int {
		n := 0
		for _, s := range told {
			if s == want {
				n++
			}
		}
		return n
	}
	t.Run("a fall to one GPU's share that stands is believed while another pool keeps its unit", func(t *testing.T) {
		t.Parallel()
		f := newFeed("acme", Limits{}, time.Hour)
		f.look(at(-60), []events.Offer{quote("a", 10*dollar), quote("b", 12*dollar)})
		if told := polls(f, 20, cheap("a"), quote("b", 12*dollar)); count(told, "a at 1.250000000") != 0 {
			t.Errorf("believed too early: %q", told)
		}
		if told := polls(f, 2, cheap("a"), quote("b", 12*dollar)); count(told, "a at 1.250000000") != 1 {
			t.Errorf("not believed: %q", told)
		}
	})
	t.Run("it is not while every pool of the seller fell so", func(t *testing.T) {
		t.Parallel()
		f := newFeed("acme", Limits{}, time.Hour)
		f.look(at(-60), []events.Offer{quote("a", 10*dollar), quote("b", 10*dollar)})
		if told := polls(f, 100, cheap("a"), cheap("b")); count(told, "a at 1.250000000") != 0 {
			t.Errorf("a mistaken unit was believed: %q", told)
		}
	})
	t.Run("a jump stands however long, until an operator vouches for it", func(t *testing.T) {
		t.Parallel()
		f := newFeed("acme", Limits{}, time.Hour)
		f.look(at(-60), []events.Offer{quote("a", dollar)})
		if told := polls(f, 500, quote("a", 200*dollar), quote("b", 12*dollar)); count(told, "a at 200.000000000") != 0 {
			t.Errorf("believed by itself: %q", told)
		}
		f.trust(poolIn("a"))
		if told := say(f.look(at(30*500), []events.Offer{quote("a", 200*dollar), quote("b", 12*dollar)})); count(told, "a at 200.000000000") != 1 {
			t.Errorf("not believed after Trust: %q", told)
		}
		if told := say(f.look(at(30*501), []events.Offer{quote("a", dollar)})); count(told, "a at 1.000000000") != 0 {
			t.Errorf("Trust lasted longer than one quote: %q", told)
		}
	})
}

func TestAbsurdQuotes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field string
		spoil func(*events.Offer)
	}{
		{"price", func(o *events.Offer) { o.Price = 0 }},
		{"price", func(o *events.Offer) { o.Price = -1 }},
		{"price", func(o *events.Offer) { o.Price = 9_000_000 * dollar }},
		{"price", func(o *events.Offer) { o.Price = -1 << 63 }},
		{"gpu.count", func(o *events.Offer) { o.GPU.Count = 0 }},
		{"gpu.count", func(o *events.Offer) { o.GPU.Count = -8 }},
		{"gpu.count", func(o *events.Offer) { o.GPU.Count = 1 << 40 }},
		{"gpu.memory_mib", func(o *events.Offer) { o.GPU.MemoryMiB = -1 }},
		{"speed_pct", func(o *events.Offer) { o.SpeedPct = -5 }},
		{"vcpu, ram_mib, disk_gb", func(o *events.Offer) { o.VCPU = -4 }},
		{"egress_per_gb", func(o *events.Offer) { o.Egress = -1 }},
		{"pool.seller", func(o *events.Offer) { o.Pool.Seller = "" }},
		{"pool.region", func(o *events.Offer) { o.Pool.Region = "" }},
		{"pool.zone", func(o *events.Offer) { o.Pool.Zone = "" }},
		{"pool.instance_type", func(o *events.Offer) { o.Pool.InstanceType = "" }},
		{"pool.zone", func(o *events.Offer) { o.Pool.Zone = "z\n\x00" }},
		{"pool.zone", func(o *events.Offer) { o.Pool.Zone = string(make([]byte, 10_000)) }},
		{"pool.capacity_type", func(o *events.Offer) { o.Pool.Capacity = "" }},
		{"pool.capacity_type", func(o *events.Offer) { o.Pool.Capacity = "preemptible" }},
		{"pool.gang_size", func(o *events.Offer) { o.Pool.Gang = -1 }},
		{"terms.grain_s", func(o *events.Offer) { o.Terms.GrainS = 0 }},
		{"terms.minimum_s", func(o *events.Offer) { o.Terms.MinimumS = -1 }},
		{"terms.free_if_reclaimed_s", func(o *events.Offer) { o.Terms.FreeIfReclaimedS = 1 << 60 }},
		{"notice_s", func(o *events.Offer) { o.NoticeS = -120 }},
		{"ttl_s", func(o *events.Offer) { o.TTLS = -1 }},
		{"market_effective", func(o *events.Offer) { o.Market = t0.AddDate(1, 0, 0) }},
		{"observed", func(o *events.Offer) { o.Seen = t0.AddDate(1, 0, 0) }},
	} {
		o := quote("a", 10*dollar, tc.spoil)
		d := Limits{}.Check(o, at(0))
		if d == nil || d.Field != tc.field || len(d.Value) > 100 {
			t.Errorf("spoiled %s: doubt %+v", tc.field, d)
		}
	}
	if d := (Limits{}).Check(quote("a", 10*dollar), at(0)); d != nil {
		t.Errorf("a sound offer is doubted: %+v", d)
	}
}

// anyOffer is sound or absurd, of few pools so that they meet.
func anyOffer(t *rapid.T) events.Offer {
	o := quote(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), events.PerInstanceHour(rapid.Int64Range(-2, 4).Draw(t, "dollars"))*dollar)
	o.Market = t0.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "effective")) * time.Minute)
	o.Seen = t0.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seen")) * time.Minute)
	o.TTLS = rapid.Int64Range(0, 20).Draw(t, "ttl") * 60
	if rapid.Bool().Draw(t, "stock") {
		stock := rapid.Bool().Draw(t, "in stock")
		o.InStock = &stock
	}
	return o
}

func TestTheBookIsTheSameInAnyOrderAndNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []events.Event
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			o := anyOffer(t)
			e := events.Event{Time: o.Seen, Fact: events.OfferChanged{Offer: o}}
			if rapid.IntRange(0, 4).Draw(t, "what") == 0 {
				e.Fact = events.OfferExpired{Pool: o.Pool, Reason: "gone"}
			}
			all = append(all, e)
		}
		first, second := NewBook(Limits{}), NewBook(Limits{})
		for _, e := range all {
			first.Apply(e)
		}
		shuffled := rapid.Permutation(append(all, all...)).Draw(t, "order")
		for _, e := range shuffled {
			second.Apply(e)
		}
		now := t0.Add(time.Duration(rapid.IntRange(30, 50).Draw(t, "now")) * time.Minute)
		got, want := first.Snapshot(now), oracle(all, now)
		if !sameOffers(got, want) {
			t.Fatalf("in order:\n%v\nwant\n%v", got, want)
		}
		if again := second.Snapshot(now); !sameOffers(again, want) {
			t.Fatalf("shuffled and doubled:\n%v\nwant\n%v", again, want)
		}
		for _, o := range got {
			if o.Price <= 0 {
				t.Fatalf("a price of %s is in the book", o.Price)
			}
		}
	})
}

// oracle is the book by definition: of each pool, the newest in effect of the
// sound offers that are fresh and were seen after its last expiry.
func oracle(all []events.Event, now time.Time) []events.Offer {
	expired := map[events.Pool]time.Time{}
	for _, e := range all {
		if x, ok := e.Fact.(events.OfferExpired); ok && e.Time.After(expired[x.Pool]) {
			expired[x.Pool] = e.Time
		}
	}
	best := map[events.Pool]events.Offer{}
	for _, e := range all {
		c, ok := e.Fact.(events.OfferChanged)
		if !ok || c.Offer.Price <= 0 || !c.Offer.Fresh(now) || !c.Offer.Seen.After(expired[c.Offer.Pool]) {
			continue
		}
		if b, ok := best[c.Offer.Pool]; !ok || newer(c.Offer, b) {
			best[c.Offer.Pool] = c.Offer
		}
	}
	var out []events.Offer
	for _, p := range sortedPools(best) {
		out = append(out, best[p])
	}
	return out
}

func sameOffers(a, b []events.Offer) bool {
	return slices.EqualFunc(a, b, func(x, y events.Offer) bool { return text(x) == text(y) })
}

func TestNoQuarantinedQuoteSurfaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFeed("acme", Limits{}, 3*time.Minute)
		b := NewBook(Limits{})
		price := map[events.Pool]events.PerInstanceHour{}
		for n := range rapid.IntRange(1, 40).Draw(t, "looks") {
			now := at(60 * n)
			var offers []events.Offer
			for _, zone := range []string{"a", "b", "c"} {
				p := 10 * dollar * events.PerInstanceHour(rapid.SampledFrom([]int64{0, -1, 1, 1, 1, 1, 2, 1000}).Draw(t, "factor"))
				if rapid.IntRange(0, 5).Draw(t, "unit") == 0 {
					p /= 8
				}
				offers = append(offers, quote(zone, p, func(o *events.Offer) { o.Market = now.Market }))
			}
			for _, fact := range f.look(now, offers) {
				b.Apply(events.Event{Time: now.Control, Fact: fact})
			}
			for _, o := range b.Snapshot(now.Control) {
				last, seen := price[o.Pool]
				if o.Price <= 0 || (seen && last != o.Price && (jumped(last, o.Price, 100) || near(float64(last)/float64(o.Price), 8, 0.05))) {
					t.Fatalf("%s went from %s to %s", o.Pool, last, o.Price)
				}
				price[o.Pool] = o.Price
			}
		}
	})
}

func TestTheBookKnowsHowLongAPoolHasStood(t *testing.T) {
	t.Parallel()
	b := NewBook(Limits{})
	put := func(s int) {
		o := quote("a", 10*dollar, func(o *events.Offer) { o.Seen, o.TTLS = at(s).Control, 60 })
		b.Apply(events.Event{Time: o.Seen, Fact: events.OfferChanged{Offer: o}})
	}
	put(0)
	put(50)
	put(100)
	if since, ok := b.Since(poolIn("a"), at(120).Control); !ok || !since.Equal(t0) {
		t.Errorf("since %s %v, want the start", since, ok)
	}
	if _, ok := b.Since(poolIn("a"), at(200).Control); ok {
		t.Error("a stale pool stands")
	}
	put(300)
	if since, ok := b.Since(poolIn("a"), at(310).Control); !ok || !since.Equal(at(300).Control) {
		t.Errorf("since %s %v after a gap, want its end", since, ok)
	}
	if _, ok := b.Offer(poolIn("nowhere"), at(310).Control); ok {
		t.Error("an unknown pool is on offer")
	}
}
