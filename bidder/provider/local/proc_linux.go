package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const selfPath = "/proc/self/exe" // opens even when the file has lost its name

// supported says why machines cannot be run here.
func supported() error { return nil }

// entry is one line of the process table.
type entry struct {
	process
	parent int
	dead   bool // a zombie: only its exit code is left
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// lookUp reads one process's line.
func lookUp(pid int) (entry, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return entry{}, err
	}
	// Field 2 is the program's name in parentheses and may hold anything, also
	// parentheses; field 3 follows the last one. See proc(5).
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return entry{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f)+2)
	}
	parent, err1 := strconv.Atoi(string(f[1]))
	start, err2 := strconv.ParseUint(string(f[19]), 10, 64)
	state := f[0][0]
	return entry{process{PID: pid, Start: start}, parent, state == 'Z' || state == 'X'}, errors.Join(err1, err2)
}

// processTable reads /proc. Processes that end meanwhile are left out.
func processTable() ([]entry, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("reading the process table: %w", err)
	}
	var all []entry
	for _, n := range names {
		if pid, err := strconv.Atoi(n.Name()); err == nil {
			if e, err := lookUp(pid); err == nil {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// identify returns the name of a process that is running, of this boot.
func identify(pid int) (process, error) {
	e, err := lookUp(pid)
	e.process.Boot = bootID()
	return e.process, err
}

// signalTo reaches this very process or none: the pid may be another's by now.
func signalTo(p process, sig syscall.Signal) error {
	if p.PID <= 0 || p.Boot != "" && p.Boot != bootID() {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reaching process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if e, err := lookUp(p.PID); err != nil || e.Start != p.Start {
		return nil
	}
	if err = unix.PidfdSendSignal(fd, sig, nil, 0); errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// lockFully waits for the lock on a file. It goes with the file's last descriptor.
func lockFully(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// tryLock takes the lock on a file that is created if need be. Without an error
// and without a file somebody else has it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// spawn starts a process of its own session, which outlives this one.
func spawn(argv, env []string, dir, out string) (int, error) {
	log, err := os.OpenFile(out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	return start(argv, env, dir, log, &syscall.SysProcAttr{Setsid: true})
}

// start starts a program with nothing to read and log to write to.
func start(argv, env []string, dir string, log *os.File, attr *syscall.SysProcAttr) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: dir, Env: env, Files: []*os.File{null, log, log}, Sys: attr})
	if err != nil {
		return 0, err
	}
	pid := p.Pid
	return pid, p.Release() // waited for by pid: see reap and ended
}

// ended collects a child of ours if it has ended.
func ended(pid int) bool {
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return got == pid || errors.Is(err, unix.ECHILD)
}

// reap collects every child that has ended and returns their pids with how they ended.
func reap() map[int]string {
	out := map[int]string{}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return out
		}
		out[pid] = describe(status)
	}
}

func describe(s unix.WaitStatus) string {
	if s.Signaled() {
		return "signal " + unix.SignalName(s.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}

// adoptOrphans makes this process the parent of every descendant whose own parent dies.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a sub-reaper: %w: Linux 3.4 or newer is needed", err)
	}
	return nil
}

func reapAll() { reap() }
