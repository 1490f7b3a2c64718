package jobfile

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Pack writes what is mounted to w as a plain tar: a directory as Pack does, or
// the one file under the name that it has on the machine.
func (m Mount) Pack(ctx context.Context, w io.Writer) error {
	if m.File == "" {
		_, err := Pack(ctx, m.From, w)
		return err
	}
	return packFile(ctx, m.From, m.File, w)
}

func packFile(ctx context.Context, from, as string, w io.Writer) error {
	dir, name := filepath.Split(from)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("file mount: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return fmt.Errorf("file mount: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("file mount: %q is a %s: give a file or a directory", from, special(info.Mode()))
	}
	p := packer{ctx: ctx, root: root, tar: tar.NewWriter(w)}
	if err := p.fileAs(&tar.Header{Name: as, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}, name, info); err != nil {
		return fmt.Errorf("file mount %s: %w", from, err)
	}
	return p.tar.Close()
}
