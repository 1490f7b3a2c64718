package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
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
