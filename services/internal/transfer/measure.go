package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// run is what one act of a child process took. Every contender is one, so that
// all are measured alike.
type run struct {
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"`  // user and system, of the child and its children
	RSS  int64         `json:"rss"`  // its peak, bytes
	Sent int64         `json:"sent"` // bytes that reached the target, where that is known
	Out  []byte        `json:"-"`
}

// timed runs argv and then flushes the file system of dir: a write that is not
// on the disk has not been made.
func timed(ctx context.Context, env []string, dir string, argv ...string) (run, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	if err == nil && dir != "" {
		err = syncfs(dir)
	}
	r := run{Wall: time.Since(began), Out: out.Bytes()}
	if err != nil {
		return r, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, errs.Bytes())
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.RSS = u.Maxrss << 10
	}
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, nil
}

// session is a child process that does many acts, one for each line it is sent.
type session struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

func start(env []string, argv ...string) (*session, error) {
	s := &session{cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stderr = &s.errs
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, s.cmd.Start()
}

// act has one line answered and then flushes the file system of dir. What it took
// is read from the kernel, as for the others.
func (s *session) act(dir string) (run, error) {
	const resetPeak = "5"
	pid := s.cmd.Process.Pid
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(resetPeak), 0); err != nil {
		return run{}, err
	}
	before, err := cpuOf(pid)
	if err != nil {
		return run{}, err
	}
	began := time.Now()
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return run{}, errors.Join(err, s.stop())
	}
	line, err := s.out.ReadBytes('\n')
	if err == nil && dir != "" {
		err = syncfs(dir)
	}
	r := run{Wall: time.Since(began), Out: line}
	if err != nil {
		return r, errors.Join(err, s.stop())
	}
	after, err := cpuOf(pid)
	if err != nil {
		return r, err
	}
	r.CPU = after - before
	r.RSS, err = peakOf(pid)
	return r, err
}

// stop ends the process.
func (s *session) stop() error {
	_ = s.in.Close() // it ends by itself then
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(s.cmd.Args, " "), err, s.errs.Bytes())
	}
	return nil
}

// cpuOf returns the user and system time of a process so far, in the kernel's
// steps of 10 ms.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// peakOf returns the most memory a process has had since its peak was reset.
func peakOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	var kib int64
	_, after, _ := bytes.Cut(text, []byte("VmHWM:"))
	if _, err := fmt.Sscan(string(after), &kib); err != nil {
		return 0, fmt.Errorf("no peak of process %d: %w", pid, err)
	}
	return kib << 10, nil
}

// syncfs writes everything of the file system that dir is on.
func syncfs(dir string) error {
	return exec.Command("sync", "-f", dir).Run()
}

// median of each figure on its own.
func median(runs []run) run {
	pick := func(of func(run) int64) int64 {
		v := make([]int64, len(runs))
		for i, r := range runs {
			v[i] = of(r)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return run{
		Wall: time.Duration(pick(func(r run) int64 { return int64(r.Wall) })),
		CPU:  time.Duration(pick(func(r run) int64 { return int64(r.CPU) })),
		RSS:  pick(func(r run) int64 { return r.RSS }),
		Sent: pick(func(r run) int64 { return r.Sent }),
	}
}
