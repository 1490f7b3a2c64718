package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// fetchMounts brings the job's other files where it wants them. Nothing leads out
// of the job's home and working directory, whatever the spec or an archive says.
func (a *agent) fetchMounts(ctx context.Context) error {
	for _, m := range a.spec.Mounts {
		dir, err := a.mountDir(m.Path)
		if err != nil {
			return err
		}
		err = a.tryUntil(ctx, "fetching "+m.Path, errArchive, func() error {
			return fetchWorkdir(ctx, a.store, m.Archive, dir, a.place.scratch)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

// mountDir makes the directory of a mount and returns its path.
func (a *agent) mountDir(path string) (string, error) {
	base, rest := a.place.work, path
	if path == "~" || strings.HasPrefix(path, "~/") {
		base, rest = a.place.home, strings.TrimPrefix(strings.TrimPrefix(path, "~"), "/")
	}
	if rest == "" {
		rest = "."
	}
	if !filepath.IsLocal(rest) {
		return "", fmt.Errorf("%w: it is to be put into %.200q, which leads out of the job's directories", errArchive, path)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return "", fmt.Errorf("making %s: %w", path, err)
	}
	defer root.Close()
	if err := root.MkdirAll(rest, 0o755); err != nil {
		return "", fmt.Errorf("%w: making %s: %w", errArchive, path, err)
	}
	return filepath.Join(base, rest), nil
}
