package programs

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// traced is a part that tells the traces of failovers while it runs.
type traced struct {
	part
	follow func(context.Context) error
}

// Run runs the part and tells traces, until ctx ends or one of them fails.
func (t traced) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.follow(gctx) })
	g.Go(func() error { return t.part.Run(gctx) })
	return g.Wait()
}

// telling is p with the traces of all failovers told while it runs, if anybody is to be told.
func (r *runtime) telling(p part) part {
	if !r.spans.On() {
		return p
	}
	return traced{p, func(ctx context.Context) error { return r.spans.Follow(ctx, r.streams, r.log.Named("tracing")) }}
}
