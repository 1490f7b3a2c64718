package agent

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// passed are the variables of the agent's own environment that a trainer gets,
// and passedPrefixes the beginnings of such: what a GPU machine's image sets, and
// never what the agent was given for itself.
var (
	passed         = []string{"LANG", "TZ", "TERM", "USER", "LOGNAME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOCOVERDIR", "SPOTFERRY_EVIDENCE_DIR"}
	passedPrefixes = []string{"LC_", "CUDA", "NVIDIA", "NCCL_", "ROCM", "HIP_"}
)

// environment is all that setup, run and hooks see. The job's own variables come
// last and win, except over those that say which job, epoch and machine it is.
func (a *agent) environment(epoch int, resume string) []string {
	l, job := a.place, a.cfg.Bootstrap.Job
	env := []string{"PATH=" + searchPath(a.cfg), "HOME=" + l.home, "TMPDIR=" + l.tmp}
	for _, v := range a.cfg.Env {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(passed, name) || slices.ContainsFunc(passedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			env = append(env, v)
		}
	}
	// A run that goes on elsewhere is the same run to whoever draws its curves.
	env = append(env, "WANDB_RUN_ID="+string(job), "WANDB_RESUME=allow")
	for _, name := range slices.Sorted(maps.Keys(a.spec.Envs)) {
		env = append(env, name+"="+a.spec.Envs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(a.secrets)) {
		env = append(env, name+"="+a.secrets[name].Reveal())
	}
	env = append(env, skypilot(job, a.spec, gpusHere(gpuDir))...)
	return append(env,
		"SPOTFERRY_JOB_ID="+string(job),
		fmt.Sprintf("SPOTFERRY_EPOCH=%d", epoch),
		"SPOTFERRY_CHECKPOINT_DIR="+l.checkpoints,
		"SPOTFERRY_RESUME_FROM="+resume,
		"SPOTFERRY_NOTICE_FILE="+l.notice,
		"SPOTFERRY_PROGRESS_FILE="+l.progress,
	)
}

// skypilot is what a script of SkyPilot's reads about where it runs. The task's
// id is the same on every machine of the job, as that of a managed job there.
func skypilot(job events.JobID, spec events.JobSpec, gpus int) []string {
	task := "spotferry_" + slug(spec.Name) + "_" + string(job)
	count := fmt.Sprint(gpusPerNode(spec.Resources.Accelerators, gpus))
	const ip = "127.0.0.1" // the only node: a rendezvous with itself needs no other address
	return []string{
		"SKYPILOT_NODE_RANK=0", "SKYPILOT_NODE_IPS=" + ip, "SKYPILOT_NUM_NODES=1", "SKYPILOT_NUM_GPUS_PER_NODE=" + count,
		"SKYPILOT_TASK_ID=" + task, "SKYPILOT_JOB_ID=" + task, // the second is its older name
		"SKYPILOT_SETUP_NODE_RANK=0", "SKYPILOT_SETUP_NODE_IPS=" + ip, "SKYPILOT_SETUP_NUM_GPUS_PER_NODE=" + count,
	}
}

// gpusPerNode is how many GPUs the job asked for. When it would take several
// counts, the machine itself says which it has; one that shows none has the least.
func gpusPerNode(asked []events.Accelerator, here int) int {
	if len(asked) == 0 {
		return 0
	}
	least := slices.MinFunc(asked, func(a, b events.Accelerator) int { return a.Count - b.Count }).Count
	for _, a := range asked {
		if a.Count != least && a.Count == here {
			return here
		}
	}
	return least
}

// gpuDir is where NVIDIA's driver lists its GPUs, one entry each.
const gpuDir = "/proc/driver/nvidia/gpus"

// gpusHere counts the GPUs that the driver shows.
func gpusHere(dir string) int {
	found, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	return len(found)
}

// slug is a name as it can stand in a path, in an address and in an id of W&B's.
func slug(name string) string {
	s := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z':
			return c
		}
		return '-'
	}, name)
	s = strings.Trim(s[:min(len(s), 40)], "-")
	if s == "" {
		return "job"
	}
	return s
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
