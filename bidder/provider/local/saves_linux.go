package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// saveWatch sees a trainer begin to write a checkpoint: a directory
// checkpoint-* in which there is no trainer_state.json yet, which such trainers
// write last. What is there when the watch begins does not count, and neither
// does what is below a hidden directory.
//
// The kernel tells it (inotify), because the save of a small model is over within
// a few milliseconds, and looking often enough would take a processor.
type saveWatch struct {
	root    string
	file    *os.File
	dirs    map[int]string  // by watch descriptor
	old     map[string]bool // checkpoints that do not count
	pending []string
	buf     []byte
}

const (
	complete   = "trainer_state.json"
	checkpoint = "checkpoint-"
	maxDepth   = 6
	maxWatched = 500
	eventSize  = unix.SizeofInotifyEvent
)

func newSaveWatch(root string) (*saveWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching for saves: %w", err)
	}
	w := &saveWatch{
		root: root, file: os.NewFile(uintptr(fd), "inotify"), dirs: map[int]string{}, old: map[string]bool{}, buf: make([]byte, 64<<10),
	}
	if err := w.add(root, fd); err != nil {
		return nil, errors.Join(err, w.close())
	}
	for _, dir := range w.pending {
		w.old[dir] = true
	}
	w.pending = nil
	return w, nil
}

func (w *saveWatch) close() error { return w.file.Close() }

// next waits for a save to begin and returns its directory. It returns an error when the watch is closed.
func (w *saveWatch) next() (string, error) {
	for len(w.pending) == 0 {
		n, err := w.file.Read(w.buf)
		if err != nil {
			return "", err
		}
		w.take(w.buf[:n])
	}
	dir := w.pending[0]
	w.pending = w.pending[1:]
	w.old[dir] = true
	return dir, nil
}

// take reads what the kernel tells. See inotify(7).
func (w *saveWatch) take(b []byte) {
	for len(b) >= eventSize {
		wd := int(int32(binary.NativeEndian.Uint32(b)))
		isDir := binary.NativeEndian.Uint32(b[4:])&unix.IN_ISDIR != 0
		size := int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b)-eventSize {
			return
		}
		name, _, _ := bytes.Cut(b[eventSize:eventSize+size], []byte{0})
		b = b[eventSize+size:]
		if dir, known := w.dirs[wd]; known && isDir {
			w.consider(filepath.Join(dir, string(name)))
		}
	}
}

// add watches a directory and what is in it. Something made in it before the
// watch stood is found by reading it.
func (w *saveWatch) add(dir string, fd int) error {
	if len(w.dirs) >= maxWatched || strings.Count(dir[len(w.root):], string(filepath.Separator)) > maxDepth {
		return nil
	}
	wd, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	if err != nil {
		return fmt.Errorf("watching %s for saves: %w", dir, err)
	}
	w.dirs[wd] = dir
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n.IsDir() {
			w.consider(filepath.Join(dir, n.Name()))
		}
	}
	return nil
}

func (w *saveWatch) consider(path string) {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(name, "."):
	case strings.HasPrefix(name, checkpoint):
		if !w.old[path] && !saved(path) {
			w.pending = append(w.pending, path)
		}
	default:
		if raw, err := w.file.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = w.add(path, int(fd)) }) // not a directory, or gone again
		}
	}
}

// saved says whether a checkpoint is complete, or gone: no longer being written.
func saved(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, complete)); err == nil {
		return true
	}
	_, err := os.Lstat(dir)
	return err != nil
}
