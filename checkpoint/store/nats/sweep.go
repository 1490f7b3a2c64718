package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Sweep removes chunks of objects that were never described and never will be,
// and returns of how many objects. Call it at start and now and then.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.chunks("*")))
	if err != nil {
		return 0, fmt.Errorf("sweeping: %w", meaning(ctx, err))
	}
	// In this order: what is described between the two is found described.
	left := info.State.Subjects
	if err := s.all(ctx, func(d description) { delete(left, s.chunks(d.info.NUID)) }); err != nil {
		return 0, fmt.Errorf("sweeping: %w", meaning(ctx, err))
	}
	n := 0
	for _, subject := range slices.Sorted(maps.Keys(left)) {
		gone, err := s.sweep(ctx, subject)
		if err != nil {
			return n, fmt.Errorf("sweeping: %w", meaning(ctx, err))
		}
		if gone {
			n++
		}
	}
	return n, nil
}

func (s *Store) sweep(ctx context.Context, subject string) (bool, error) {
	m, err := s.leader(ctx, fmt.Sprintf(`{"last_by_subj":%q}`, subject))
	if errors.Is(err, errNone) {
		return false, nil
	}
	if err != nil || s.cfg.Now().Sub(m.Time) < s.cfg.StaleAfter {
		return false, err
	}
	return true, s.purge(ctx, subject)
}
