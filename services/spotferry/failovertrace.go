package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spotferry/spotferry/services/internal/dev"
	"github.com/spotferry/spotferry/services/internal/tracing"
)

// lastSpans is how long a system that ends waits for a collector of traces.
const lastSpans = 2 * time.Second

// runSystem runs the system on this machine until ctx ends, and tells the traces of
// its failovers where the environment says.
func (e *environment) runSystem(ctx context.Context, cfg dev.Config) (err error) {
	if cfg.Spans, err = tracing.Open(e.getenv, "spotferry-dev", e.version); err != nil {
		return usagef("name a file that can be written, or a collector's address", "%v", err)
	}
	defer func() {
		// The system's own context has ended, and the last spans may still go out.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if lost := cfg.Spans.Close(last); lost != nil {
			err = errors.Join(err, fmt.Errorf("spans lost: %w", lost))
		}
	}()
	return dev.Run(ctx, cfg)
}
