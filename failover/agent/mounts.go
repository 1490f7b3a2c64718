package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// fetchMounts brings the job's other files where it wants them. Nothing leads out
// of the job's home and working directory, whatever the spec, an archive or a
// bucket says.
func (a *agent) fetchMounts(ctx context.Context) error {
	for _, m := range a.spec.Mounts {
		fetch := a.fetchPacked
		if m.Source != "" {
			fetch = a.fetchSource
		}
		if err := fetch(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

// fetchPacked brings what was packed at submission.
func (a *agent) fetchPacked(ctx context.Context, m events.Mount) error {
	dir, err := a.mountDir(m.Path)
	if err != nil {
		return err
	}
	return a.tryUntil(ctx, "fetching "+m.Path, errArchive, func() error {
		return fetchArchive(ctx, a.inputs.bringer, a.stored(m.Archive), dir)
	})
}

// mountPlace is where a path of the spec is: below the home or the working directory.
func (a *agent) mountPlace(path string) (base, rest string, err error) {
	base, rest = a.place.work, path
	if path == "~" || strings.HasPrefix(path, "~/") {
		base, rest = a.place.home, strings.TrimPrefix(strings.TrimPrefix(path, "~"), "/")
		if below, ok := strings.CutPrefix(rest+"/", "sky_workdir/"); ok { // a link there, see newLayout
			base, rest = a.place.work, strings.TrimSuffix(below, "/")
		}
	}
	if rest == "" {
		rest = "."
	}
	if !filepath.IsLocal(rest) {
		return "", "", fmt.Errorf("%w: it is to be put into %.200q, which leads out of the job's directories", errArchive, path)
	}
	return base, filepath.Clean(rest), nil
}

// mountDir makes the directory of a mount and returns its path.
func (a *agent) mountDir(path string) (string, error) {
	base, rest, err := a.mountPlace(path)
	if err != nil {
		return "", err
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
