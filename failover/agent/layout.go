package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// layout is where things are on the machine.
type layout struct {
	base        string
	work        string // the job's directory: the working directory is unpacked here, setup and run start here
	checkpoints string
	home, tmp   string
	scratch     string // directory for inputs that are under way
	setup, run  string // scripts
	notice      string
	progress    string
	log         string
}

// own is the directory of ours within the job's checkpoint directory: links have
// to be on the same file system.
const own = ".spotferry"

func newLayout(base string) (layout, error) {
	in := func(name string) string { return filepath.Join(base, name) }
	l := layout{base: base, work: in("work"), home: in("home"), tmp: in("tmp"), scratch: in("inputs"),
		setup: in("setup.sh"), run: in("run.sh"), notice: in("notice.json"), progress: in("progress.json"), log: in("job.log")}
	for _, dir := range []string{l.work, l.home, l.tmp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return l, fmt.Errorf("making the machine's directory: %w", err)
		}
	}
	// Scripts of SkyPilot's look for the working directory there.
	if err := os.Symlink(l.work, filepath.Join(l.home, "sky_workdir")); err != nil && !errors.Is(err, fs.ErrExist) {
		return l, fmt.Errorf("making the machine's directory: %w", err)
	}
	return l, nil
}

// setCheckpoints places the checkpoint directory, which stays in the job's.
func (l *layout) setCheckpoints(dir string) error {
	if dir == "" {
		dir = "checkpoints"
	}
	if !filepath.IsLocal(dir) || filepath.Clean(dir) == "." {
		return fmt.Errorf("policy.checkpoint.dir is %.200q: give a directory below the job's own", dir)
	}
	l.checkpoints = filepath.Join(l.work, dir)
	return nil
}
