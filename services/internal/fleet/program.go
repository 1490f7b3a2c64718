package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is one slot of a fleet: a program's replica, whatever process fills it.
// Its methods may be called from any goroutine; only one starts or stops it at a time.
type Program struct {
	Name    string // "failover"
	Replica int    // from 0

	argv  []string
	env   []string
	dir   string // in which it works
	log   string // file
	admin string // file with the address of its admin port
	wait  time.Duration

	mu  sync.Mutex
	cmd *exec.Cmd
	end chan struct{} // closed when cmd has ended
	pid Proc
}

// String is the name and the replica: "failover-1".
func (p *Program) String() string { return fmt.Sprintf("%s-%d", p.Name, p.Replica) }

// Pid is the process that fills the slot, or did last; 0 before the first.
func (p *Program) Pid() int { return p.proc().PID }

// StartTicks is when that process started, in clock ticks since boot.
func (p *Program) StartTicks() uint64 { return p.proc().Start }

func (p *Program) proc() Proc {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Argv is its command.
func (p *Program) Argv() []string { return p.argv }

// Log is the file with everything it has said.
func (p *Program) Log() string { return p.log }

// Running says whether a process fills the slot.
func (p *Program) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

func (p *Program) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.end:
		return false
	default:
		return true
	}
}

// Signal sends a signal, such as SIGSTOP. It is an error if no process is there.
func (p *Program) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("%s does not run", p)
	}
	return p.cmd.Process.Signal(s)
}

// Kill ends the process with SIGKILL and returns when it is gone. A slot that is
// empty stays so.
func (p *Program) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		_ = p.cmd.Process.Kill() // it may be ending by itself this moment
		<-p.end
	}
}

// Stop asks the process to end and waits until it has. An error says that it did
// not exit with 0, or had to be killed.
func (p *Program) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p, err)
	}
	late := time.NewTimer(p.wait)
	defer late.Stop()
	select {
	case <-p.end:
	case <-ctx.Done():
	case <-late.C:
	}
	if p.running() {
		_ = p.cmd.Process.Kill()
		<-p.end
		return fmt.Errorf("%s did not stop and was killed; its words are in %s", p, p.log)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s exited with %d when asked to stop; its words are in %s", p, code, p.log)
	}
	return nil
}

// Restart fills the slot anew, killing what is in it, and returns when the
// program says that it is ready. An error wraps what it said last.
func (p *Program) Restart(ctx context.Context) error {
	p.Kill()
	if err := p.Begin(); err != nil {
		return err
	}
	return p.Ready(ctx)
}

// Begin fills the slot and returns at once. It is an error if it is filled.
func (p *Program) Begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("%s runs already", p)
	}
	if err := os.Remove(p.admin); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p, err)
	}
	defer out.Close()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is the test's to handle
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p, err)
	}
	end := make(chan struct{})
	p.cmd, p.end, p.pid = cmd, end, Proc{PID: cmd.Process.Pid, Start: startTicks(cmd.Process.Pid)}
	go func() { _ = cmd.Wait(); close(end) }() // its state is asked for when it is wanted
	return nil
}

// Ready returns when the program's /readyz says so.
func (p *Program) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	said := errors.New("it has no admin port yet")
	for {
		if !p.Running() {
			return fmt.Errorf("%s ended while it started: %s", p, p.lastWords())
		}
		body, err := p.Admin(ctx, "/readyz?verbose")
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			said = errors.Join(err, errors.New(body))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; it said %s", p, said, p.lastWords())
		case <-tick.C:
		}
	}
}

// Admin asks the program's admin port for a path: "/metrics", "/livez",
// "/readyz?verbose". An answer other than 200 is an error, with the body.
func (p *Program) Admin(ctx context.Context, path string) (string, error) {
	addr, err := os.ReadFile(p.admin)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+strings.TrimSpace(string(addr))+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s%s answers %s", p, path, resp.Status)
	}
	return string(b), err
}

// lastWords are the end of its log.
func (p *Program) lastWords() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

func (c Config) program(argv []string, name string, replica int) *Program {
	id := fmt.Sprintf("%s-%d", name, replica)
	return &Program{
		Name: name, Replica: replica, argv: argv, env: append(os.Environ(), c.Env...), dir: filepath.Join(c.Dir, "run"),
		log: filepath.Join(c.Dir, "logs", id+".log"), admin: filepath.Join(c.Dir, "run", id+".admin"), wait: c.Wait,
	}
}
