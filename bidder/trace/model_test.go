package trace

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

// world draws a market and one of its pools.
func world(t *rapid.T) (Market, PoolInfo) {
	seed := rapid.Uint64().Draw(t, "seed")
	m := Market(NewModel(seed, "local"))
	if rapid.Bool().Draw(t, "demo") {
		m = NewDemo(seed, "local", t0, 240)
	}
	return m, rapid.SampledFrom(m.Pools()).Draw(t, "pool")
}

func TestMarketIsAPureFunction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		at := t0.Add(time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "at")))
		ask := func(s Spec) (answers []any) {
			m, err := s.Open()
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range m.Pools() {
				p := i.Offer.Pool
				answers = append(answers, p, m.Price(p, at), m.InStock(p, at), m.NextChange(p, at), m.Reclaims(p, "01j-1-1", at))
			}
			return answers
		}
		for _, s := range []Spec{{Kind: "model", Seed: seed}, {Kind: "demo", Seed: seed, Origin: t0}} {
			if one, two := ask(s), ask(s); !reflect.DeepEqual(one, two) {
				t.Fatalf("two markets of seed %d differ:\n%v\n%v", seed, one, two)
			}
		}
	})
}

func TestNothingChangesBeforeNextChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, info := world(t)
		p := info.Offer.Pool
		at := t0.Add(time.Duration(rapid.Int64Range(0, int64(300*time.Hour)).Draw(t, "at")))
		q, in := m.Price(p, at), m.InStock(p, at)
		if q.Price <= 0 || q.From.After(at) || (!q.Until.IsZero() && !q.Until.After(at)) {
			t.Fatalf("quote %+v at %v", q, at)
		}
		next := m.NextChange(p, at)
		if next.IsZero() {
			next = at.Add(1000 * time.Hour)
		}
		if !next.After(at) {
			t.Fatalf("next change %v is not after %v", next, at)
		}
		between := at.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(at))-1).Draw(t, "between")))
		if got := m.Price(p, between).Price; got != q.Price {
			t.Fatalf("price %v at %v, %v at %v, next change %v", q.Price, at, got, between, next)
		}
		if m.InStock(p, between) != in {
			t.Fatalf("stock differs between %v and %v, next change %v", at, between, next)
		}
	})
}

func TestPricesCoverASpanWithoutRepeats(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, info := world(t)
		end := t0.Add(time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "length")))
		ps := Prices(m, info.Offer.Pool, t0, end)
		if !ps[0].From.Equal(t0) {
			t.Fatalf("prices begin at %v, not at the start", ps[0].From)
		}
		for i, p := range ps[1:] {
			if !p.From.After(ps[i].From) || !p.From.Before(end) || p.Price == ps[i].Price {
				t.Fatalf("prices %v of a span until %v", ps, end)
			}
		}
		at := t0.Add(time.Duration(rapid.Int64Range(0, max(int64(end.Sub(t0))-1, 0)).Draw(t, "at")))
		k := len(ps) - 1
		for ps[k].From.After(at) {
			k--
		}
		if got := m.Price(info.Offer.Pool, at).Price; got != ps[k].Price {
			t.Fatalf("price at %v is %v, the list %v says %v", at, got, ps, ps[k].Price)
		}
	})
}

func TestPricesMoveInSmallSteps(t *testing.T) {
	t.Parallel()
	m := NewModel(7, "local")
	for _, info := range m.Pools()[:7] {
		var steps []float64
		lo, hi := events.PerInstanceHour(1<<62), events.PerInstanceHour(0)
		ps := Prices(m, info.Offer.Pool, t0, t0.Add(2000*time.Hour))
		for i, p := range ps {
			lo, hi = min(lo, p.Price), max(hi, p.Price)
			if i > 0 {
				steps = append(steps, 100*max(float64(p.Price)/float64(ps[i-1].Price), float64(ps[i-1].Price)/float64(p.Price))-100)
			}
		}
		slices.Sort(steps)
		median, most := steps[len(steps)/2], steps[len(steps)-1]
		t.Logf("%v: %d steps, median %.2f %%, largest %.2f %%, %v to %v", info.Offer.Pool, len(steps), median, most, lo, hi)
		if median < 0.1 || median > 1 || most > 5 || hi > lo*3/2 {
			t.Errorf("%v: median step %.2f %%, largest %.2f %%, from %v to %v", info.Offer.Pool, median, most, lo, hi)
		}
	}
}

