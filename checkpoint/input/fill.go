package input

import (
	"context"
	"errors"
	"io/fs"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// fill fetches what is missing and returns the size.
func (b *Bringer) fill(ctx context.Context, from Remote, f File, s *stage) (int64, error) {
	if f.Size < 0 {
		return b.fillAll(ctx, from, f, s)
	}
	if s.have == nil { // of a scratch
		s.sums, s.have = make([][32]byte, parts(f.Size)), make([]bool, parts(f.Size))
	}
	if f.Whole {
		return f.Size, b.fillInOrder(ctx, from, f, s)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range s.missing() {
		if err := b.take(ctx); err != nil {
			break // the group has the error, or the caller
		}
		g.Go(func() error {
			defer b.give()
			return b.patiently(ctx, func() error {
				off, n := within(f.Size, part)
				r, err := from.Open(ctx, f, off, n)
				if err != nil {
					return err
				}
				defer r.Close()
				return s.take(ctx, r, f.Size, part)
			})
		})
	}
	err := g.Wait()
	if err == nil && len(s.missing()) > 0 {
		err = context.Cause(ctx)
	}
	return f.Size, err
}

// fillInOrder fetches a file that cannot be read in parts.
func (b *Bringer) fillInOrder(ctx context.Context, from Remote, f File, s *stage) error {
	if f.Size == 0 {
		return nil
	}
	if err := b.take(ctx); err != nil {
		return err
	}
	defer b.give()
	r, err := from.Open(ctx, f, 0, f.Size)
	if err != nil {
		return err
	}
	defer r.Close()
	for part := range s.have {
		if err := s.take(ctx, r, f.Size, part); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bringer) fillAll(ctx context.Context, from Remote, f File, s *stage) (int64, error) {
	if err := b.take(ctx); err != nil {
		return 0, err
	}
	defer b.give()
	r, err := from.Open(ctx, f, 0, -1)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return s.takeAll(ctx, r)
}

// tries is how often a part is asked for at once; what goes on is the caller's to repeat.
const tries = 4

func (b *Bringer) patiently(ctx context.Context, do func() error) error {
	wait := b.cfg.Look
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil || try == tries || noSpace(err) || errors.Is(err, errChanged) || errors.Is(err, fs.ErrPermission) {
			return err
		}
		if _, final := errors.AsType[*Refusal](err); final {
			return err
		}
		b.cfg.Log.Debug("input, trying again", zap.Error(err))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 3
	}
}

// take waits until one more transfer may begin.
func (b *Bringer) take(ctx context.Context) error {
	select {
	case b.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Bringer) give() { <-b.turns }
