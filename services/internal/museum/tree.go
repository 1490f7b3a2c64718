package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// tree is the private copy. It stands at a place of its own for each tree it was
// copied from, so that go's cache knows the packages again.
type tree struct {
	root string // the original
	dir  string
	junk string // where tests make their temporary files
	temp string // what close removes, "" if the place is kept
	lock *os.File
}

// copyTree copies what belongs to the tree at root, and removes from an older copy what does not any more.
func copyTree(ctx context.Context, root string) (*tree, error) {
	t := &tree{root: root}
	place := filepath.Join(os.TempDir(), fmt.Sprintf("spotferry-museum-%d", os.Getuid()))
	if err := t.take(place); err != nil {
		return nil, err
	}
	files, err := filesOf(ctx, root)
	if err != nil {
		t.close()
		return nil, err
	}
	if err := t.prune(files); err != nil {
		t.close()
		return nil, err
	}
	for _, name := range files {
		if err := t.restore(name); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

// take makes the usual place this visit's own, or another one if somebody has it.
func (t *tree) take(place string) error {
	if err := os.MkdirAll(place, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(place, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		t.lock, t.dir, t.junk = lock, filepath.Join(place, "tree"), filepath.Join(place, "tmp")
		return os.MkdirAll(t.dir, 0o700)
	}
	lock.Close()
	t.temp, err = os.MkdirTemp("", "spotferry-museum-")
	t.dir, t.junk = filepath.Join(t.temp, "tree"), filepath.Join(t.temp, "tmp")
	return errors.Join(err, os.Chmod(t.temp, 0o755), os.MkdirAll(t.dir, 0o700))
}

// sweep empties the place for temporary files: tests that are cut short clean
// nothing up. What somebody still writes to is left for the next time.
func (t *tree) sweep() error {
	_ = os.RemoveAll(t.junk)
	return os.MkdirAll(t.junk, 0o755) // some tests ask as another user
}

func (t *tree) close() {
	_ = os.RemoveAll(t.junk)
	if t.lock != nil {
		t.lock.Close()
	}
	if t.temp != "" {
		_ = os.RemoveAll(t.temp)
	}
}

// filesOf lists what git tracks and what was added since, or without git every file.
func filesOf(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, path)
		files = append(files, name)
		return err
	})
	return files, err
}

func (t *tree) prune(keep []string) error {
	known := map[string]bool{}
	for _, name := range keep {
		known[name] = true
	}
	var gone []string
	err := filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(t.dir, path)
		if !known[name] {
			gone = append(gone, path)
		}
		return err
	})
	for _, path := range gone {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// restore makes one file of the copy what it is in the original, its time included: go's
// cache of test results looks at that.
func (t *tree) restore(name string) error {
	from, to := filepath.Join(t.root, name), filepath.Join(t.dir, name)
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) { // deleted and not committed, or made by a patch
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		_ = os.Remove(to)
		return os.Symlink(target, to)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if old, err := os.Lstat(to); err == nil && old.Size() == info.Size() && old.ModTime().Equal(info.ModTime()) && old.Mode() == info.Mode() {
		return nil
	}
	if err := copyFile(from, to, info.Mode()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chmod(to, mode.Perm()))
}

// apply changes the copy as a patch says, or tells why that cannot be. undo takes it back.
func (t *tree) apply(ctx context.Context, file string) (undo func() error, why string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	names := touched(data)
	kept := map[string]saved{} // of the copy: the original may be another by now
	for _, name := range names {
		if kept[name], err = save(filepath.Join(t.dir, name)); err != nil {
			return nil, "", err
		}
	}
	undo = func() error {
		var errs []error
		for _, name := range names {
			errs = append(errs, kept[name].putBack(filepath.Join(t.dir, name)))
			for _, left := range []string{".orig", ".rej"} {
				_ = os.Remove(filepath.Join(t.dir, name+left))
			}
		}
		return errors.Join(errs...)
	}
	if len(names) == 0 {
		return undo, "it names no file of the tree", nil
	}
	var said []string
	for _, how := range [][]string{
		{"git", "apply", "-p1", "--recount"},
		{"patch", "-p1", "--forward", "--batch", "--fuzz=2", "--no-backup-if-mismatch"},
		{"patch", "-p0", "--forward", "--batch", "--fuzz=2", "--no-backup-if-mismatch"},
	} {
		cmd := exec.CommandContext(ctx, how[0], how[1:]...)
		cmd.Dir, cmd.Stdin = t.dir, bytes.NewReader(data)
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(t.dir))
		out, err := cmd.CombinedOutput()
		if err == nil {
			return undo, "", nil
		}
		if ctx.Err() != nil {
			return undo, "", ctx.Err()
		}
		said = append(said, strings.Join(how, " ")+": "+strings.TrimSpace(string(out)))
		if err := undo(); err != nil {
			return undo, "", err
		}
	}
	return undo, strings.Join(said, "\n"), nil
}

// saved is a file as it was; the zero value is none.
type saved struct {
	data []byte
	info fs.FileInfo
}

func save(path string) (saved, error) {
	info, err := os.Stat(path)
	if err != nil {
		return saved{}, nil // a file that the patch makes
	}
	data, err := os.ReadFile(path)
	return saved{data, info}, err
}

func (s saved) putBack(path string) error {
	if s.info == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.WriteFile(path, s.data, s.info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(path, s.info.ModTime(), s.info.ModTime())
}

// touched lists the files that a patch names, with and without their first
// directory: that is a/ and b/ in most.
func touched(patch []byte) []string {
	var names []string
	for line := range strings.Lines(string(patch)) {
		path, ok := strings.CutPrefix(line, "+++ ")
		if !ok {
			if path, ok = strings.CutPrefix(line, "--- "); !ok {
				continue
			}
		}
		path, _, _ = strings.Cut(strings.TrimSpace(path), "\t")
		_, short, _ := strings.Cut(path, "/")
		for _, name := range []string{path, short} {
			if name != "" && name != "/dev/null" && name != "null" && filepath.IsLocal(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
