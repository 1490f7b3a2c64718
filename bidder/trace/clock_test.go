package trace

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func clocks(t *rapid.T) Clock {
	instant := func(label string) time.Time {
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, label), rapid.Int64Range(0, 999_999_999).Draw(t, label+"_ns"))
	}
	return NewClock(instant("control0"), instant("market0"), rapid.Int64Range(1, 100_000).Draw(t, "scale"))
}

func TestClockIsReversible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := clocks(t)
		// Thirty years around the origin: further than a Duration reaches in market time.
		at := c.Control0.Add(time.Duration(rapid.Int64Range(-1e18, 1e18).Draw(t, "since")))
		if got := c.Control(c.Market(at)); !got.Equal(at) {
			t.Fatalf("Control(Market(%v)) = %v", at, got)
		}
		m := c.Market0.Add(time.Duration(rapid.Int64Range(-1e18, 1e18).Draw(t, "market")))
		back := c.Market(c.Control(m))
		if late := back.Sub(m); late < 0 || late >= time.Duration(c.Scale) {
			t.Fatalf("Market(Control(%v)) is %v later, want 0 to %d ns", m, late, c.Scale-1)
		}
	})
}

func TestClockDurationsAgreeWithInstants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := clocks(t)
		d := time.Duration(rapid.Int64Range(0, int64(10*time.Hour)).Draw(t, "d"))
		if got, want := c.MarketFor(d), c.Market(c.Control0.Add(d)).Sub(c.Market0); got != want {
			t.Fatalf("MarketFor(%v) = %v, want %v", d, got, want)
		}
		if got, want := c.ControlFor(d), c.Control(c.Market0.Add(d)).Sub(c.Control0); got != want {
			t.Fatalf("ControlFor(%v) = %v, want %v", d, got, want)
		}
	})
}

func TestClock(t *testing.T) {
	t.Parallel()
	demo := NewClock(t0, t0.Add(-1000*time.Hour), 240)
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"a second is four market minutes at scale 240", demo.MarketFor(time.Second), 4 * time.Minute},
		{"a second later on the wall is four minutes later on the market", demo.Market(t0.Add(time.Second)), demo.Market0.Add(4 * time.Minute)},
		{"a market hour is over after fifteen seconds", demo.ControlFor(time.Hour), 15 * time.Second},
		{"the zero clock is real time", Clock{}.Market(t0), t0},
		{"real time converts to itself", RealTime().Control(t0), t0},
		{"more market time than a duration holds is the longest duration", demo.MarketFor(math.MaxInt64 / 2), time.Duration(math.MaxInt64)},
		{"and the other way round the shortest", demo.MarketFor(math.MinInt64), time.Duration(math.MinInt64)},
		{"a moment carries both", demo.Moment(t0.Add(time.Minute)).Market, demo.Market0.Add(4 * time.Hour)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.got != tc.want {
				t.Errorf("got %v, want %v", tc.got, tc.want)
			}
		})
	}
}

func TestClockSurvivesJSON(t *testing.T) {
	t.Parallel()
	c := NewClock(t0.Add(123456789), t0.Add(time.Hour+1), 288)
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back Clock
	if err := json.Unmarshal(b, &back); err != nil || back != c {
		t.Errorf("%s became %+v, %v", b, back, err)
	}
}

func TestClockValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []Clock{{Scale: -1}, {Scale: maxScale + 1}, {Control0: t0}, {Market0: t0, Scale: 2}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
	if err := RealTime().Validate(); err != nil {
		t.Error(err)
	}
}
