package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
)

// CacheConfig says where what was fetched is kept.
type CacheConfig struct {
	Dir    string // shared by machines; it has to exist
	Tenant string // whose machines; no other's see what these fetch
	Limit  int64  // bytes of all tenants together; 0: 200 GB
	Spare  int64  // bytes of the disk that the cache leaves free; 0: 5 GB
	// Links allows a file to be linked into its place where it cannot be cloned.
	// Right for whoever is held by a mode of 0444, so not for root.
	Links bool
	Now   func() time.Time // the wall clock, which tells what was used last
	Log   *zap.Logger      // nil: silence
}

// Validate reports what is missing or out of range.
func (c CacheConfig) Validate() error {
	switch {
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("input cache: %q: give the absolute path of a directory", c.Dir)
	case !checkpoint.ObjectName(c.Tenant) || filepath.Base(c.Tenant) != c.Tenant:
		return fmt.Errorf("input cache: %q is no tenant's name", c.Tenant)
	case c.Limit < 0 || c.Spare < 0:
		return fmt.Errorf("input cache: a limit of %d and %d spare bytes: give numbers from 0", c.Limit, c.Spare)
	case c.Now == nil:
		return errors.New("input cache: Now is nil: give a clock")
	}
	return nil
}

// Cache keeps files by their content:
//
//	<tenant>/names/<hh>/<key>       what a source calls something, and its content
//	<tenant>/blobs/<hh>/<content>   the content
//	<tenant>/partial/<key>[.parts]  what is being fetched
//	<tenant>/kept/<name>/           directories that jobs fill themselves; see Keep
type Cache struct {
	cfg CacheConfig
	dir string // the tenant's

	mu   sync.Mutex
	used int64 // bytes of all tenants, as of the last count and what came since; -1: not counted
	held []*os.File
}

// OpenCache opens the cache of one tenant.
func OpenCache(cfg CacheConfig) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Limit == 0 {
		cfg.Limit = 200e9
	}
	if cfg.Spare == 0 {
		cfg.Spare = 5e9
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if info, err := os.Stat(cfg.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("input cache: there is no directory %s on this machine", cfg.Dir)
	}
	c := &Cache{cfg: cfg, dir: filepath.Join(cfg.Dir, cfg.Tenant), used: -1}
	for _, name := range []string{"names", "blobs", "partial", "kept"} {
		if err := os.MkdirAll(filepath.Join(c.dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("input cache: %w", err)
		}
	}
	return c, nil
}

// named is what a file below names says.
type named struct {
	Key     string `json:"key"`
	Content string `json:"content"`
	Size    int64  `json:"size"`
}

func (c *Cache) namePath(key string) string {
	k := keyName(key)
	return filepath.Join(c.dir, "names", k[:2], k)
}

func (c *Cache) blobPath(content string) string {
	return filepath.Join(c.dir, "blobs", content[:2], content)
}

// knows reports whether the content of a key is probably there. It is not verified.
func (c *Cache) knows(key string) (named, bool) {
	b, err := os.ReadFile(c.namePath(key))
	if err != nil {
		return named{}, false
	}
	var n named
	if err := json.Unmarshal(b, &n); err != nil || n.Key != key || !sha256Hex.MatchString(n.Content) || n.Size < 0 {
		return named{}, false
	}
	info, err := os.Lstat(c.blobPath(n.Content))
	return n, err == nil && info.Mode().IsRegular() && info.Size() == n.Size
}

// get returns the content of a key, open and verified; nil: it is not there, or
// is not any more what it was, and then it is dropped.
func (c *Cache) get(ctx context.Context, key string, workers int) (*Content, error) {
	n, ok := c.knows(key)
	if !ok {
		return nil, nil
	}
	path := c.blobPath(n.Content)
	f, err := os.Open(path)
	if err != nil {
		return nil, nil // gone since, or unreadable: as if it were not there
	}
	got, err := identify(ctx, f, n.Size, workers)
	if err == nil && got == n.Content {
		now := c.cfg.Now()
		_ = os.Chtimes(c.namePath(key), now, now) // at worst it goes too early
		return &Content{File: f, Size: n.Size, path: path, links: c.cfg.Links, cached: true}, nil
	}
	f.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.cfg.Log.Warn("cached input is damaged, fetched again", zap.String("content", n.Content), zap.Error(err))
	c.drop(n.Content, key)
	return nil, nil
}

func (c *Cache) drop(content, key string) {
	_ = os.Remove(c.namePath(key))
	_ = os.RemoveAll(c.blobPath(content)) // what cannot be removed is found damaged again
}

// partial is where stages of this cache are, with room for n bytes made; an
// error says that there is none.
func (c *Cache) partial(n int64) (string, error) {
	if err := c.makeRoom(n); err != nil {
		return "", err
	}
	return filepath.Join(c.dir, "partial"), nil
}

// adopt takes in a complete stage under its key and content.
func (c *Cache) adopt(s *stage, key, content string, size int64) (*Content, error) {
	path := c.blobPath(content)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// The name first: it counts once the blob is there, and so does the blob, for
	// whoever waited for the stage.
	if err := c.name(named{key, content, size}); err != nil {
		return nil, err
	}
	// What has the blob's name by now is the same or damaged: this is verified.
	f, err := s.named(path)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.used >= 0 {
		c.used += size
	}
	c.mu.Unlock()
	return &Content{File: f, Size: size, path: path, links: c.cfg.Links, cached: true}, nil
}

func (c *Cache) name(n named) error {
	path := c.namePath(n.Key)
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by then, or of no use
	now := c.cfg.Now()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close(), os.Chtimes(f.Name(), now, now)); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Close lets go of what was kept for this machine's job.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.held {
		f.Close()
	}
	c.held = nil
}
