package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// proc is one line of the process table. Pid and start time together name a
// process: pids come round again.
type proc struct {
	pid, ppid, session int
	start              uint64 // ticks since boot
	dead               bool   // a zombie: only its exit code is left
}

// processTable reads /proc. Processes that end meanwhile are left out.
func processTable() ([]proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("reading the process table: %w", err)
	}
	var all []proc
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, err := lookUp(pid); err == nil {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// lookUp reads one process's line of the table.
func lookUp(pid int) (proc, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	// The program's name stands in parentheses and may hold anything; what
	// follows begins with field 3. See proc(5).
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return proc{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f)+2)
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	session, err2 := strconv.Atoi(string(f[3]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	return proc{pid, ppid, session, start, f[0][0] == 'Z' || f[0][0] == 'X'}, errors.Join(err1, err2, err3)
}

// signal reaches this very process or none: the pid may have been given to
// another one since the table was read.
func (p proc) signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer unix.Close(fd)
		if now, err := lookUp(p.pid); err != nil || now.start != p.start {
			return nil
		}
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// catches reports whether the process has a handler for sig.
func (p proc) catches(sig syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(status, []byte("\nSigCgt:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return ok && err == nil && mask>>(sig-1)&1 == 1
}

// treeMark is the environment variable by which a process is known to be of a
// tree although its parents are gone.
const treeMark = "SPOTFERRY_TREE"

// mark returns the tree that the process was started in, or "": a process can
// drop its environment.
func (p proc) mark() string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, 4<<20)) // more than the kernel's limit on environments in use
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if name, value, _ := bytes.Cut(v, []byte("=")); string(name) == treeMark {
			return string(value)
		}
	}
	return ""
}

// writes returns a file below dir that the process has open for writing, or "".
func (p proc) writes(dir string) (files []string) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		return nil
	}
	for _, fd := range fds {
		file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", p.pid, fd.Name()))
		if err != nil || !strings.HasPrefix(file, dir+string(filepath.Separator)) {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", p.pid, fd.Name()))
		if err == nil && openFlags(info)&(os.O_WRONLY|os.O_RDWR) != 0 {
			files = append(files, file)
		}
	}
	return files
}

func openFlags(fdinfo []byte) int {
	_, rest, _ := bytes.Cut(fdinfo, []byte("flags:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	flags, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 8, 64)
	if err != nil {
		return 0
	}
	return int(flags)
}

// members picks a tree out of the process table: the session its root leads, the
// orphans that came to us, and whatever descends from these. ours are the roots
// of all our trees; mark tells an orphan of this one from an orphan of another.
func members(all []proc, root proc, self int, ours []int, mark string, markOf func(proc) string) []proc {
	in := map[int]bool{}
	for _, p := range all {
		switch {
		case p.pid == root.pid:
			in[p.pid] = p.start == root.start
		case p.session == root.pid && p.start >= root.start:
			in[p.pid] = true
		case (p.ppid == self || p.ppid == 1) && !p.dead && !slices.Contains(ours, p.pid) && p.start >= root.start:
			got := markOf(p)
			in[p.pid] = got == mark || got == "" && p.ppid == self
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if in[p.ppid] && !in[p.pid] && p.pid != self && p.start >= root.start {
				in[p.pid], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p proc) bool { return !in[p.pid] })
}
