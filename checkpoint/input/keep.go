package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Keep returns a directory that outlives this machine's job, for the next ones of
// the tenant here: what a script downloads for itself, such as base weights, is
// then there already. Jobs at the same time share it, as those of one computer
// do. It counts to the cache's limit and goes as a whole, never while in use.
func (c *Cache) Keep(name string) (string, error) {
	key := keyName(name)
	path := filepath.Join(c.dir, "kept", key)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("input cache: keeping %s: %w", name, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		lock.Close()
		return "", fmt.Errorf("input cache: keeping %s: %w", name, err)
	}
	now := c.cfg.Now()
	err = errors.Join(os.MkdirAll(path, 0o700), os.Chtimes(path+".lock", now, now))
	if err != nil {
		lock.Close()
		return "", fmt.Errorf("input cache: keeping %s: %w", name, err)
	}
	c.mu.Lock()
	c.held = append(c.held, lock)
	c.mu.Unlock()
	return path, nil
}

// removeKept removes a kept directory, unless a job has begun to use it. One that
// comes now waits, and finds it empty.
func removeKept(path string) error {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.RemoveAll(path)
}

// directories are the kept ones. The lock of one outlives it: whoever opens it
// finds the same.
func (c *Cache) directories(dir string) (out []kept) {
	entries, err := os.ReadDir(filepath.Join(dir, "kept"))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		k := kept{path: filepath.Join(dir, "kept", e.Name()), whole: true, shared: true}
		files(k.path, func(_ string, info fs.FileInfo) { k.size += allocated(info) })
		if lock, err := os.OpenFile(k.path+".lock", os.O_RDWR, 0o600); err == nil {
			if info, err := lock.Stat(); err == nil {
				k.used = info.ModTime()
			}
			k.shared = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
			lock.Close()
		}
		out = append(out, k)
	}
	return out
}
