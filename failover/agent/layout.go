package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// layout is where things are on the machine.
type layout struct {
	base        string
	work        string // the job's directory: the working directory is unpacked here, setup and run start here
	checkpoints string
	home, tmp   string
	scratch     string
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
	l := layout{base: base, work: in("work"), home: in("home"), tmp: in("tmp"), scratch: in("workdir.tar"),
		setup: in("setup.sh"), run: in("run.sh"), notice: in("notice.json"), progress: in("progress.json"), log: in("job.log")}
	for _, dir := range []string{l.work, l.home, l.tmp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return l, fmt.Errorf("making the machine's directory: %w", err)
		}
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

// passed are the variables of the agent's own environment that a trainer gets,
// and passedPrefixes the beginnings of such: what a GPU machine's image sets, and
// never what the agent was given for itself.
var (
	passed         = []string{"LANG", "TZ", "TERM", "USER", "LOGNAME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOCOVERDIR", "SPOTFERRY_EVIDENCE_DIR"}
	passedPrefixes = []string{"LC_", "CUDA", "NVIDIA", "NCCL_", "ROCM", "HIP_"}
)

// environment is all that setup and run see. The job's own variables come last
// and win, except over those that say which job and epoch it is.
func (l layout) environment(cfg Config, epoch int, spec events.JobSpec, resume string) []string {
	env := []string{"PATH=" + searchPath(cfg), "HOME=" + l.home, "TMPDIR=" + l.tmp}
	for _, v := range cfg.Env {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(passed, name) || slices.ContainsFunc(passedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			env = append(env, v)
		}
	}
	names := make([]string, 0, len(spec.Envs))
	for name := range spec.Envs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		env = append(env, name+"="+spec.Envs[name])
	}
	return append(env,
		"SPOTFERRY_JOB_ID="+string(cfg.Bootstrap.Job),
		fmt.Sprintf("SPOTFERRY_EPOCH=%d", epoch),
		"SPOTFERRY_CHECKPOINT_DIR="+l.checkpoints,
		"SPOTFERRY_RESUME_FROM="+resume,
		"SPOTFERRY_NOTICE_FILE="+l.notice,
		"SPOTFERRY_PROGRESS_FILE="+l.progress,
	)
}

// searchPath has this program's directory first, so that a script calls the
// version of it that runs the job.
func searchPath(cfg Config) string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, v := range cfg.Env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok && p != "" {
			path = p
		}
	}
	if cfg.Executable == "" {
		return path
	}
	return filepath.Dir(cfg.Executable) + ":" + path
}
