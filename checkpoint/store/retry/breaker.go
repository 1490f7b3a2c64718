package retry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// ErrHeldBack: the store was not asked, because it has failed too often just now.
var ErrHeldBack = errors.New("the store is being left alone after failing")

// heldBack says when it is worth asking again.
type heldBack struct{ left time.Duration }

func (h *heldBack) Error() string             { return fmt.Sprintf("%v, for %v more", ErrHeldBack, h.left) }
func (h *heldBack) Unwrap() error             { return ErrHeldBack }
func (h *heldBack) RetryAfter() time.Duration { return h.left }

// fuse is the breaker of a store. Every answer that is final, a refusal
// included, proves that the service works; what its caller ended proves nothing.
type fuse struct {
	cb *gobreaker.CircuitBreaker[struct{}]

	mu    sync.Mutex
	until time.Time // when an open breaker lets a call through
}

func newFuse(cfg Config) *fuse {
	f := &fuse{}
	f.cb = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      cfg.Open,
		IsSuccessful: func(err error) bool { return err == nil || final(err) },
		IsExcluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		},
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= cfg.Failures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				f.open(time.Now().Add(cfg.Open))
			}
			cfg.OnState(to.String())
		},
	})
	return f
}

func (f *fuse) open(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = until
}

// left is at least a little: when half-open, another call is finding out.
func (f *fuse) left() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(time.Until(f.until), 100*time.Millisecond)
}

func (f *fuse) run(do func() error) error {
	_, err := f.cb.Execute(func() (struct{}, error) { return struct{}{}, do() })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return &heldBack{f.left()}
	}
	return err
}
