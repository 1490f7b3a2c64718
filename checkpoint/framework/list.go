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

	"github.com/spotferry/spotferry/checkpoint"
)

// entry is what can be seen of a file without reading it.
type entry struct {
	path  string // below the root
	mode  fs.FileMode
	size  int64
	mtime int64 // nanoseconds
	inode uint64
}

// maxEntries bounds what one look costs; the engine has its own limit.
const maxEntries = 1_000_000

// list lists a candidate, sorted by path, directories without their times:
// hard links beside a file do not alter it, but files of ours in it might.
func list(root *os.Root, c Candidate) ([]entry, error) {
	todo := c.Files
	if todo == nil {
		todo = []string{c.Name}
	}
	todo = slices.Clone(todo)
	var all []entry
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		e, err := stat(root, name)
		if err != nil {
			return nil, err
		}
		if all = append(all, e); len(all) > maxEntries {
			return nil, fmt.Errorf("%w: more than %d files", checkpoint.ErrTooLarge, maxEntries)
		}
		if e.mode.IsDir() {
			names, err := readNames(root, name)
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				todo = append(todo, path.Join(name, n))
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

func stat(root *os.Root, name string) (entry, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return entry{}, gone(err)
	}
	e := entry{path: name, mode: info.Mode(), size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.inode = st.Ino
	}
	if e.mode.IsDir() {
		e.size, e.mtime = 0, 0
	}
	return e, nil
}

func readNames(root *os.Root, dir string) ([]string, error) {
	f, err := open(root, dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return names, gone(err)
}

// open opens a file of the job, which may have been replaced by a FIFO.
func open(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return f, gone(err)
}

// gone turns "not there" into what it means for whoever looked at a candidate.
func gone(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, checkpoint.ErrVanished):
		return fmt.Errorf("%w: %w", checkpoint.ErrVanished, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", checkpoint.ErrChanged, err)
	}
	return err
}
