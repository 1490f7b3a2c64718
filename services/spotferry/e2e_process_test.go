package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is a child process of the test and what it has said so far.
type program struct {
	*exec.Cmd
	began  time.Time
	stderr *heard
	stdout *heard
	ended  chan struct{} // closed when it is gone
}

// heard is what a process wrote, and when it wrote first.
type heard struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	first time.Time
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first.IsZero() {
		h.first = time.Now()
	}
	return h.buf.Write(b)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

// begin runs the program. Whatever becomes of the test, it does not outlive it.
func begin(t *testing.T, args ...string) *program {
	t.Helper()
	return beginIn(t, "", args...)
}

// beginIn is begin with a directory for temporary files; "" for the usual one.
func beginIn(t *testing.T, tmp string, args ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return beginProgram(t, exe, tmp, args...)
}

// beginProgram is beginIn with another executable than this test's.
func beginProgram(t *testing.T, exe, tmp string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(exe, args...), began: time.Now(), stderr: &heard{}, stdout: &heard{}, ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.stdout, p.stderr
	p.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	if tmp != "" {
		p.Env = append(p.Env, "TMPDIR="+tmp)
	}
	p.Dir = t.TempDir() // no source tree around it
	p.WaitDelay = 10 * time.Second
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	return p
}

// kill ends it as the kernel would, and waits.
func (p *program) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// result of a command that was run to its end, within patience.
func command(t *testing.T, args ...string) result {
	t.Helper()
	p := begin(t, args...)
	until(t, strings.Join(args, " ")+" ends", p.over)
	return result{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// proc is a process, by pid and start time.
type proc struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// alive says whether it is there and not just waiting to be collected.
func (p proc) alive() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return false
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return false
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	return err == nil && (p.Start == 0 || start == p.Start)
}

func (p proc) kill() {
	if p.alive() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// processes are those of the machines: hosts, agents, trainers and their shells.
func (s *installation) processes() []proc { return processesIn(s.t, s.dir) }

// processesIn are those that run a program of a directory, or in one of its directories.
func processesIn(t *testing.T, dir string) (found []proc) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, link := range []string{"exe", "cwd"} {
			to, err := os.Readlink(filepath.Join("/proc", e.Name(), link))
			if err == nil && strings.HasPrefix(to, dir+"/") {
				if p := (proc{PID: pid}); p.alive() {
					found = append(found, p)
				}
				break
			}
		}
	}
	return found
}

// machine is the local seller's record of an instance's processes.
type machine struct {
	dir         string
	Host, Agent proc
}

// machines are those of a job that run, by their directories in the seller's.
func (s *installation) machines(job string) (out []machine) {
	dirs, _ := filepath.Glob(filepath.Join(s.dir, "seller", "instances", job+"-*"))
	for _, d := range dirs {
		m := machine{dir: d}
		b, err := os.ReadFile(filepath.Join(d, "host.json"))
		if err == nil && json.Unmarshal(b, &m) == nil && m.Host.alive() {
			out = append(out, m)
		}
	}
	return out
}
