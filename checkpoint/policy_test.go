package checkpoint_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/checkpoint"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	const most = time.Duration(math.MaxInt64)
	for _, tc := range []struct {
		name       string
		save, mtbr time.Duration
		want       time.Duration
		err        error
	}{
		{"a minute's save and a reclaim every two hours: two hours over root sixty", time.Minute, 2 * time.Hour, 929516003092, nil},
		{"two seconds and 400: forty", 2 * time.Second, 400 * time.Second, 40 * time.Second, nil},
		{"a free save is made at every step", 0, time.Hour, 0, nil},
		{"a save of less than nothing as well", -time.Second, time.Hour, 0, nil},
		{"never more time saving than training", time.Hour, time.Minute, time.Hour, nil},
		{"as long as a duration can be", most, most, most, nil},
		{"no rate, no guess", time.Minute, 0, 0, checkpoint.ErrNoRate},
		{"a negative rate is none", time.Minute, -time.Hour, 0, checkpoint.ErrNoRate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := checkpoint.Interval(tc.save, tc.mtbr)
			if !errors.Is(err, tc.err) || (got-tc.want).Abs() > time.Microsecond {
				t.Errorf("Interval(%v, %v) = %v, %v; want %v, %v", tc.save, tc.mtbr, got, err, tc.want, tc.err)
			}
		})
	}
}

// TestIntervalIsTheMinimum compares with its neighbours the cost Young minimises:
// the share of time spent saving plus the expected share lost.
func TestIntervalIsTheMinimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		save := time.Duration(rapid.Int64Range(1e6, 1e12).Draw(t, "save"))
		mtbr := save * time.Duration(rapid.Int64Range(2, 1e4).Draw(t, "mtbr/save"))
		at, err := checkpoint.Interval(save, mtbr)
		if err != nil {
			t.Fatal(err)
		}
		cost := func(i float64) float64 { return float64(save)/i + i/(2*float64(mtbr)) }
		for _, factor := range []float64{0.9, 1.1} {
			if cost(float64(at)) > cost(float64(at)*factor) {
				t.Fatalf("%v costs more than %v times it", at, factor)
			}
		}
	})
}
