package framework

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// Hold implements Adapter.
func (w *watch) Hold(root *os.Root, c Candidate, into string) error {
	entries, ok := w.approved(c)
	if !ok {
		return fmt.Errorf("holding %q: not found complete", c.Name)
	}
	err := root.RemoveAll(into)
	if err == nil {
		err = w.link(root, c, entries, into)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("holding %q: %w", c.Name, errors.Join(err, root.RemoveAll(into)))
}

// Release removes what Hold made.
func Release(root *os.Root, into string) error { return root.RemoveAll(into) }

// link makes the copy and then checks that it is of the very files that were
// approved: a trainer that was half-way through deleting them, or had begun to
// write them anew, must not give us the other half.
func (w *watch) link(root *os.Root, c Candidate, entries []entry, into string) error {
	if err := root.MkdirAll(into, 0o700); err != nil {
		return err
	}
	held := make([]entry, 0, len(entries))
	for _, e := range entries {
		to := path.Join(into, strings.TrimPrefix(e.path, c.Name+"/"))
		if e.path == c.Name && c.Files == nil {
			to = into
		}
		got, err := w.bring(root, e, to)
		if err != nil {
			return err
		}
		held = append(held, got)
	}
	if !slices.Equal(held, entries) {
		return checkpoint.ErrChanged
	}
	return nil
}

// bring makes the entry to and returns what e is now.
func (w *watch) bring(root *os.Root, e entry, to string) (entry, error) {
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return entry{}, err
	}
	if e.mode.IsRegular() && w.reused != nil && w.reused.MatchString(e.path) {
		if err := duplicate(root, e, to); err != nil {
			return entry{}, err
		}
		return stat(root, e.path) // as it is after the copying
	}
	if err := link(root, e, to); err != nil {
		return entry{}, err
	}
	got, err := stat(root, to)
	if got.path = e.path; !e.mode.IsRegular() && got.mode.Type() == e.mode.Type() {
		got = e // directories and links were made anew
	}
	return got, err
}

// duplicate copies a file, by sharing its blocks where the file system can.
func duplicate(root *os.Root, e entry, to string) error {
	from, err := open(root, e.path)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, e.mode.Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(from, e.size))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	at := time.Unix(0, e.mtime)
	return root.Chtimes(to, at, at)
}

func link(root *os.Root, e entry, to string) error {
	switch e.mode.Type() {
	case fs.ModeDir:
		if err := root.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return root.Chmod(to, e.mode.Perm()|0o700)
	case fs.ModeSymlink:
		text, err := root.Readlink(e.path)
		if err != nil {
			return gone(err)
		}
		return root.Symlink(text, to)
	}
	err := root.Link(e.path, to)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EMLINK) || errors.Is(err, syscall.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return gone(err)
}

// SetAside moves the candidates of a that are not called keep into the directory
// into, so that a trainer that looks for the newest checkpoint by itself finds
// only the one that was restored. It returns the names it moved.
func SetAside(root *os.Root, a Adapter, keep, into string) ([]string, error) {
	cs, err := a.Candidates(root)
	if err != nil {
		return nil, err
	}
	if err := root.MkdirAll(into, 0o700); err != nil {
		return nil, err
	}
	var moved []string
	for _, c := range cs {
		if c.Name == keep {
			continue
		}
		for _, name := range members(c) {
			to := path.Join(into, name)
			if err := move(root, name, to); err != nil {
				return moved, fmt.Errorf("setting %q aside: %w", name, err)
			}
		}
		moved = append(moved, c.Name)
	}
	return moved, nil
}
