package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// A machine's processes are found in three ways, none of which a program can
// escape by changing its session or group: the machine's cgroup, where there is
// one; descent from the host, to which orphans are given; and for a host that has
// died, the environment.

// descendants returns the living processes below roots, without the roots.
func descendants(all []entry, roots ...int) []process {
	in := map[int]bool{}
	for _, r := range roots {
		in[r] = true
	}
	var out []process
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			if in[e.parent] && !in[e.PID] {
				in[e.PID], grown = true, true
				if !e.dead {
					out = append(out, e.process)
				}
			}
		}
	}
	return out
}

// below finds what is left of this host's machine.
func below(self int) ([]process, error) {
	all, err := processTable()
	return descendants(all, self), err
}

// leftovers finds what a host that died has left behind: every process that was
// given the machine's directory for its own, and all that descend from one.
func leftovers(machine string) ([]process, error) {
	all, err := processTable()
	var out []process
	var roots []int
	for _, e := range all {
		if !e.dead && e.PID != os.Getpid() && belongs(e.PID, machine) {
			out, roots = append(out, e.process), append(roots, e.PID)
		}
	}
	return append(out, descendants(all, roots...)...), err
}

// belongs says whether a process runs on a machine by what it was started with:
// a variable of ours names the machine's directory or something in it. Variables
// that are not ours do not count: a person's editor has been in many directories.
func belongs(pid int, machine string) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := strings.Cut(string(v), "=")
		if strings.HasPrefix(name, "SPOTFERRY_") && (value == machine || strings.HasPrefix(value, machine+"/")) {
			return true
		}
	}
	return false
}

// killAll kills what look finds until it finds nothing twice: a process may be
// forking, or between two programs. collect, if not nil, waits for the dead. It
// returns how many are still there at the deadline.
func killAll(look func() ([]process, error), collect func(), cg cgroup, deadline time.Time) (int, error) {
	for none, pause := 0, time.Millisecond; ; {
		cg.kill()
		found, err := look()
		for _, p := range found {
			_ = signalTo(p, syscall.SIGKILL) // found again if it was not reached
		}
		if collect != nil {
			collect()
		}
		if none++; err != nil || len(found) > 0 || cg.populated() {
			none = 0
		}
		if none == 2 {
			return 0, nil
		}
		if time.Now().After(deadline) {
			return max(len(found), 1), err
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}
