package agent

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/spotferry/spotferry/events"
)

// Control is the gateway as an agent sees it. A request that was refused returns
// the *events.Refusal; any other error means that there was no answer, and that
// the request may or may not have been carried out. All may be repeated.
type Control interface {
	// Join swaps the bootstrap token for credentials, with which everything else
	// is asked. The implementation fills in Key: the private half never leaves it.
	Join(ctx context.Context, r events.JoinRequest) (events.JoinReply, error)
	Renew(ctx context.Context, h events.Heartbeat) (events.RenewReply, error)
	Notice(ctx context.Context, r events.NoticeRequest) error
	Commit(ctx context.Context, r events.CommitRequest) error
	Reject(ctx context.Context, r events.RejectRequest) error
	Done(ctx context.Context, r events.DoneRequest) error
	Trouble(ctx context.Context, r events.TroubleRequest) error
	Log(ctx context.Context, b events.LogBatch) error

	// Adopt goes over to a new epoch of the job on this machine, with the
	// credential that a renewal gave for it. Requests are of that epoch from then on.
	Adopt(epoch int, jwt string) error

	// Hints gives a value whenever the control plane has something to say in the
	// next renewal. One that is not taken in time is worth as much as many.
	Hints() <-chan struct{}
}

// refused reports whether err is a refusal with this code.
func refused(err error, code string) bool {
	r, ok := errors.AsType[*events.Refusal](err)
	return ok && r.Code == code
}

// final reports whether repeating a request that gave err would change nothing.
func final(err error) bool {
	r, ok := errors.AsType[*events.Refusal](err)
	return ok && r.Code != events.RefusedUnavailable
}

// patience is how repeated requests are spaced. It has no random part: an agent
// asks for one job, and a recorded run can be repeated.
func patience(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first), backoff.WithMaxInterval(most),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
	b.Reset()
	return b
}

// persist asks until there is an answer that repeating does not change, giving
// each try at most timeout. It returns nil, that refusal, or ctx's error.
func persist(ctx context.Context, timeout time.Duration, ask func(context.Context) error) error {
	b := patience(timeout/16+time.Millisecond, timeout)
	return backoff.Retry(func() error {
		try, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := ask(try)
		if final(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(b, ctx))
}
