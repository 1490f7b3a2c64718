package agent

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// join asks until it is let in. It returns when the request that was granted was sent.
func join(ctx context.Context, cfg Config, started time.Duration) (events.JoinReply, time.Duration, error) {
	t := cfg.Bootstrap.Timers
	bounded, cancel := context.WithTimeoutCause(ctx, t.Boot, ErrBoot)
	defer cancel()
	host := events.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
	if cfg.Metadata != nil {
		ask, done := context.WithTimeout(bounded, time.Second)
		id, err := cfg.Metadata.Instance(ask)
		done()
		if err != nil {
			cfg.Log.Warn("the metadata service does not say which instance this is", zap.Error(err))
		}
		host.Instance = id
	}
	var reply events.JoinReply
	var sent time.Duration
	err := persist(bounded, max(t.Heartbeat, time.Second), func(ctx context.Context) (err error) {
		sent = cfg.Elapsed()
		host.BootMS = (sent - started).Milliseconds()
		reply, err = cfg.Control.Join(ctx, events.JoinRequest{Lease: cfg.Bootstrap.Lease, Host: host})
		if err != nil {
			cfg.Log.Info("not joined yet", zap.Error(err))
		}
		return err
	})
	switch {
	case err == nil:
		cfg.Log.Info("joined", zap.Int64("boot_ms", host.BootMS))
		return reply, sent, nil
	case refused(err, events.RefusedFenced):
		return reply, sent, fmt.Errorf("joining: %w", ErrFenced)
	case bounded.Err() != nil:
		return reply, sent, fmt.Errorf("joining for %v: %w", t.Boot, context.Cause(bounded))
	}
	return reply, sent, fmt.Errorf("joining: %w", err)
}
