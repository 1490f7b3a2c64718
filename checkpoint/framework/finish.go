package framework

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/checkpoint"
)

// move renames over whatever is there.
func move(root *os.Root, from, to string) error {
	if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	if err := root.RemoveAll(to); err != nil {
		return err
	}
	return root.Rename(from, to)
}

// unwrap puts a set that was restored as a directory back where its files lay,
// below the root, and returns the first of its members. A directory whose own
// name matches whole is one member. It returns "" for a directory that is a
// candidate itself, and when this was done before.
func unwrap(root *os.Root, name string, whole *regexp.Regexp) (string, error) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	members, err := membersOf(root, name, whole)
	if err != nil || !slices.ContainsFunc(members, func(m string) bool {
		base := path.Base(m)
		return base == name || base == name+".ckpt" || base == kerasWeights
	}) {
		return "", err
	}
	for _, m := range members {
		if err := move(root, path.Join(name, m), m); err != nil {
			return "", err
		}
	}
	return members[0], root.RemoveAll(name)
}

func membersOf(root *os.Root, name string, whole *regexp.Regexp) ([]string, error) {
	var members []string
	err := fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == name {
			return err
		}
		rel := strings.TrimPrefix(p, name+"/")
		switch {
		case d.IsDir() && whole.MatchString(d.Name()):
			members = append(members, rel)
			return fs.SkipDir
		case !d.IsDir():
			members = append(members, rel)
		}
		return nil
	})
	return members, err
}

// where returns the path of a restored candidate after unwrap.
func (a *adapter) where(root *os.Root, name string, whole *regexp.Regexp) (string, error) {
	at, err := unwrap(root, name, whole)
	if err != nil || at != "" {
		return at, err
	}
	cs, err := a.Candidates(root)
	for _, c := range cs {
		if c.Name == name && len(c.Files) > 0 {
			return c.Files[0], nil
		}
	}
	if err == nil {
		err = besides(root, func(p string, d fs.DirEntry) {
			if d.Name() == name+".ckpt" || d.Name() == name {
				at = p
			}
		})
	}
	if err == nil && at == "" {
		err = fmt.Errorf("%w: %w", checkpoint.ErrVanished, fs.ErrNotExist)
	}
	return at, err
}

func exists(root *os.Root, name string) error {
	_, err := root.Lstat(name)
	return gone(err)
}

// writeMarker replaces a small file, durably and in one step.
func writeMarker(root *os.Root, name, text string) error {
	tmp := path.Join(path.Dir(name), "."+path.Base(name)+".new")
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err == nil {
		err = syncDir(root, path.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	return nil
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove deletes a file that may not be there.
func remove(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readMarker returns the text of a small file without the space around it, and
// whether it is there.
func readMarker(root *os.Root, name string) (string, bool, error) {
	e, err := stat(root, name)
	if errors.Is(err, checkpoint.ErrVanished) {
		return "", false, nil
	}
	if err != nil || !e.mode.IsRegular() || e.size > 4096 {
		return "", false, err
	}
	b, err := readFile(root, e)
	return strings.TrimSpace(string(b)), err == nil, err
}
