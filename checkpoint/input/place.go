package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// place puts a content at name below root, in place of what is there.
func (c *Content) place(root *os.Root, name string) error {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return blocked(name, err)
	}
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if !c.cached {
		if err = unix.Renameat(unix.AT_FDCWD, c.path, int(d.Fd()), base); !errors.Is(err, unix.EXDEV) {
			return blocked(name, err)
		}
	}
	tmp := ".fetched-" + keyName(base)
	if err := root.Remove(path.Join(dir, tmp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := c.putNew(root, d, path.Join(dir, tmp), tmp); err != nil {
		_ = root.Remove(path.Join(dir, tmp))
		return err
	}
	if err := root.Rename(path.Join(dir, tmp), name); err != nil {
		_ = root.Remove(path.Join(dir, tmp))
		return blocked(name, err)
	}
	return nil
}

// putNew gives the content a name that nothing has, in the directory d: cloned,
// linked or copied.
func (c *Content) putNew(root *os.Root, d *os.File, name, base string) error {
	if done, err := c.cloneTo(root, name); done || err != nil {
		return err
	}
	if c.links && unix.Linkat(unix.AT_FDCWD, c.path, int(d.Fd()), base, 0) == nil {
		if c.is(root, name) {
			return nil
		}
		if err := root.Remove(name); err != nil { // the cache has another by that name since
			return err
		}
	}
	return c.copyTo(root, name)
}

// is reports whether what stands at a name is what was verified.
func (c *Content) is(root *os.Root, name string) bool {
	was, err := c.Stat()
	now, err2 := root.Lstat(name)
	return err == nil && err2 == nil && os.SameFile(was, now)
}

// cloneTo has the file system share the bytes until one of the two is written to.
func (c *Content) cloneTo(root *os.Root, name string) (bool, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	if err = clone(f, c.File); err != nil {
		return false, errors.Join(f.Close(), root.Remove(name))
	}
	return true, errors.Join(f.Chmod(0o444), f.Close())
}

func (c *Content) copyTo(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var n int64
	if _, err = c.Seek(0, io.SeekStart); err == nil {
		n, err = io.Copy(f, io.LimitReader(c.File, c.Size)) // within the kernel
	}
	if err == nil && n != c.Size {
		err = fmt.Errorf("%d bytes of %d: %w", n, c.Size, io.ErrUnexpectedEOF)
	}
	return errors.Join(err, f.Chmod(0o444), f.Close())
}

// blocked refuses for good where something else stands in a file's place.
func blocked(name string, err error) error {
	for _, e := range []error{syscall.EISDIR, syscall.ENOTDIR, syscall.EEXIST, syscall.ENOTEMPTY} {
		if errors.Is(err, e) {
			return refusal("mount it elsewhere", "%s: something else is in its place", name)
		}
	}
	return err
}

func stagePath(dir string, f File) string { return filepath.Join(dir, keyName(f.Key)) }
