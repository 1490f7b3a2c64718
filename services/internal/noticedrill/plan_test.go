package noticedrill

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// run is one machine's fate as it was drawn.
type run struct {
	n      int
	notice time.Duration
	share  float64 // bytes over bandwidth, in notices
	rate   float64 // of the line, bytes a second
	bytes  int     // of a checkpoint
	shards int
	step   time.Duration
	every  int           // steps between the trainer's own saves
	after  time.Duration // from the first commit to the notice
}

// terms are what runs are drawn from.
type terms struct {
	shortest, longest time.Duration // notices
	most              int           // bytes of a checkpoint
	slowest, fastest  float64       // lines
	shares            [][2]float64
	patience          time.Duration // the most from the first commit to the notice
}

// full is what the drill is about.
func full() terms {
	return terms{5 * time.Second, 2 * time.Minute, 100 << 20, 0.5 * (1 << 20), 4 * (1 << 20), [][2]float64{{0.05, 1.25}}, 45 * time.Second}
}

// quick is a look at it: no run is near the limit.
func quick() terms {
	return terms{3 * time.Second, 5 * time.Second, 8 << 20, 1 << 20, 4 * (1 << 20), [][2]float64{{0.1, 0.5}, {1.4, 1.6}}, 3 * time.Second}
}

// draw draws n runs, the longest first: they are begun in this order.
func (t terms) draw(seed uint64, n int) []run {
	rng := rand.New(rand.NewPCG(seed, 0x6e6f74696365))
	runs := make([]run, n)
	for i := range runs {
		runs[i] = t.one(rng)
		runs[i].n = i
	}
	slices.SortStableFunc(runs, func(a, b run) int { return int(b.expected() - a.expected()) })
	return runs
}

func (t terms) one(rng *rand.Rand) run {
	between := func(a, b float64) float64 { return a * math.Pow(b/a, rng.Float64()) }
	span := t.shares[rng.IntN(len(t.shares))]
	r := run{share: span[0] + (span[1]-span[0])*rng.Float64()}
	r.notice = time.Duration(between(float64(t.shortest), float64(t.longest)))
	whole := r.share * r.notice.Seconds() // what an upload takes
	r.rate = min(between(t.slowest, t.fastest), float64(t.most)/whole)
	r.bytes = int(r.rate * whole)
	r.shards = min(1+rng.IntN(4), max(r.bytes>>21, 1)) // small ones go into one pack
	r.step = time.Duration(between(float64(50*time.Millisecond), float64(400*time.Millisecond)))
	// Some machines are always uploading, others hardly ever.
	rhythm := max(whole*[]float64{1.2, 2.5, 6}[rng.IntN(3)], 3)
	r.every = max(int(rhythm/r.step.Seconds()), 2)
	r.after = time.Duration(rng.Float64() * min(rhythm*float64(time.Second), float64(t.patience)))
	return r
}

func (r run) whole() time.Duration {
	return time.Duration(float64(r.bytes) / r.rate * float64(time.Second))
}

// expected is about how long it will take.
func (r run) expected() time.Duration { return r.whole() + r.after + r.notice + 5*time.Second }

func (r run) String() string {
	return fmt.Sprintf("run %d: notice %.1fs, %.1f MiB in %d files at %.2f MiB/s (%.2f of it), steps of %v, a save every %d",
		r.n, r.notice.Seconds(), float64(r.bytes)/(1<<20), r.shards, r.rate/(1<<20), r.share, r.step.Round(time.Millisecond), r.every)
}
