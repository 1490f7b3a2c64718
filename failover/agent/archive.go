package agent

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spotferry/spotferry/checkpoint/input"
)

// The most that a working directory may unpack to.
const (
	maxUnpacked = 64 << 30
	maxEntries  = 1_000_000
)

// errArchive is a working directory that is not what was submitted, or cannot be
// put on a machine. Trying again does not help.
var errArchive = errors.New("the job's working directory cannot be unpacked")

// fetchArchive brings a tar or tar.gz of the user's and unpacks it into dir.
// Every byte is verified before the first is unpacked.
func fetchArchive(ctx context.Context, bringer *input.Bringer, from stored, dir string) error {
	files, err := from.List(ctx)
	if err != nil {
		return unpackable(err)
	}
	content, err := bringer.Fetch(ctx, from, files[0])
	if err != nil {
		return unpackable(err)
	}
	defer content.Close()
	return unpack(ctx, io.NewSectionReader(content, 0, content.Size), dir)
}

func unpackable(err error) error {
	if _, ok := errors.AsType[*input.Refusal](err); ok {
		return fmt.Errorf("%w: %w", errArchive, err)
	}
	return fmt.Errorf("fetching an archive: %w", err)
}

// unpack writes a tar below dir. Nothing in it can lead out of dir.
func unpack(ctx context.Context, r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpacking the working directory: %w", err)
	}
	defer root.Close()
	in := bufio.NewReaderSize(r, 1<<16)
	r = in
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		if r, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("%w: %w", errArchive, err)
		}
	}
	left, entries := int64(maxUnpacked), 0
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errArchive, err)
		}
		if left, entries = left-max(h.Size, 0), entries+1; left < 0 || entries > maxEntries {
			return fmt.Errorf("%w: more than %d bytes or %d files", errArchive, int64(maxUnpacked), maxEntries)
		}
		if err := errors.Join(ctx.Err(), unpackEntry(root, h, t)); err != nil {
			return fmt.Errorf("unpacking %.200q: %w", h.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, h *tar.Header, content io.Reader) error {
	name := filepath.Clean(filepath.FromSlash(h.Name))
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%w: the name leads out of it", errArchive)
	}
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeReg:
		return unpackFile(root, name, mode, damaged{content})
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) || !filepath.IsLocal(filepath.Join(filepath.Dir(name), filepath.FromSlash(h.Linkname))) {
			return fmt.Errorf("%w: a link to %.200q leads out of it", errArchive, h.Linkname)
		}
		if was, err := root.Lstat(name); err == nil && was.Mode().Type() == fs.ModeSymlink {
			if err := root.Remove(name); err != nil { // of an unpacking that was interrupted
				return err
			}
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeXGlobalHeader:
		return nil // git archive writes one
	}
	return fmt.Errorf("%w: an entry of type %q; only files, directories and links inside are carried", errArchive, strings.TrimSpace(string(h.Typeflag)))
}

func unpackFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode|0o400), f.Close())
}

// damaged marks what goes wrong with reading an archive, as opposed to writing
// what is in it.
type damaged struct{ r io.Reader }

func (d damaged) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errArchive, err)
	}
	return n, err
}
