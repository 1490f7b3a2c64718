package input

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Content is a whole file, open for reading and verified. Close it.
type Content struct {
	*os.File
	Size   int64
	path   string
	links  bool
	cached bool // the name is the cache's
	hit    bool // nothing was fetched
}

// Close ends it. Of what is in no cache nothing stays but what was placed.
func (c *Content) Close() error {
	if !c.cached {
		_ = os.Remove(c.path) // placed by then, or of no use
	}
	return c.File.Close()
}

// Fetch brings one file, from the cache or from its source.
func (b *Bringer) Fetch(ctx context.Context, from Remote, f File) (*Content, error) {
	for {
		if c, err := b.cached(ctx, f); c != nil || err != nil {
			return c, err
		}
		s, shared, err := b.stage(ctx, f)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue // another machine has brought it
		}
		c, err := b.bring(ctx, from, f, s, shared)
		if err == nil || !shared || !noSpace(err) {
			return c, err
		}
		b.cfg.Log.Warn("no room in the input cache, going on without", zap.Error(err))
		b.full.Store(true)
	}
}

// cached returns the content if the cache has it.
func (b *Bringer) cached(ctx context.Context, f File) (*Content, error) {
	if b.cfg.Cache == nil || f.Key == "" || f.Near {
		return nil, nil
	}
	c, err := b.cfg.Cache.get(ctx, f.Key, b.cfg.Workers)
	if c != nil {
		c.hit = true
	}
	return c, err
}

// stage returns where a file is to be fetched into, and whether that is the
// cache; nil: wait no longer, it is there.
func (b *Bringer) stage(ctx context.Context, f File) (*stage, bool, error) {
	if f.Key == "" || f.Size < 0 {
		s, err := openScratch(b.cfg.Scratch)
		return s, false, err
	}
	if large := b.large.Load(); b.cfg.Cache != nil && !f.Near && !b.full.Load() && (large == 0 || f.Size < large) {
		dir, err := b.cfg.Cache.partial(f.Size)
		if err == nil {
			var s *stage
			var there bool
			if s, there, err = b.turn(ctx, dir, f); s != nil || there || ctx.Err() != nil {
				return s, true, ctx.Err()
			}
		}
		if errors.Is(err, errFull) {
			b.large.Store(f.Size)
		} else if !errors.Is(err, errBusy) {
			b.cfg.Log.Warn("the input cache cannot be used, going on without", zap.Error(err))
			b.full.Store(true)
		}
	}
	// A file that is there twice is fetched by one at a time here, too.
	for {
		s, err := openStage(ctx, b.cfg.Scratch, f)
		if !errors.Is(err, errBusy) {
			return s, false, err
		}
		if err := sleep(ctx, b.cfg.Look); err != nil {
			return nil, false, err
		}
	}
}

// turn waits until a file can be fetched into the cache, or is there, or the
// machine that has it in hand gets nowhere: then that is errBusy.
func (b *Bringer) turn(ctx context.Context, dir string, f File) (s *stage, there bool, err error) {
	var seen int64
	for idle := time.Duration(0); idle < b.cfg.Patience; idle += b.cfg.Look {
		if s, err = openStage(ctx, dir, f); !errors.Is(err, errBusy) {
			if err != nil {
				return nil, false, err
			}
			if _, there := b.cfg.Cache.knows(f.Key); there { // since we looked
				s.remove()
				return nil, true, nil
			}
			return s, false, nil
		}
		if err := sleep(ctx, b.cfg.Look); err != nil {
			return nil, false, err
		}
		if _, there := b.cfg.Cache.knows(f.Key); there {
			return nil, true, nil
		}
		if info, err := os.Stat(stagePath(dir, f)); err == nil && allocated(info) != seen {
			seen, idle = allocated(info), 0
		}
	}
	return nil, false, errBusy
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// bring fills a stage and ends it.
func (b *Bringer) bring(ctx context.Context, from Remote, f File, s *stage, shared bool) (*Content, error) {
	size, err := b.fill(ctx, from, f, s)
	if err != nil {
		if noSpace(err) || s.journal == nil {
			s.remove() // the room is wanted, or nobody can go on with it
		} else {
			s.close()
		}
		return nil, err
	}
	has, err := fulfils(ctx, s.data, size, f.Sum)
	if err != nil {
		s.close()
		return nil, err
	}
	if has != "" {
		s.remove()
		return nil, b.wrong(f, has)
	}
	if shared {
		c, err := b.cfg.Cache.adopt(s, f.Key, contentID(size, s.sums), size)
		if err == nil {
			return c, nil
		}
		b.cfg.Log.Warn("input not kept in the cache", zap.Error(err))
	}
	path := s.path + ".whole"
	data, err := s.named(path)
	if err != nil {
		s.remove()
		return nil, err
	}
	return &Content{File: data, Size: size, path: path}, nil
}

// wrong is the error for a content that is not what was said. The first time the
// way there may have changed it.
func (b *Bringer) wrong(f File, has string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	what := fmt.Sprintf("%s came with %s and not %s", orThis(f), has, f.Sum)
	if b.refuted[f.Key] {
		return refusal("correct the sum, or the file where it comes from", "%s", what)
	}
	b.refuted[f.Key] = true
	return errors.New(what)
}

func orThis(f File) string {
	if f.Path == "" {
		return "the file"
	}
	return f.Path
}

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
