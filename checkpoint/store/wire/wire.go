// Package wire is what the stores that speak HTTP have in common: request bodies
// of exactly their size, answers that are never taken for whole when they are
// not, transfers that end when nothing moves any more, and errors that say what
// an answer means to the contract.
//
// Nothing here repeats a request.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Stall is how long a transfer may stand still, by default, before it is given up.
const Stall = time.Minute

// ErrStalled: no byte moved for as long as is waited. The request may have had
// its effect.
var ErrStalled = errors.New("nothing moves")

// Transport returns a transport for objects of some megabytes over few hosts.
// Bodies come as they are: never decompressed, never by HTTP/2, whose one
// connection would share one window among all transfers.
func Transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       30 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		Protocols:             protocols,
		ReadBufferSize:        64 << 10,
	}
}

// Watch ends the context it returns when nothing has moved for a time.
type Watch struct {
	ctx    context.Context // the caller's
	timer  *time.Timer
	after  time.Duration
	cancel context.CancelCauseFunc
}

// NewWatch begins to watch a request. End it.
func NewWatch(ctx context.Context, after time.Duration) (context.Context, *Watch) {
	watched, cancel := context.WithCancelCause(ctx)
	w := &Watch{ctx: ctx, after: after, cancel: cancel}
	w.timer = time.AfterFunc(after, func() { cancel(ErrStalled) })
	return watched, w
}

// Caller is the context that the watched one was made of.
func (w *Watch) Caller() context.Context { return w.ctx }

// Moved says that something moved.
func (w *Watch) Moved() { w.timer.Reset(w.after) }

// Rest says that the next move is the caller's, who may take any time.
func (w *Watch) Rest() { w.timer.Stop() }

// End ends the request, if it has not ended yet.
func (w *Watch) End() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// Meaning is err as the caller has to see it: the end of their own context
// before all else, then a stall. Both are told even without err.
func (w *Watch) Meaning(watched context.Context, err error) error {
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case errors.Is(context.Cause(watched), ErrStalled):
		return fmt.Errorf("%w for %v", ErrStalled, w.after)
	}
	return err
}
