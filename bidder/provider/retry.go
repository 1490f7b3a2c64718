package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/time/rate"
)

// RetryConfig bounds repetition in rate and in total. Zero fields mean their defaults.
type RetryConfig struct {
	Tries        int            // calls in all for one request; 4
	First        time.Duration  // the delay before the second try is drawn from [0, First); 500 ms
	Most         time.Duration  // delays double up to this; 30 s
	Total        time.Duration  // no try begins later than this after the first; 2 min
	MaxRetry     time.Duration  // a seller that asks for a longer wait is not waited for; 1 min
	PerSecond    float64        // repeats a second over all requests of this seller; 1
	Burst        int            // repeats at once over all requests of this seller; 20
	Jitter       func() float64 // in [0, 1), called one at a time; nil: always the whole delay
	OnRepetition func(op string)
}

func (c RetryConfig) withDefaults() RetryConfig {
	c.Tries = or(c.Tries, 4)
	c.First = or(c.First, 500*time.Millisecond)
	c.Most = or(c.Most, 30*time.Second)
	c.Total = or(c.Total, 2*time.Minute)
	c.MaxRetry = or(c.MaxRetry, time.Minute)
	c.PerSecond = or(c.PerSecond, 1)
	c.Burst = or(c.Burst, 20)
	if c.Jitter == nil {
		c.Jitter = func() float64 { return 1 }
	}
	if c.OnRepetition == nil {
		c.OnRepetition = func(string) {}
	}
	return c
}

// Retry repeats what may be repeated, with exponential backoff and full jitter.
// It is the only place that decides so.
//
// The budget of repeats is shared by all requests: when everything fails at
// once, the seller sees each request about once instead of Tries times.
func Retry(p Provider, cfg RetryConfig) Provider {
	cfg = cfg.withDefaults()
	r := &retrier{cfg: cfg, budget: rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.Burst)}
	return &layer{next: p, around: r.around}
}

type retrier struct {
	cfg    RetryConfig
	budget *rate.Limiter
	mu     sync.Mutex // guards cfg.Jitter
}

func (r *retrier) around(ctx context.Context, op string, do func(context.Context) error) error {
	if op == OpNotices {
		return do(ctx) // a stream, not a request: whoever listens listens again
	}
	plan := &delays{r: r, start: time.Now()}
	plan.end, _ = ctx.Deadline()
	var last error
	tries := 0
	// The error of Retry itself is not used: it may be the bare context's.
	_ = backoff.Retry(func() error {
		if tries++; tries > 1 {
			r.cfg.OnRepetition(op)
		}
		last = do(ctx)
		plan.wish = wishOf(last)
		if last != nil && !(repeatable(op, last) && plan.wish <= r.cfg.MaxRetry) {
			return backoff.Permanent(last)
		}
		return last
	}, backoff.WithContext(plan, ctx))
	return last
}

func wishOf(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// repeatable says whether the same request may be made again as it is. A launch
// after which something may exist never is: it is reconciled by its token. The
// other operations change nothing when they are done twice, so a lost answer is asked for again.
func repeatable(op string, err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, ErrHeldBack) {
		return false
	}
	if op == OpLaunch {
		return e.Kind.Repeatable() && !e.MaybeCreated
	}
	return e.Kind.Repeatable() || e.Kind == UnknownOutcome
}

// delays is the backoff.BackOff of one request.
type delays struct {
	r     *retrier
	start time.Time
	end   time.Time // the context's deadline, zero: none
	n     int
	wish  time.Duration // of the seller, added to the drawn delay so that callers do not come back together
}

func (d *delays) Reset() {}

func (d *delays) NextBackOff() time.Duration {
	cfg := d.r.cfg
	if d.n++; d.n >= cfg.Tries {
		return backoff.Stop
	}
	wait := d.wish + d.r.jitter(min(cfg.First<<min(d.n-1, 20), cfg.Most))
	if time.Since(d.start)+wait > cfg.Total {
		return backoff.Stop
	}
	if !d.end.IsZero() && time.Until(d.end) <= wait {
		return backoff.Stop
	}
	if !d.r.budget.Allow() {
		return backoff.Stop
	}
	return wait
}

func (r *retrier) jitter(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.cfg.Jitter() * float64(most))
}
