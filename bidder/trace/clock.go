package trace

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Clock converts between control time, which passes, and market time, which
// passes Scale times as fast. It is a value: a state directory keeps it as JSON,
// so that a market goes on after a restart where it would be by now.
//
// Every control instant has an exact market instant. A market instant has the
// control instant at which it has just been reached, so Control(Market(t)) is t
// to the nanosecond, and Market(Control(m)) is m or less than Scale nanoseconds later.
type Clock struct {
	Control0 time.Time `json:"control0"`
	Market0  time.Time `json:"market0"` // market time at Control0
	Scale    int64     `json:"scale"`   // market seconds in a control second; 0 means 1
}

// NewClock returns the clock on which market time is market at control and runs scale times as fast.
func NewClock(control, market time.Time, scale int64) Clock {
	return Clock{Control0: control.Round(0).UTC(), Market0: market.Round(0).UTC(), Scale: scale}
}

// RealTime is the clock on which both times are the same.
func RealTime() Clock {
	epoch := time.Unix(0, 0).UTC()
	return Clock{Control0: epoch, Market0: epoch, Scale: 1}
}

// maxScale keeps the products of a nanosecond part and a scale inside int64.
const maxScale = 1_000_000_000

// Validate says which field cannot be used.
func (c Clock) Validate() error {
	switch {
	case c.Scale < 0 || c.Scale > maxScale:
		return errors.New("clock: scale must be from 1 to 1000000000 market seconds in a second (1 is real time)")
	case c.Control0.IsZero() != c.Market0.IsZero():
		return errors.New("clock: control0 and market0 belong together: give both, or neither for real time")
	}
	return nil
}

func (c Clock) scale() int64 { return max(c.Scale, 1) }

// Market returns market time at a control instant.
func (c Clock) Market(control time.Time) time.Time {
	s, ns := since(control, c.Control0)
	return after(c.Market0, s*c.scale(), ns*c.scale())
}

// Control returns the first control instant at which it is at least market.
func (c Clock) Control(market time.Time) time.Time {
	s, ns := since(market, c.Market0)
	q, r := floorDiv(s, c.scale())
	part := r*1_000_000_000 + ns // less than scale seconds, in nanoseconds
	up := (part + c.scale() - 1) / c.scale()
	return after(c.Control0, q, up)
}

// Moment is a control instant on both clocks.
func (c Clock) Moment(control time.Time) events.Moment {
	return events.Moment{Control: control, Market: c.Market(control)}
}

// MarketFor returns how much market time passes in d of control time, at most
// the longest Duration.
func (c Clock) MarketFor(d time.Duration) time.Duration {
	neg := d < 0
	hi, lo := bits.Mul64(uint64(d.Abs()), uint64(c.scale()))
	switch {
	case (hi > 0 || lo > math.MaxInt64) && neg:
		return math.MinInt64
	case hi > 0 || lo > math.MaxInt64:
		return math.MaxInt64
	case neg:
		return -time.Duration(lo)
	}
	return time.Duration(lo)
}

// ControlFor returns how much control time it takes until d of market time has
// passed, rounded up to a nanosecond.
func (c Clock) ControlFor(d time.Duration) time.Duration {
	q, r := floorDiv(int64(d), c.scale())
	if r > 0 {
		q++
	}
	return time.Duration(q)
}

// since returns t - from as whole seconds and 0 <= ns < 1e9, over any distance.
func since(t, from time.Time) (s, ns int64) {
	s = t.Unix() - from.Unix()
	ns = int64(t.Nanosecond() - from.Nanosecond())
	if ns < 0 {
		s, ns = s-1, ns+1_000_000_000
	}
	return s, ns
}

func after(t time.Time, s, ns int64) time.Time {
	return time.Unix(t.Unix()+s, int64(t.Nanosecond())+ns).UTC()
}

func floorDiv(a, b int64) (q, r int64) {
	q, r = a/b, a%b
	if r < 0 {
		q, r = q-1, r+b
	}
	return q, r
}
