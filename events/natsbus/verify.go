package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	verifyBatch = 1000
	verifyWait  = 15 * time.Second // a broker that stumbles over a record says nothing
)

// Verify is Check and then a walk over every message of the truth streams. A
// broker that was stopped cleanly trusts its index and finds a damaged record
// only when somebody asks for it: this asks for all of them, some hundred
// thousand a second. Call it at the start, before Declare.
func (h *HighWater) Verify(ctx context.Context) error {
	if err := h.Check(ctx); err != nil {
		return err
	}
	for _, name := range TruthStreams() {
		s, err := h.c.JS.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // not marked, or Check would have said so
		}
		if err == nil {
			err = h.walk(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("verifying stream %s: %w", name, err)
		}
	}
	return nil
}

// walk receives the headers of every message. The broker reads the whole
// record for that and checks its sum.
func (h *HighWater) walk(ctx context.Context, s jetstream.Stream) error {
	info := s.CachedInfo()
	end := info.State.LastSeq
	if end == 0 {
		return nil
	}
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: privateIdle,
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.DeleteConsumer(context.WithoutCancel(ctx), c.CachedInfo().Name) }()
	it, err := c.Messages(jetstream.PullMaxMessages(verifyBatch))
	if err != nil {
		return err
	}
	defer it.Stop()
	for want := uint64(1); want <= end; want++ {
		at, err := nextSequence(ctx, it)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return regressed(info.Config.Name, end, fmt.Sprintf("the message at sequence %d cannot be read", want))
		case err != nil:
			return err
		case at != want:
			return regressed(info.Config.Name, end, fmt.Sprintf("the message at sequence %d is gone", want))
		}
	}
	return nil
}

func nextSequence(ctx context.Context, it jetstream.MessagesContext) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyWait)
	defer cancel()
	m, err := it.Next(jetstream.NextContext(ctx))
	if err != nil {
		return 0, err
	}
	meta, err := m.Metadata()
	if err != nil {
		return 0, err
	}
	return meta.Sequence.Stream, nil
}
