package events

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// MicroUSD is an amount of money in millionths of a US dollar. On the wire it
// is a decimal string ("12.345678"), because JSON numbers lose cents.
type MicroUSD int64

// NanoUSD is a unit price in billionths of a US dollar. Per-second prices need
// the three digits that MicroUSD does not have.
type NanoUSD int64

// PerInstanceHour is the price of one whole instance for one hour.
type PerInstanceHour NanoUSD

// PerGPUHour is the price of one GPU for one hour. It is a type of its own so
// that it cannot be compared with a PerInstanceHour by accident.
type PerGPUHour NanoUSD

// MicroHours is a quantity of use: one millionth of an hour, 3.6 ms.
type MicroHours int64

// Dollar and DollarPerHour make constants readable.
const (
	Dollar        MicroUSD        = 1_000_000
	DollarPerHour PerInstanceHour = 1_000_000_000
)

// PerInstance returns what an instance with gpus GPUs costs an hour. A product
// beyond int64 saturates rather than wraps.
func (p PerGPUHour) PerInstance(gpus int) PerInstanceHour {
	if p <= 0 || gpus <= 0 {
		return PerInstanceHour(int64(p) * int64(gpus))
	}
	hi, lo := bits.Mul64(uint64(p), uint64(gpus))
	if hi > 0 {
		return math.MaxInt64
	}
	return PerInstanceHour(saturate(lo))
}

// PerGPU returns the price of one of gpus GPUs, rounded down to a nano-dollar.
// It is for comparison and display; nothing is billed from it.
func (p PerInstanceHour) PerGPU(gpus int) PerGPUHour {
	return PerGPUHour(int64(p) / int64(max(gpus, 1)))
}

const nanosPerMicroHour = int64(time.Hour) * 1000 // ns·(nano-dollar/µ-dollar) in one hour

// Cost returns price x d rounded half to even, once, to a micro-dollar. A
// negative price or duration costs nothing; a product beyond int64 saturates
// rather than wraps, so that an absurd price can never look cheap.
func Cost(price PerInstanceHour, d time.Duration) MicroUSD {
	q, r := product(price, d)
	half := uint64(nanosPerMicroHour / 2)
	if r > half || (r == half && q&1 == 1) {
		q++
	}
	return saturate(q)
}

// CostUp is Cost rounded up: what a budget check must assume.
func CostUp(price PerInstanceHour, d time.Duration) MicroUSD {
	q, r := product(price, d)
	if r > 0 {
		q++
	}
	return saturate(q)
}

func product(price PerInstanceHour, d time.Duration) (quo, rem uint64) {
	if price <= 0 || d <= 0 {
		return 0, 0
	}
	hi, lo := bits.Mul64(uint64(price), uint64(d))
	if hi >= uint64(nanosPerMicroHour) {
		return math.MaxInt64, 0
	}
	return bits.Div64(hi, lo, uint64(nanosPerMicroHour))
}

func saturate(q uint64) MicroUSD {
	return MicroUSD(min(q, uint64(math.MaxInt64)))
}

// Use returns d in micro-hours, rounded half to even.
func Use(d time.Duration) MicroHours {
	const unit = int64(time.Hour) / 1_000_000
	q, r := int64(d)/unit, int64(d)%unit
	if 2*r > unit || (2*r == unit && q&1 == 1) {
		q++
	}
	return MicroHours(q)
}

// ErrMoney is wrapped by every error about an amount that cannot be read.
var ErrMoney = errors.New("not an amount of money")

// ParseMicroUSD reads "120", "$120", "0.000001" or "-3.5" exactly: no exponents, no
// separators, at most six decimals.
func ParseMicroUSD(s string) (MicroUSD, error) {
	v, err := parseDecimal(strings.TrimPrefix(s, "$"), 6)
	if err != nil {
		return 0, fmt.Errorf("%q: %w (write dollars with at most six decimals, like 12.50)", s, err)
	}
	return MicroUSD(v), nil
}

// ParsePerInstanceHour reads a price in dollars an hour with at most nine decimals.
func ParsePerInstanceHour(s string) (PerInstanceHour, error) {
	v, err := parseDecimal(strings.TrimPrefix(s, "$"), 9)
	if err != nil {
		return 0, fmt.Errorf("%q: %w (write dollars an hour with at most nine decimals, like 1.99)", s, err)
	}
	return PerInstanceHour(v), nil
}

func parseDecimal(s string, places int) (int64, error) {
	abs, negative := strings.CutPrefix(s, "-")
	whole, frac, dotted := strings.Cut(abs, ".")
	if whole == "" || len(frac) > places || (dotted && frac == "") || !digits(whole) || !digits(frac) {
		return 0, ErrMoney
	}
	sign := ""
	if negative {
		sign = "-"
	}
	v, err := strconv.ParseInt(sign+whole+frac+strings.Repeat("0", places-len(frac)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: out of range", ErrMoney)
	}
	return v, nil
}

func digits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

func formatDecimal(v int64, places int) string {
	sign := ""
	u := uint64(v)
	if v < 0 {
		sign, u = "-", -u
	}
	s := strconv.FormatUint(u, 10)
	if len(s) <= places {
		s = strings.Repeat("0", places-len(s)+1) + s
	}
	return sign + s[:len(s)-places] + "." + s[len(s)-places:]
}

// String gives dollars with six decimals: "12.345678".
func (m MicroUSD) String() string { return formatDecimal(int64(m), 6) }

// Dollars gives dollars to the cent, rounded half away from zero, for people.
func (m MicroUSD) Dollars() string {
	v, sign := uint64(m), ""
	if m < 0 {
		v, sign = -v, "-"
	}
	cents := (v + 5_000) / 10_000
	return fmt.Sprintf("%s$%d.%02d", sign, cents/100, cents%100)
}

// String gives dollars an hour with nine decimals.
func (p PerInstanceHour) String() string { return formatDecimal(int64(p), 9) }

// String gives dollars an hour for one GPU with nine decimals.
func (p PerGPUHour) String() string { return formatDecimal(int64(p), 9) }

// MarshalText writes the decimal string that the contract asks for.
func (m MicroUSD) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *MicroUSD) UnmarshalText(b []byte) error {
	v, err := ParseMicroUSD(string(b))
	if err == nil {
		*m = v
	}
	return err
}

// MarshalText writes a decimal string with nine places.
func (p PerInstanceHour) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (p *PerInstanceHour) UnmarshalText(b []byte) error {
	v, err := ParsePerInstanceHour(string(b))
	if err == nil {
		*p = v
	}
	return err
}
