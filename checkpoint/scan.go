package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
)

// found is one entry of a tree on disk: what the manifest will say about it, and
// what it looked like, to notice a change.
type found struct {
	File
	info     fs.FileInfo
	unsteady bool // it moved while it was read
}

// scan lists a tree without following links. It reads no content, so hashes are
// empty. Directories come before what is in them, in the order of a manifest.
func scan(root *os.Root, maxFiles int) ([]found, error) {
	info, err := root.Lstat(".")
	if err != nil {
		return nil, saving(err)
	}
	all := []found{{File{Path: ".", Kind: Directory, Mode: permissions(info)}, info, false}}
	for i := 0; i < len(all); i++ { // the list grows as directories are read
		if all[i].Kind != Directory {
			continue
		}
		if all, err = list(root, all, all[i], maxFiles); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b found) int { return comparePaths(a.Path, b.Path) })
	return all, contained(all)
}

// list appends the entries of one directory.
func list(root *os.Root, all []found, dir found, maxFiles int) ([]found, error) {
	f, err := openSame(root, dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading directory %s: %w", quote(dir.Path), saving(err))
		}
		if len(all)+len(names) > maxFiles {
			return nil, fmt.Errorf("%w: more than %d files", ErrTooLarge, maxFiles)
		}
		for _, name := range names {
			one, err := look(root, path.Join(dir.Path, name))
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
}

// look describes one entry, or refuses it.
func look(root *os.Root, name string) (found, error) {
	if err := cleanPath(name); err != nil {
		return found{}, fmt.Errorf("%w: %s: %w", ErrUnsafe, quote(name), err)
	}
	info, err := root.Lstat(name)
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", quote(name), saving(err))
	}
	f := File{Path: name, Mode: permissions(info)}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		f.Kind, f.Size = Regular, info.Size()
	case mode.IsDir():
		f.Kind = Directory
	case mode.Type() == fs.ModeSymlink:
		f.Kind, f.Mode = Symlink, 0
		if f.Link, err = root.Readlink(name); err != nil {
			return found{}, fmt.Errorf("%s: %w", quote(name), saving(err))
		}
		if err := linkText(f.Link); err != nil {
			return found{}, fmt.Errorf("%w: %s: %w", ErrUnsafe, quote(name), err)
		}
	default:
		return found{}, fmt.Errorf("%w: %s is neither file, directory nor link but %v", ErrUnsafe, quote(name), mode.Type())
	}
	return found{f, info, false}, nil
}

// permissions drops setuid, setgid and sticky; see the package comment.
func permissions(info fs.FileInfo) uint32 { return uint32(info.Mode().Perm()) }

func contained(all []found) error {
	files, byPath := make([]File, len(all)), tree{}
	for i, f := range all {
		files[i] = f.File
		byPath[f.Path] = f.File
	}
	if err := byPath.contained(files); err != nil {
		return wrap(ErrUnsafe, err)
	}
	return nil
}

// openSame opens what was found, and only that: a name that has since become a
// link or a FIFO is ErrChanged, and opening it does not block.
func openSame(root *os.Root, was found) (*os.File, error) {
	f, err := root.OpenFile(was.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", quote(was.Path), saving(err))
	}
	if err := unchanged(f, was); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unchanged compares an open file with what was found under its name.
func unchanged(f *os.File, was found) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", quote(was.Path), err)
	}
	return was.same(info)
}

// same compares two looks at one name. Directories are compared by identity
// only; their entries are compared one by one. The number of links and the time
// of status change are left out, since holding a tree by hard links alters them.
func (was found) same(info fs.FileInfo) error {
	ok := os.SameFile(was.info, info) && was.info.Mode() == info.Mode()
	if ok && was.Kind != Directory {
		ok = was.info.Size() == info.Size() && was.info.ModTime().Equal(info.ModTime())
	}
	if !ok {
		return fmt.Errorf("%w: %s", ErrChanged, quote(was.Path))
	}
	return nil
}

// rescan compares the tree with what it was when the save began: what was read
// in between is one state only if nothing moved.
func rescan(root *os.Root, was []found, maxFiles int) error {
	now, err := scan(root, maxFiles)
	if err != nil {
		return err
	}
	for i, w := range was {
		if i >= len(now) || comparePaths(now[i].Path, w.Path) > 0 {
			return fmt.Errorf("%w: %s", ErrVanished, quote(w.Path))
		}
		if now[i].Path != w.Path {
			return fmt.Errorf("%w: %s is new", ErrChanged, quote(now[i].Path))
		}
		if err := w.same(now[i].info); err != nil {
			return err
		}
	}
	if len(now) > len(was) {
		return fmt.Errorf("%w: %s is new", ErrChanged, quote(now[len(was)].Path))
	}
	return nil
}
