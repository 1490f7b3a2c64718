package provider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHeldBack is wrapped by errors about calls that never left this process:
// the context had ended, the breaker was open, the limiter's wait was too long.
// They say nothing about the seller, so they neither trip a breaker nor are repeated.
var ErrHeldBack = errors.New("not sent")

// MaxRetryAfter bounds what a seller may wish for. One that asks for a year is
// looked at again tomorrow.
const MaxRetryAfter = 24 * time.Hour

// Typed makes sure that every error above it is an *Error with Op set, whatever
// the adapter returned, and that nothing is sent on a context that has ended.
func Typed(p Provider) Provider {
	return &layer{next: p, around: func(ctx context.Context, op string, do func(context.Context) error) error {
		if ctx.Err() != nil {
			return HeldBack(ctx, op)
		}
		return Classify(op, do(ctx))
	}}
}

// HeldBack is the error of a call that was not made because its context ended.
// Nothing happened at the seller, so it is Transient even for a launch.
func HeldBack(ctx context.Context, op string) *Error {
	return &Error{Kind: Transient, Op: op, Err: fmt.Errorf("%w: %w", ErrHeldBack, context.Cause(ctx))}
}

// Unanswered is the error of a call that was sent and not answered before its
// context ended or the connection broke: the outcome of a launch is unknown,
// everything else can be asked again.
func Unanswered(op string, cause error) *Error {
	if op == OpLaunch {
		return &Error{Kind: UnknownOutcome, Op: op, MaybeCreated: true, Err: cause}
	}
	return &Error{Kind: Transient, Op: op, Err: cause}
}

// Classify returns err as an *Error of operation op. An unclassified error of a
// launch is UnknownOutcome, of anything else Transient. A launch of unknown
// outcome may always have created something, whatever the adapter thought of it.
func Classify(op string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return Unanswered(op, err)
	}
	fixed := *e
	if fixed.Op == "" {
		fixed.Op = op
	}
	fixed.RetryAfter = min(max(fixed.RetryAfter, 0), MaxRetryAfter)
	if op == OpLaunch && fixed.Kind == UnknownOutcome {
		fixed.MaybeCreated = true
	}
	return &fixed
}
