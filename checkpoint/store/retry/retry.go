// Package retry is the wrapper that repeats what a checkpoint store was asked
// when trouble that passes came in between, and the only place that does.
//
// What is final is never repeated: an answer about the object (ErrExists,
// ErrNotFound, ErrCorrupt), a full store, a refusal, a reader that broke its
// promise, the end of the caller's context. All else is, with exponential backoff
// and jitter, and not before the service wants to be asked again: an error may say
// so by a method RetryAfter() time.Duration.
//
// A put is repeated only if its reader can go back (io.Seeker) or was not touched.
// Once a put may have had its effect, ErrExists with the same size is success: the
// name of every object contains the hash of its bytes, so it is this object. A get
// that breaks in the middle goes on by a range from where it broke: objects do not
// change.
//
// A circuit breaker for the whole store keeps many workers from hammering a
// service that is down. It is open for seconds only, because what waits may be the
// last save before a machine is taken.
package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/spotferry/spotferry/checkpoint"
)

// Config bounds repetition. Zero fields mean their defaults.
type Config struct {
	Tries   int            // of one call, in all; 6
	First   time.Duration  // the delay before the second try is drawn from [0, First); 200 ms
	Most    time.Duration  // delays double up to this; 10 s
	Total   time.Duration  // no try begins later than this after the first; 2 min
	MaxWait time.Duration  // a service that asks for a longer wait is not waited for; 30 s
	Jitter  func() float64 // in [0, 1), called one at a time; nil: always the whole delay

	Failures uint32        // in a row, of all calls, that open the breaker; 10
	Open     time.Duration // how long it is open before one call is let through to see; 2 s

	OnRepeat func(op, name string, err error) // before each repetition, with what made it necessary
	OnState  func(state string)               // of the breaker: "closed", "half-open", "open"
}

func (c Config) withDefaults() Config {
	c.Tries = or(c.Tries, 6)
	c.First = or(c.First, 200*time.Millisecond)
	c.Most = or(c.Most, 10*time.Second)
	c.Total = or(c.Total, 2*time.Minute)
	c.MaxWait = or(c.MaxWait, 30*time.Second)
	c.Failures = or(c.Failures, 10)
	c.Open = or(c.Open, 2*time.Second)
	if c.Jitter == nil {
		c.Jitter = func() float64 { return 1 }
	}
	if c.OnRepeat == nil {
		c.OnRepeat = func(string, string, error) {}
	}
	if c.OnState == nil {
		c.OnState = func(string) {}
	}
	return c
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Store is a checkpoint.Store that repeats.
type Store struct {
	next checkpoint.Store
	cfg  Config
	fuse *fuse
	mu   sync.Mutex // guards cfg.Jitter
}

var _ checkpoint.Store = (*Store)(nil)

// New wraps a store.
func New(next checkpoint.Store, cfg Config) *Store {
	cfg = cfg.withDefaults()
	return &Store{next: next, cfg: cfg, fuse: newFuse(cfg)}
}

// Unwrap returns the store that is wrapped: it may be a Signer, or prefetch.
func (s *Store) Unwrap() checkpoint.Store { return s.next }

// final reports whether repeating a call that ended so is useless or wrong.
func final(err error) bool {
	if _, ok := errors.AsType[*stop](err); ok {
		return true
	}
	for _, f := range []error{checkpoint.ErrExists, checkpoint.ErrNotFound, checkpoint.ErrCorrupt, checkpoint.ErrNoSpace, checkpoint.ErrSize,
		checkpoint.ErrTooLarge, checkpoint.ErrRefused, errors.ErrUnsupported, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, f) {
			return true
		}
	}
	return false
}

// stop makes an error final.
type stop struct{ error }

func (s *stop) Unwrap() error { return s.error }

// repeat does something until it works, ends finally, or has been tried enough.
func (s *Store) repeat(ctx context.Context, op, name string, do func() error) error {
	if op != "list" && !checkpoint.ObjectName(name) {
		return fmt.Errorf("%s %q: not an object name", op, name)
	}
	plan := &delays{s: s, start: time.Now()}
	plan.end, _ = ctx.Deadline()
	var last error
	first := true
	_ = backoff.Retry(func() error { // its own error may be the bare context's
		if !first {
			s.cfg.OnRepeat(op, name, last)
		}
		first = false
		last = s.fuse.run(do)
		plan.after(last)
		if last != nil && (final(last) || plan.wish > s.cfg.MaxWait) {
			return backoff.Permanent(last)
		}
		return last
	}, backoff.WithContext(plan, ctx))
	if st, ok := errors.AsType[*stop](last); ok {
		last = st.error
	}
	if ended := ctx.Err(); last != nil && ended != nil && !errors.Is(last, ended) {
		return fmt.Errorf("%w, while repeating after: %w", ended, last)
	}
	return last
}

// delays is the backoff.BackOff of one call.
type delays struct {
	s     *Store
	start time.Time
	end   time.Time     // the context's deadline; zero: none
	n     int           // tries
	wish  time.Duration // of the service or the breaker, added to the drawn delay so that callers do not come back together
}

func (d *delays) Reset() {}

// after takes in how a try ended. One that the breaker held back was none.
func (d *delays) after(err error) {
	d.wish = 0
	if asks, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); ok {
		d.wish = asks.RetryAfter()
	}
	if !errors.Is(err, ErrHeldBack) {
		d.n++
	}
}

// NextBackOff implements backoff.BackOff.
func (d *delays) NextBackOff() time.Duration {
	cfg := d.s.cfg
	if d.n >= cfg.Tries {
		return backoff.Stop
	}
	wait := d.wish + d.s.jitter(min(cfg.First<<min(max(d.n-1, 0), 20), cfg.Most))
	if time.Since(d.start)+wait > cfg.Total || !d.end.IsZero() && time.Until(d.end) <= wait {
		return backoff.Stop
	}
	return wait
}

func (s *Store) jitter(most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.cfg.Jitter() * float64(most))
}

// Stat implements checkpoint.Store.
func (s *Store) Stat(ctx context.Context, name string) (size int64, err error) {
	err = s.repeat(ctx, "stat", name, func() (err error) {
		size, err = s.next.Stat(ctx, name)
		return err
	})
	return size, err
}

// List implements checkpoint.Store.
func (s *Store) List(ctx context.Context, prefix string) (found []checkpoint.Object, err error) {
	err = s.repeat(ctx, "list", prefix, func() (err error) {
		found, err = s.next.List(ctx, prefix)
		return err
	})
	return found, err
}

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.repeat(ctx, "delete", name, func() error { return s.next.Delete(ctx, name) })
}

// Put implements checkpoint.Store.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	src := newSource(r)
	var broke error // the try before, after which the object may be there
	return s.repeat(ctx, "put", name, func() error {
		if broke != nil && !src.back() {
			return &stop{broke}
		}
		err := s.next.Put(ctx, name, src.reader(), size)
		switch {
		case src.failed() != nil:
			return &stop{err}
		case broke != nil && errors.Is(err, checkpoint.ErrExists):
			return s.resolve(ctx, name, size, err)
		case err != nil && !final(err):
			broke = err
		}
		return err
	})
}

// resolve finds out whether the object that is there is the one whose put may
// have had its effect.
func (s *Store) resolve(ctx context.Context, name string, size int64, exists error) error {
	switch n, err := s.next.Stat(ctx, name); {
	case err != nil && !final(err):
		return err // try again, and be told ErrExists again
	case err == nil && n == size:
		return nil
	}
	return exists
}
