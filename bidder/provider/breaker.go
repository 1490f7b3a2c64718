package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerConfig says when a seller's operation is given a rest. Zero fields mean their defaults.
type BreakerConfig struct {
	Failures uint32        // in a row; 5
	Window   time.Duration // over which the ratio is looked at; 1 min
	Ratio    float64       // of at least 20 calls in a window; 0.6
	Open     time.Duration // before one call is let through to see; 30 s
	// OnChange is told every change, with state "closed", "half-open" or "open".
	// An open breaker turns half-open only when it is next asked.
	OnChange func(op, state string)
}

func (c BreakerConfig) withDefaults() BreakerConfig {
	c.Failures = or(c.Failures, 5)
	c.Window = or(c.Window, time.Minute)
	c.Ratio = or(c.Ratio, 0.6)
	c.Open = or(c.Open, 30*time.Second)
	if c.OnChange == nil {
		c.OnChange = func(string, string) {}
	}
	return c
}

const ratioNeeds = 20 // calls in a window before their ratio means anything

// Break stops asking a seller for an operation that keeps failing. Each
// operation has a breaker of its own: a seller that cannot launch can still terminate.
//
// Only kinds that trip count as failures. Every other answer, a refusal
// included, proves that the seller works and counts as success. What never left
// this process, or was cancelled by its caller, counts as nothing.
//
// An open breaker answers at once with a Transient error that wraps ErrHeldBack
// and says in RetryAfter when it is worth asking again.
func Break(p Provider, cfg BreakerConfig) Provider {
	cfg = cfg.withDefaults()
	fuses := map[string]*fuse{}
	for _, op := range Ops() {
		fuses[op] = newFuse(op, cfg)
	}
	return &layer{next: p, around: func(ctx context.Context, op string, do func(context.Context) error) error {
		return fuses[op].run(ctx, do)
	}}
}

// fuse is the breaker of one operation.
type fuse struct {
	op  string
	cb  *gobreaker.CircuitBreaker[struct{}]
	mu  sync.Mutex
	off time.Time // when the open breaker lets a call through
}

func newFuse(op string, cfg BreakerConfig) *fuse {
	f := &fuse{op: op}
	f.cb = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         op,
		Interval:     cfg.Window,
		Timeout:      cfg.Open,
		IsSuccessful: func(err error) bool { return err == nil || !KindOf(err).Trips() },
		IsExcluded: func(err error) bool {
			return errors.Is(err, ErrHeldBack) || errors.Is(err, context.Canceled)
		},
		ReadyToTrip: func(c gobreaker.Counts) bool {
			seen := c.TotalSuccesses + c.TotalFailures
			return c.ConsecutiveFailures >= cfg.Failures ||
				(seen >= ratioNeeds && float64(c.TotalFailures) >= cfg.Ratio*float64(seen))
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				f.opened(time.Now().Add(cfg.Open))
			}
			cfg.OnChange(op, to.String())
		},
	})
	return f
}

func (f *fuse) opened(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = until
}

func (f *fuse) left() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(time.Until(f.off), time.Second) // half-open: another call is finding out
}

func (f *fuse) run(ctx context.Context, do func(context.Context) error) error {
	_, err := f.cb.Execute(func() (struct{}, error) { return struct{}{}, do(ctx) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return &Error{
			Kind: Transient, Op: f.op, Scope: "seller", Code: "breaker_open", RetryAfter: f.left(),
			Err: fmt.Errorf("%w: %w", ErrHeldBack, err),
		}
	}
	return err
}
