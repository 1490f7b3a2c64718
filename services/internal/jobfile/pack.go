package jobfile

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	maxWorkdir      = 1 << 30 // bytes of files in a workdir
	maxWorkdirFiles = 100_000 // files, directories and links in it
)

// Pack writes the directory dir to w as a plain tar, and returns how many
// regular files it holds. The same files give the same bytes: entries are in
// the order of their names, relative to dir, and have no times and no owners;
// permissions and links are kept.
//
// What .skyignore in dir names is left out; without one, what the .gitignore
// files name; and .git always. A device, socket or pipe, a link that leads out
// of dir, more than 1 GiB or 100000 entries, and a file that changes while it
// is read are refused by name.
func Pack(ctx context.Context, dir string, w io.Writer) (files int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("workdir: %w", err)
	}
	defer root.Close()
	rules, err := topRules(root)
	if err != nil {
		return 0, fmt.Errorf("workdir %s: %w", dir, err)
	}
	p := packer{ctx: ctx, root: root, tar: tar.NewWriter(w)}
	if err := p.directory(".", rules); err != nil {
		return p.files, fmt.Errorf("workdir %s: %w", dir, err)
	}
	if err := p.tar.Close(); err != nil {
		return p.files, fmt.Errorf("workdir %s: %w", dir, err)
	}
	return p.files, nil
}

type packer struct {
	ctx     context.Context
	root    *os.Root
	tar     *tar.Writer
	files   int
	entries int
	bytes   int64
}

// directory packs what stands in the directory name, in the order of names.
func (p *packer) directory(name string, rules ignores) error {
	entries, err := fs.ReadDir(p.root.FS(), name)
	if err != nil {
		return err
	}
	if rules, err = rules.below(p.root, name); err != nil {
		return err
	}
	for _, e := range entries {
		full := path.Join(name, e.Name())
		if e.Name() == ".git" || rules.match(full, e.IsDir()) {
			continue
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if p.entries++; p.entries > maxWorkdirFiles {
			return fmt.Errorf("it has more than %d entries: list what the job does not need in .skyignore", maxWorkdirFiles)
		}
		if err := p.entry(full, rules); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(name string, rules ignores) error {
	info, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}
	switch {
	case info.Mode().IsRegular():
		return p.file(h, info)
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if err := p.header(h); err != nil {
			return err
		}
		return p.directory(name, rules)
	case info.Mode()&fs.ModeSymlink != 0:
		return p.link(h)
	}
	return fmt.Errorf("%q is a %s: remove it, or list it in .skyignore", name, special(info.Mode()))
}

func (p *packer) header(h *tar.Header) error {
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	return nil
}

// file packs a regular file that is still the one that info describes. Opening
// without blocking keeps a pipe that took its place from hanging the walk.
func (p *packer) file(h *tar.Header, info fs.FileInfo) error { return p.fileAs(h, h.Name, info) }

// fileAs packs the file name under the name that h has.
func (p *packer) fileAs(h *tar.Header, name string, info fs.FileInfo) error {
	if p.bytes += info.Size(); info.Size() > maxWorkdir || p.bytes > maxWorkdir {
		return fmt.Errorf("with %q it is larger than %d MiB: list data in .skyignore and fetch it in setup", h.Name, maxWorkdir>>20)
	}
	f, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) || now.Size() != info.Size() {
		return changed(h.Name)
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := p.header(h); err != nil {
		return err
	}
	switch _, err := io.CopyN(p.tar, f, h.Size); {
	case errors.Is(err, io.EOF):
		return changed(h.Name)
	case err != nil:
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return changed(h.Name)
	}
	p.files++
	return nil
}

func changed(name string) error {
	return fmt.Errorf("%q changed while it was read: submit again when nothing writes to it", name)
}

// link packs a symbolic link that stays inside. Where it leads is judged both
// by its text, which a chain of links can belie, and by following it.
func (p *packer) link(h *tar.Header) error {
	to, err := p.root.Readlink(h.Name)
	if err != nil {
		return err
	}
	lexical := path.Join(path.Dir(h.Name), filepath.ToSlash(to))
	outside := path.IsAbs(to) || lexical == ".." || strings.HasPrefix(lexical, "../")
	if !outside {
		// A link to nothing is harmless; one that os.Root refuses to follow is not.
		if _, err := p.root.Stat(h.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			outside = true
		}
	}
	if outside {
		return fmt.Errorf("%q is a link to %q, which is outside: copy what it leads to, or list it in .skyignore", h.Name, to)
	}
	h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, to, 0o777
	return p.header(h)
}

func special(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