// TestHazardFallsWithAge counts reclaims against hours lived, as the traces' own
// hazards were counted, and compares with the law of the pool.
func TestHazardFallsWithAge(t *testing.T) {
	t.Parallel()
	m := NewModel(3, "local")
	for _, info := range m.Pools()[:7] {
		var young, old struct{ hours, reclaims float64 }
		for n := range 4000 {
			// Launched over years, so that storms fall at all ages.
			launched := t0.Add(time.Duration(n) * 5 * time.Hour)
			r := m.Reclaims(info.Offer.Pool, fmt.Sprintf("k%d", n), launched)
			last := r[len(r)-1]
			if last.Drawn == ByStorm {
				continue
			}
			life := last.At.Sub(launched).Hours()
			young.hours += min(life, 1)
			if life < 1 {
				young.reclaims++
				continue
			}
			old.hours += life - 1
			old.reclaims++
		}
		first, later := young.reclaims/young.hours, old.reclaims/old.hours
		law := m.Law(info.Offer.Pool)
		t.Logf("%v: %.3f/h in the first hour (law %.3f), %.3f/h later (law %.3f)", info.Offer.Pool, first, law.First, later, law.Later)
		if first < 2*later {
			t.Errorf("%v: %.3f reclaims an hour in the first hour, %.3f later: want at least twice as many", info.Offer.Pool, first, later)
		}
		if first < 0.85*law.First || first > 1.15*law.First {
			t.Errorf("%v: %.3f reclaims an hour in the first hour, the law says %.3f", info.Offer.Pool, first, law.First)
		}
	}
}

func TestReclaims(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, info := world(t)
		key := fmt.Sprintf("01jabc-%d-1", rapid.IntRange(1, 9).Draw(t, "epoch"))
		launched := t0.Add(time.Duration(rapid.Int64Range(0, int64(500*time.Hour)).Draw(t, "launched")))
		rs := m.Reclaims(info.Offer.Pool, key, launched)
		if info.Offer.Pool.Capacity == events.OnDemand {
			if rs != nil {
				t.Fatalf("a machine on demand is reclaimed: %v", rs)
			}
			return
		}
		for i, r := range rs {
			last := i == len(rs)-1
			if (r.Kind == Withdrawn) == last || (r.Kind == Unnoticed) != (r.Notice == 0) || !r.At.After(launched) {
				t.Fatalf("reclaims %+v of a machine launched at %v", rs, launched)
			}
			if r.Kind == Withdrawn && (r.Withdraw <= 0 || r.Withdraw >= r.Notice) {
				t.Fatalf("a warning of %v is withdrawn after %v", r.Notice, r.Withdraw)
			}
			if r.Notice > 0 && r.Notice != time.Duration(info.Offer.NoticeS)*time.Second {
				t.Fatalf("a warning of %v where the offer says %d s", r.Notice, info.Offer.NoticeS)
			}
		}
	})
}

func TestAStormTakesAllSpotPoolsAtOnce(t *testing.T) {
	t.Parallel()
	m := NewModel(11, "local")
	var at time.Time
	for launched := t0; at.IsZero(); launched = launched.Add(time.Hour) {
		for _, r := range m.Reclaims(m.Pools()[1].Offer.Pool, "x-1-1", launched) {
			if r.Drawn == ByStorm {
				at = r.At
			}
		}
	}
	for _, i := range m.Pools() {
		spot := i.Offer.Pool.Capacity == events.Spot
		rs := m.Reclaims(i.Offer.Pool, "y-1-1", at.Add(-time.Millisecond))
		if spot != (len(rs) == 1 && rs[0].At.Equal(at)) {
			t.Errorf("%v: %v in a storm at %v", i.Offer.Pool, rs, at)
		}
		if m.InStock(i.Offer.Pool, at) == spot {
			t.Errorf("%v: in stock %v in the storm", i.Offer.Pool, !spot)
		}
	}
}

func TestOffersSayWhatTheMarketSays(t *testing.T) {
	t.Parallel()
	m := NewModel(1, "elsewhere")
	now := events.Moment{Control: t0, Market: t0.Add(99 * time.Hour)}
	offers := Offers(m, now, time.Minute)
	if len(offers) != 10 {
		t.Fatalf("%d offers, want 10", len(offers))
	}
	for i, o := range offers {
		q := m.Price(o.Pool, now.Market)
		if o.Pool.Seller != "elsewhere" || o.Price != q.Price || !o.Market.Equal(q.From) || !o.Seen.Equal(t0) || o.TTLS != 60 ||
			o.Available() != m.InStock(o.Pool, now.Market) || o.GPU.MemoryMiB == 0 || o.Country == "" || o.Terms.GrainS < 1 {
			t.Errorf("offer %+v", o)
		}
		od := m.Pools()[i].OnDemand
		if od.Capacity != events.OnDemand || od.InstanceType != o.Pool.InstanceType {
			t.Errorf("%v is sold on demand as %v", o.Pool, od)
		}
	}
}

func TestASpecNamesWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	for _, s := range []Spec{{}, {Kind: "modl"}, {Kind: "files"}, {Kind: "table"}, {Kind: "demo"}, {Kind: "model", Scale: -1}} {
		if _, err := s.Open(); err == nil {
			t.Errorf("%+v opens", s)
		}
	}
}
