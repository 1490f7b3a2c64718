package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// Names of what is not, or no longer, a tree of the job. Both begin with a dot,
// which no tree's name does.
const (
	incoming = ".incoming-" // a restore that is not finished
	replaced = ".replaced-" // what was there before, on its way out
)

// tidy removes what earlier restores left when their machine or process died,
// except what is to be gone on with.
func tidy(dir *os.Root, except string) error {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range entries {
		if d.Name() == except {
			continue
		}
		if strings.HasPrefix(d.Name(), incoming) || strings.HasPrefix(d.Name(), replaced) {
			if err := discard(dir, d.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard removes a tree, also one whose directories may not be written to.
func discard(dir *os.Root, name string) error {
	if dir.RemoveAll(name) == nil {
		return nil
	}
	if sub, err := dir.OpenRoot(name); err == nil {
		open := func(p string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				return sub.Chmod(p, 0o700) // comes before the directory is read
			}
			return err
		}
		err := errors.Join(sub.Chmod(".", 0o700), fs.WalkDir(sub.FS(), ".", open))
		if err := errors.Join(err, sub.Close()); err != nil {
			return err
		}
	}
	return dir.RemoveAll(name)
}

// stage writes a whole tree under a hidden name and makes it durable. What an
// interrupted stage left there is verified and used.
func (e *Engine) stage(ctx context.Context, dir *os.Root, name string, ref Ref, m Manifest) error {
	jobs, err := e.plan(m)
	if err != nil {
		return judge(ref, "", err)
	}
	err = dir.Mkdir(name, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return full(err)
	}
	root, rerr := dir.OpenRoot(name)
	if rerr != nil {
		return rerr
	}
	defer root.Close()
	s := &staging{e: e, root: root, m: m, left: make([]atomic.Int32, len(m.Files)), had: make([]bool, len(m.Files))}
	if err != nil {
		err = s.takeOver()
	}
	if err == nil {
		err = s.prepare(jobs)
	}
	if err != nil {
		return full(err)
	}
	if err := s.fill(ctx, ref, jobs); err != nil {
		return err
	}
	if err := s.syncSmall(); err != nil {
		return full(err)
	}
	return seal(root, m.Files)
}

// seal gives directories their modes and makes their entries durable, innermost
// first: a directory that may not be written to must be complete by then.
func seal(root *os.Root, files []File) error {
	for _, f := range slices.Backward(files) {
		if f.Kind != Directory {
			continue
		}
		d, err := root.Open(f.Path)
		if err != nil {
			return err
		}
		err = errors.Join(d.Chmod(fs.FileMode(f.Mode)), d.Sync())
		if err := errors.Join(err, d.Close()); err != nil {
			return full(err)
		}
	}
	return nil
}

// expose renames a staged tree into place. A tree that is in the way is moved
// aside first, since a directory cannot be renamed over; whoever dies in between
// restores again, for the trainer starts only after Restore has returned.
func expose(dir *os.Root, staging, name string) error {
	aside := replaced + path.Base(name)
	err := dir.Rename(name, aside)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving %s aside: %w", quote(name), err)
	}
	if err := dir.Rename(staging, name); err != nil {
		return full(err)
	}
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close(), discard(dir, aside))
}

// full tells a full disk from other trouble.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w on this machine, give the job a larger disk: %w", ErrNoSpace, err)
	}
	return err
}
