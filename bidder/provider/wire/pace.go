package wire

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/spotferry/spotferry/bidder/provider"
)

// Pace keeps a minimum interval between calls of one endpoint, as a seller demands it.
type Pace struct {
	limiter *rate.Limiter
	every   time.Duration
}

// Every makes one. An interval of zero is fallback, a negative one none.
func Every(interval, fallback time.Duration) *Pace {
	if interval == 0 {
		interval = fallback
	}
	interval = max(interval, 0)
	return &Pace{rate.NewLimiter(rate.Every(interval), 1), interval}
}

// Interval is how long two calls are apart.
func (p *Pace) Interval() time.Duration { return p.every }

// Wait waits for the turn of a call. Its error says that nothing was sent.
func (p *Pace) Wait(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, op)
	}
	if err := p.limiter.Wait(ctx); err != nil {
		return &provider.Error{
			Kind: provider.Transient, Op: op, Scope: "seller", Code: "paced", RetryAfter: p.every,
			Err: fmt.Errorf("%w: %w", provider.ErrHeldBack, err),
		}
	}
	return nil
}

// RetryAfter reads the header of that name, in seconds or as a date; 0 if there is none.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(min(s, provider.MaxRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return min(at.Sub(now), provider.MaxRetryAfter)
	}
	return 0
}
