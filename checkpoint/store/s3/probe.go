package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spotferry/spotferry/checkpoint"
)

// Probe finds out whether the bucket is there, lets us do what we have to, and
// honours conditional writes if it is to. It puts an object called name and
// deletes it again; name must be one that nobody else uses.
func (s *Store) Probe(ctx context.Context, name string) error {
	const first, second = "probe", "PROBE"
	doing := "probing bucket " + s.cfg.Bucket
	if err := s.Put(ctx, name, strings.NewReader(first), int64(len(first))); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err := s.putWhole(ctx, name, strings.NewReader(second), int64(len(second)))
	switch {
	case s.cfg.Unconditional || errors.Is(err, checkpoint.ErrExists):
		err = nil
	case err == nil:
		err = fmt.Errorf("%w to keep what is there: the service does not know conditional writes (If-None-Match: *): "+
			"configure the store as unconditional, or use one that does", checkpoint.ErrRefused)
	}
	if err == nil {
		_, err = s.List(ctx, name)
	}
	if err := errors.Join(err, s.Delete(ctx, name)); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
