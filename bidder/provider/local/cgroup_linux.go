package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// cgroup is the directory of a machine's control group (version 2), or "" where
// we may not make one. It holds every process of the machine whatever they do,
// and kills them in one write.
type cgroup string

// newCgroup makes a group below the one this process is in. Not being allowed to
// is usual, and no error.
func newCgroup(name string) cgroup {
	own := ownCgroup()
	if own == "" {
		return ""
	}
	dir := filepath.Join(own, "spotferry-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil { // before Linux 5.14
		_ = os.Remove(dir)
		return ""
	}
	return cgroup(dir)
}

// ownCgroup returns where this process's group is mounted, or "".
func ownCgroup() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	_, path, ok := strings.Cut("\n"+string(groups), "\n0::")
	path, _, _ = strings.Cut(path, "\n")
	mount := cgroupMount(mounts)
	if !ok || mount == "" {
		return ""
	}
	return filepath.Join(mount, path)
}

// cgroupMount finds the mount of the whole version 2 hierarchy. See proc(5).
func cgroupMount(mountinfo []byte) string {
	for l := range bytes.Lines(mountinfo) {
		before, after, _ := strings.Cut(string(l), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) > 4 && len(g) > 0 && g[0] == "cgroup2" && f[3] == "/" {
			return f[4]
		}
	}
	return ""
}

// kill kills every process in the group.
func (c cgroup) kill() {
	if c != "" {
		_ = os.WriteFile(filepath.Join(string(c), "cgroup.kill"), []byte("1"), 0) // populated tells whether it worked
	}
}

// populated says whether a process is left in the group.
func (c cgroup) populated() bool {
	if c == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(string(c), "cgroup.events"))
	return err == nil && bytes.Contains(events, []byte("populated 1"))
}

func (c cgroup) remove() {
	if c != "" {
		_ = os.Remove(string(c)) // an empty group that stays does no harm
	}
}
