package market

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// CoolDownConfig says how long pools rest, control time. Zero fields mean their defaults.
type CoolDownConfig struct {
	First    time.Duration // after the first no_capacity; 2 min
	Most     time.Duration // doubling up to; 30 min
	Quiet    time.Duration // without a new failure after which the next counts as the first; 1 h
	Flaps    int           // reclaims of one job in one pool ...
	Within   time.Duration // ... in this time make it flap; 3 in 1 h
	FlapRest time.Duration // after the first flapping; 15 min
	FlapMost time.Duration // doubling up to; 8 h
	FlapFor  time.Duration // without flapping after which the next counts as the first; 24 h
}

func (c CoolDownConfig) withDefaults() CoolDownConfig {
	set(&c.First, 2*time.Minute)
	set(&c.Most, 30*time.Minute)
	set(&c.Quiet, time.Hour)
	set(&c.Flaps, 3)
	set(&c.Within, time.Hour)
	set(&c.FlapRest, 15*time.Minute)
	set(&c.FlapMost, 8*time.Hour)
	set(&c.FlapFor, 24*time.Hour)
	return c
}

// CoolDowns remembers which pools are not worth asking for a while. It does no
// I/O and reads no clock; its owner guards it.
//
// A failure while a pool is already cooling (someone probed it, or an answer came
// late) never extends the rest: otherwise a pool that is asked often would never be asked again.
type CoolDowns struct {
	cfg   CoolDownConfig
	pools map[events.Pool]*rest
}

type rest struct {
	empty    cool
	flapping cool
	reclaims map[events.JobID][]time.Time
}

// cool is one reason to rest.
type cool struct {
	until time.Time
	times int // in a row
}

// NewCoolDowns returns a memory without failures.
func NewCoolDowns(cfg CoolDownConfig) *CoolDowns {
	return &CoolDowns{cfg: cfg.withDefaults(), pools: map[events.Pool]*rest{}}
}

func (c *CoolDowns) pool(p events.Pool) *rest {
	if c.pools[p] == nil {
		c.pools[p] = &rest{reclaims: map[events.JobID][]time.Time{}}
	}
	return c.pools[p]
}

// start begins a rest of first x 2^times, at most most, plus up to a fifth of it by jitter in [0, 1).
func (k *cool) start(now time.Time, first, most, quiet time.Duration, jitter float64) {
	if now.Before(k.until) {
		return
	}
	if now.Sub(k.until) > quiet {
		k.times = 0
	}
	d := min(first<<min(k.times, 16), most)
	k.times++
	k.until = now.Add(d + time.Duration(min(max(jitter, 0), 1)*float64(d)/5))
}

// Refused notes that a pool had no capacity at now.
func (c *CoolDowns) Refused(p events.Pool, now time.Time, jitter float64) {
	c.pool(p).empty.start(now, c.cfg.First, c.cfg.Most, c.cfg.Quiet, jitter)
}

// Launched notes that a pool has capacity again. It does not forgive flapping.
func (c *CoolDowns) Launched(p events.Pool) {
	if r := c.pools[p]; r != nil {
		r.empty = cool{}
	}
}

// Reclaimed notes that a seller took a machine of job back at now, which may come late.
func (c *CoolDowns) Reclaimed(job events.JobID, p events.Pool, now time.Time, jitter float64) {
	r := c.pool(p)
	recent := slices.DeleteFunc(r.reclaims[job], func(t time.Time) bool { return now.Sub(t) > c.cfg.Within })
	r.reclaims[job] = append(recent, now)
	if len(r.reclaims[job]) < c.cfg.Flaps {
		return
	}
	delete(r.reclaims, job)
	r.flapping.start(now, c.cfg.FlapRest, c.cfg.FlapMost, c.cfg.FlapFor, jitter)
}

// Until returns until when a pool rests and why, and false if it does not at now.
func (c *CoolDowns) Until(p events.Pool, now time.Time) (events.PoolUntil, bool) {
	r := c.pools[p]
	if r == nil {
		return events.PoolUntil{}, false
	}
	k, why := r.empty, "no_capacity"
	if r.flapping.until.After(k.until) {
		k, why = r.flapping, "flapping"
	}
	if !now.Before(k.until) {
		return events.PoolUntil{}, false
	}
	if k.times > 1 {
		why = fmt.Sprintf("%s, %d times in a row", why, k.times)
	}
	return events.PoolUntil{Pool: p, Until: k.until, Why: why}, true
}

// Active returns every pool that rests at now, ordered by pool.
func (c *CoolDowns) Active(now time.Time) []events.PoolUntil {
	var out []events.PoolUntil
	for p := range c.pools {
		if u, ok := c.Until(p, now); ok {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b events.PoolUntil) int { return comparePools(a.Pool, b.Pool) })
	return out
}

// Forget drops what can no longer matter at now.
func (c *CoolDowns) Forget(now time.Time) {
	for p, r := range c.pools {
		for job, times := range r.reclaims {
			if now.Sub(times[len(times)-1]) > c.cfg.Within {
				delete(r.reclaims, job)
			}
		}
		if len(r.reclaims) == 0 && now.Sub(r.empty.until) > c.cfg.Quiet && now.Sub(r.flapping.until) > c.cfg.FlapFor {
			delete(c.pools, p)
		}
	}
}
