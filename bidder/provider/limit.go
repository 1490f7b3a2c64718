package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// LimitConfig says how fast one seller may be asked. Zero fields mean their defaults.
type LimitConfig struct {
	PerSecond float64       // calls a second when all is well; 5
	Burst     int           // calls at once; 10
	Floor     float64       // calls a second that throttling never goes below; PerSecond/32
	MaxHold   time.Duration // the longest pause a seller's RetryAfter can cause; 5 min
}

func (c LimitConfig) withDefaults() LimitConfig {
	c.PerSecond = or(c.PerSecond, 5)
	c.Burst = or(c.Burst, 10)
	c.Floor = or(c.Floor, c.PerSecond/32)
	c.MaxHold = or(c.MaxHold, 5*time.Minute)
	return c
}

// or returns v, or fallback if v is its zero value.
func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Limiter paces everything that is asked of one seller, by whoever asks. It is
// shared by all wrappers of the seller's accounts and safe for concurrent use.
//
// A throttled call stops all calls for the time the seller asked for (a second
// if it did not say) and halves the rate, once per pause; each success gives a sixteenth back.
type Limiter struct {
	cfg    LimitConfig
	bucket *rate.Limiter

	mu   sync.Mutex
	hold time.Time // nothing is sent before
}

// NewLimiter builds a limiter with a full bucket.
func NewLimiter(cfg LimitConfig) *Limiter {
	cfg = cfg.withDefaults()
	return &Limiter{cfg: cfg, bucket: rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.Burst)}
}

// Rate is the number of calls a second that are allowed at the moment.
func (l *Limiter) Rate() float64 { return float64(l.bucket.Limit()) }

// Limit makes p wait for the limiter before every call.
func Limit(p Provider, l *Limiter) Provider {
	return &layer{next: p, around: func(ctx context.Context, op string, do func(context.Context) error) error {
		if err := l.wait(ctx); err != nil {
			return &Error{
				Kind: Transient, Op: op, Scope: "seller", Code: "limited", RetryAfter: l.left(),
				Err: fmt.Errorf("%w: %w", ErrHeldBack, err),
			}
		}
		err := do(ctx)
		l.learn(err)
		return err
	}}
}

// wait takes a token and then sits out every pause, also one that began meanwhile.
func (l *Limiter) wait(ctx context.Context) error {
	if err := l.bucket.Wait(ctx); err != nil {
		return err
	}
	for left := l.left(); left > 0; left = l.left() {
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < left {
			return fmt.Errorf("the seller asked for a pause of %s, longer than this call may take", left.Round(time.Millisecond))
		}
		if err := sleep(ctx, left); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (l *Limiter) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(time.Until(l.hold), 0)
}

func (l *Limiter) learn(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if KindOf(err) == Throttled && err != nil {
		l.slow(err)
		return
	}
	if err == nil && l.Rate() < l.cfg.PerSecond {
		l.bucket.SetLimit(rate.Limit(min(l.Rate()+l.cfg.PerSecond/16, l.cfg.PerSecond)))
	}
}

func (l *Limiter) slow(err error) {
	now := time.Now()
	if now.After(l.hold) { // the calls already under way when the first was throttled do not count again
		l.bucket.SetLimit(rate.Limit(max(l.Rate()/2, l.cfg.Floor)))
	}
	wish := time.Second
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		wish = min(e.RetryAfter, l.cfg.MaxHold)
	}
	if until := now.Add(wish); until.After(l.hold) {
		l.hold = until
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
