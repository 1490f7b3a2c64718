package jobfile

import (
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// policy.checkpoint: where the trainer saves, how often, and what tells it to.

// relative cleans a path that must stay inside the job's own directory.
func relative(s string) (string, bool) {
	if s == "" || strings.ContainsAny(s, "\x00\n\\") || path.IsAbs(s) {
		return "", false
	}
	s = path.Clean(s)
	return s, s != "." && s != ".." && !strings.HasPrefix(s, "../")
}

func (r *reader) readCheckpointDir(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	dir, ok := relative(s)
	if !ok {
		r.refuse(placeOf(n), path, "give a directory below the job's own, such as checkpoints, and let the trainer save there ($SPOTFERRY_CHECKPOINT_DIR)",
			"checkpoint.dir is %s", quoted(s))
		return
	}
	r.job.Spec.Policy.Checkpoint.Dir = dir
}

func (r *reader) readInterval(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if r.job.Spec.Policy.Checkpoint.IntervalAuto = s == "auto"; !ok || s == "auto" {
		return
	}
	if d, ok := r.span(path, n, time.Second, 24*time.Hour); ok {
		r.job.Spec.Policy.Checkpoint.IntervalS = int64(d / time.Second)
	}
}

func (r *reader) readFramework(path string, n *yaml.Node) {
	if s, ok := r.choice(path, n, "auto", "hf", "plain"); ok && s != "auto" {
		r.job.Spec.Policy.Checkpoint.Framework = s
	}
}

// readVerify takes what is done anyway.
func (r *reader) readVerify(path string, n *yaml.Node) {
	if v, ok := r.yesNo(path, n); ok && !v {
		r.warn(placeOf(n), path, "leave it out", "%s changes nothing: every checkpoint is verified before it is restored", path)
	}
}

func (r *reader) readMarker(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	if name, ok := relative(s); !ok || strings.Contains(name, "/") {
		r.refuse(placeOf(n), path, "give the name of the file that the trainer writes last, such as DONE", "checkpoint.marker is %s", quoted(s))
		return
	}
	r.job.Spec.Policy.Checkpoint.Marker = s
}

func (r *reader) readSignal(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	name := strings.ToUpper(s)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	switch name {
	case "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGINT", "SIGHUP":
		r.job.Spec.Policy.Checkpoint.Signal = name
	case "SIGKILL", "SIGSTOP":
		r.refuse(placeOf(n), path, "choose one that the trainer can act on, such as SIGUSR1", "no program can catch %s", name)
	default:
		r.refuse(placeOf(n), path, "choose one of SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP", "on_notice.signal is %s", quoted(s))
	}
}
