package checkpoint

import (
	"math"
	"time"
)

// Interval returns how long to train between checkpoints so that time spent
// saving and time expected to be lost to reclaims are together least.
//
// save is how long one checkpoint keeps the trainer waiting; an upload that
// overlaps training does not count. mtbr is the pool's mean time between
// reclaims. The result is never shorter than save: a job would otherwise spend
// more time saving than training. A save of zero or less gives zero, every step.
// A result that a time.Duration cannot hold is the longest it can.
//
// It returns ErrNoRate if mtbr is not positive; callers then use the job's
// configured interval rather than guess.
//
// This is Young's first-order optimum, sqrt(2 * save * mtbr), for reclaims that
// arrive as a Poisson process; at save = mtbr/12 it costs 1% more than the exact
// optimum. J. W. Young, CACM 17(9), 1974, doi 10.1145/361147.361115.
func Interval(save, mtbr time.Duration) (time.Duration, error) {
	if mtbr <= 0 {
		return 0, ErrNoRate
	}
	if save <= 0 {
		return 0, nil
	}
	t := math.Sqrt(2 * float64(save) * float64(mtbr))
	if t >= math.MaxInt64 {
		return math.MaxInt64, nil
	}
	return max(time.Duration(t), save), nil
}
