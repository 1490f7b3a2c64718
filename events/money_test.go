package events_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

// exact is price x span in micro-dollars, as a fraction that loses nothing.
func exact(price events.PerInstanceHour, d time.Duration) *big.Rat {
	product := new(big.Int).Mul(big.NewInt(int64(price)), big.NewInt(int64(d)))
	return new(big.Rat).SetFrac(product, new(big.Int).Mul(big.NewInt(int64(time.Hour)), big.NewInt(1000)))
}

// halfEven rounds a fraction that is not negative.
func halfEven(r *big.Rat) *big.Int {
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	switch twice := rest.Lsh(rest, 1).Cmp(r.Denom()); {
	case twice > 0, twice == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(1))
	}
	return q
}

func saturated(q *big.Int) events.MicroUSD {
	if !q.IsInt64() {
		return math.MaxInt64
	}
	return events.MicroUSD(q.Int64())
}

func prices() *rapid.Generator[events.PerInstanceHour] {
	return rapid.Custom(func(t *rapid.T) events.PerInstanceHour {
		top := rapid.SampledFrom([]int64{100, 5_000_000_000, math.MaxInt64}).Draw(t, "magnitude")
		return events.PerInstanceHour(rapid.Int64Range(0, top).Draw(t, "price"))
	})
}

func spans() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		unit := rapid.SampledFrom([]time.Duration{1, time.Second, time.Hour}).Draw(t, "unit")
		return unit * time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(unit)).Draw(t, "units"))
	})
}

func TestCostIsRoundedOnceHalfToEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, d := prices().Draw(t, "p"), spans().Draw(t, "d")
		if got, want := events.Cost(p, d), saturated(halfEven(exact(p, d))); got != want {
			t.Fatalf("Cost(%d, %d) = %d, want %d", p, d, got, want)
		}
	})
}

func TestCostUpIsTheLeastThatCovers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, d := prices().Draw(t, "p"), spans().Draw(t, "d")
		r := exact(p, d)
		q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
		if rest.Sign() > 0 {
			q.Add(q, big.NewInt(1))
		}
		if got := events.CostUp(p, d); got != saturated(q) || got < events.Cost(p, d) {
			t.Fatalf("CostUp(%d, %d) = %d, want %v", p, d, got, q)
		}
	})
}

func TestCost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		price events.PerInstanceHour
		d     time.Duration
		want  events.MicroUSD
	}{
		{"an hour costs its price", 3 * events.DollarPerHour, time.Hour, 3 * events.Dollar},
		{"ten tenths of an hour at ten cents are exactly ten cents", 100_000_000, time.Hour, 100_000},
		{"half a micro-dollar rounds to the even zero", 500, time.Hour, 0},
		{"one and a half rounds to the even two", 1500, time.Hour, 2},
		{"two and a half rounds to the even two", 2500, time.Hour, 2},
		{"no time costs nothing", events.DollarPerHour, 0, 0},
		{"a negative time costs nothing", events.DollarPerHour, -time.Hour, 0},
		{"a negative price costs nothing", -events.DollarPerHour, time.Hour, 0},
		{"an absurd price never looks cheap", math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"two to the 64th nano-dollars do not wrap to zero", 1 << 62, 4 * time.Hour * 1000, math.MaxInt64},
	} {
		if got := events.Cost(tc.price, tc.d); got != tc.want {
			t.Errorf("%s: Cost = %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestUseIsRoundedHalfToEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := spans().Draw(t, "d")
		want := halfEven(new(big.Rat).SetFrac64(int64(d), int64(time.Hour)/1_000_000))
		if got := events.Use(d); int64(got) != want.Int64() {
			t.Fatalf("Use(%d) = %d, want %v", d, got, want)
		}
	})
}

func TestAmountsSurviveBeingWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 0, -1})).Draw(t, "n")
		m, p := events.MicroUSD(n), events.PerInstanceHour(n)
		if got, err := events.ParseMicroUSD(m.String()); err != nil || got != m {
			t.Fatalf("ParseMicroUSD(%s) = %d, %v; want %d", m, got, err, m)
		}
		if got, err := events.ParsePerInstanceHour(p.String()); err != nil || got != p {
			t.Fatalf("ParsePerInstanceHour(%s) = %d, %v; want %d", p, got, err, p)
		}
		type wire struct {
			M events.MicroUSD
			P events.PerInstanceHour
		}
		b, err := json.Marshal(wire{m, p})
		if err != nil {
			t.Fatal(err)
		}
		var back wire
		if err := json.Unmarshal(b, &back); err != nil || back != (wire{m, p}) {
			t.Fatalf("%s reads as %v, %v", b, back, err)
		}
	})
}

func TestParseMicroUSD(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]events.MicroUSD{
		"120": 120_000_000, "$120": 120_000_000, "0.000001": 1, "-3.5": -3_500_000, "0": 0, "007": 7_000_000, "0.30": 300_000,
		"9223372036854.775807": math.MaxInt64, "-9223372036854.775808": math.MinInt64,
	} {
		if got, err := events.ParseMicroUSD(s); err != nil || got != want {
			t.Errorf("ParseMicroUSD(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "$", "-", ".", ".5", "5.", "1e3", "1_000", "1,000", "NaN", "inf", "0x10", "+5", "--5", "-$5", "$$5", " 5", "5 ", "5 USD", "€5", "٣",
		"0.0000001", "9223372036854.775808", "-9223372036854.775809", "1.2.3", "1.-2",
	} {
		if got, err := events.ParseMicroUSD(s); !errors.Is(err, events.ErrMoney) {
			t.Errorf("ParseMicroUSD(%q) = %d, %v; want ErrMoney", s, got, err)
		}
	}
}

func TestDollarsAreForPeople(t *testing.T) {
	t.Parallel()
	for m, want := range map[events.MicroUSD]string{
		0: "$0.00", 4_999: "$0.00", 5_000: "$0.01", -5_000: "-$0.01", 12_345_678: "$12.35", -120_000_000: "-$120.00",
		math.MaxInt64: "$9223372036854.78", math.MinInt64: "-$9223372036854.78",
	} {
		if got := m.Dollars(); got != want {
			t.Errorf("%d.Dollars() = %s, want %s", int64(m), got, want)
		}
	}
}

func TestPricesPerGPUAndPerInstance(t *testing.T) {
	t.Parallel()
	if got := events.PerGPUHour(2_000_000_001).PerInstance(8); got != 16_000_000_008 {
		t.Errorf("eight GPUs cost %d", got)
	}
	if got := events.PerGPUHour(math.MaxInt64 / 2).PerInstance(8); got != math.MaxInt64 {
		t.Errorf("an absurd price for eight GPUs is %d; it must not wrap", got)
	}
	if got := events.PerInstanceHour(16_000_000_009).PerGPU(8); got != 2_000_000_001 {
		t.Errorf("one of eight GPUs costs %d", got)
	}
	if got := events.PerInstanceHour(5).PerGPU(0); got != 5 {
		t.Errorf("a machine without GPUs is one unit: %d", got)
	}
}
