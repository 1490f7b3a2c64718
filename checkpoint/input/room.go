package input

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// errFull: the cache has no room for it.
var errFull = errors.New("the input cache has no room")

// stale is how old something unfinished has to be to be nobody's.
const stale = 24 * time.Hour

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// room is what is free for the likes of us on a directory's disk.
func room(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// makeRoom has n bytes fit, or returns errFull.
func (c *Cache) makeRoom(n int64) error {
	if n > c.cfg.Limit {
		return errFull
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	free, err := room(c.cfg.Dir)
	if err != nil {
		return err
	}
	if c.used >= 0 && c.used+n <= c.cfg.Limit && free-n >= c.cfg.Spare {
		return nil
	}
	// One at a time: two would each throw out for both.
	lock, err := os.OpenFile(filepath.Join(c.cfg.Dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	all := c.count()
	if free, err = room(c.cfg.Dir); err != nil { // another may have made room
		return err
	}
	if c.used+n <= c.cfg.Limit && free-n >= c.cfg.Spare {
		return nil
	}
	slack := c.cfg.Limit / 20 // or every small file would have the whole cache counted
	for _, b := range all {
		if c.used+n <= c.cfg.Limit-slack && free-n >= c.cfg.Spare {
			break
		}
		if !b.shared && c.evict(b) {
			c.used -= b.size
			free += b.size
		}
	}
	if c.used+n > c.cfg.Limit || free-n < c.cfg.Spare {
		return errFull
	}
	return nil
}

// kept is something that takes room in the cache.
type kept struct {
	path   string
	names  []string // that lead to it
	size   int64
	used   time.Time
	shared bool // in use
	whole  bool // a directory
}

func (c *Cache) evict(k kept) bool {
	for _, n := range k.names {
		_ = os.Remove(n) // one that stays leads nowhere
	}
	remove := os.Remove
	if k.whole {
		remove = removeKept
	}
	err := remove(k.path)
	if err != nil {
		c.cfg.Log.Warn("input cache", zap.Error(err))
		return false
	}
	c.cfg.Log.Info("input thrown out of the cache", zap.String("path", k.path), zap.Int64("bytes", k.size), zap.Time("used", k.used))
	return true
}

// count finds everything that takes room, of all tenants, and returns what may be
// thrown out, least recently used first. Called with the lock.
func (c *Cache) count() []kept {
	var all []kept
	c.used = 0
	tenants, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return nil
	}
	for _, t := range tenants {
		if !t.IsDir() {
			continue
		}
		dir := filepath.Join(c.cfg.Dir, t.Name())
		all = append(all, c.blobs(dir)...)
		all = append(all, c.partials(dir)...)
		all = append(all, c.directories(dir)...)
	}
	for _, k := range all {
		c.used += k.size
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	return all
}

// files calls f for every file below a directory; what cannot be read is not there.
func files(dir string, f func(path string, info fs.FileInfo)) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				f(path, info)
			}
		}
		return nil
	})
}

func (c *Cache) blobs(dir string) []kept {
	byContent := map[string]*kept{}
	var order []string
	files(filepath.Join(dir, "blobs"), func(path string, info fs.FileInfo) {
		content := filepath.Base(path)
		// One that has no name yet is being given one, unless that never happened.
		byContent[content] = &kept{path: path, size: info.Size(), used: info.ModTime(), shared: linked(info)}
		order = append(order, content)
	})
	files(filepath.Join(dir, "names"), func(path string, info fs.FileInfo) {
		var n named
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &n)
		}
		if k := byContent[n.Content]; err == nil && k != nil {
			if len(k.names) == 0 || info.ModTime().After(k.used) {
				k.used = info.ModTime()
			}
			k.names = append(k.names, path)
		} else if c.cfg.Now().Sub(info.ModTime()) > stale {
			_ = os.Remove(path)
		}
	})
	out := make([]kept, len(order))
	for i, content := range order {
		out[i] = *byContent[content]
	}
	return out
}

// linked reports whether a file has another name, so that a machine has it.
func linked(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink > 1
}

// partials are unfinished; those that nobody has touched for a day go first.
func (c *Cache) partials(dir string) (out []kept) {
	files(filepath.Join(dir, "partial"), func(path string, info fs.FileInfo) {
		k := kept{path: path, size: allocated(info), used: info.ModTime()}
		k.shared = c.cfg.Now().Sub(k.used) < stale
		out = append(out, k)
	})
	return out
}

// allocated is what a file takes of the disk: less than its size while parts are missing.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return info.Size()
}
