package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Linux starts real processes. It makes the calling process the one that orphans
// of its descendants are given to, so that none can slip out of its tree.
type Linux struct {
	mu    sync.Mutex // also held from fork to registration, so that nobody reaps a child that is not known yet
	live  []int      // pids of roots that have not been waited for
	count int
}

// NewLinux returns the real Processes.
func NewLinux() (*Linux, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming the reaper of orphans: %w", err)
	}
	return &Linux{}, nil
}

// linuxProcess is a running program and its tree.
type linuxProcess struct {
	host *Linux
	root proc
	mark string

	exit   Exit
	exited chan struct{} // closed when exit is set

	outputs []*os.File     // our ends of the pipes
	copying sync.WaitGroup // until the pipes are read to their end
	killing sync.Mutex     // one Kill at a time
}

// Start implements Processes.
func (l *Linux) Start(pr Program) (Process, error) {
	p := &linuxProcess{host: l, exited: make(chan struct{})}
	cmd := exec.Command(pr.Argv[0], pr.Argv[1:]...)
	cmd.Dir = pr.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := p.pipe(pr.Stdout)
	if err == nil {
		cmd.Stdout = stdout
		defer stdout.Close()
		var stderr *os.File
		if stderr, err = p.pipe(pr.Stderr); err == nil {
			cmd.Stderr = stderr
			defer stderr.Close()
			err = l.start(cmd, p, pr.Env)
		}
	}
	if err != nil {
		p.closeOutputs()
		return nil, fmt.Errorf("starting %q: %w", pr.Argv[0], err)
	}
	go p.wait(cmd)
	return p, nil
}

// pipe returns the end a program writes to; a goroutine copies the other to w.
// A pipe of ours, since exec's own would have Wait last as long as any
// grandchild keeps it open.
func (p *linuxProcess) pipe(w io.Writer) (*os.File, error) {
	r, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if w == nil {
		w = io.Discard
	}
	p.outputs = append(p.outputs, r)
	p.copying.Go(func() {
		_, _ = io.Copy(w, r) // ends with the last writer, or when Kill closes r
	})
	return child, nil
}

func (p *linuxProcess) closeOutputs() {
	for _, r := range p.outputs {
		r.Close()
	}
}

func (l *Linux) start(cmd *exec.Cmd, p *linuxProcess, env []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	p.mark = fmt.Sprintf("%d-%d-%d", os.Getpid(), time.Now().UnixNano(), l.count)
	cmd.Env = append(slices.Clip(env), treeMark+"="+p.mark)
	if err := cmd.Start(); err != nil {
		return err
	}
	l.live = append(l.live, cmd.Process.Pid)
	root, err := lookUp(cmd.Process.Pid)
	if err != nil { // it cannot be gone, nobody has waited for it
		return errors.Join(err, cmd.Process.Kill())
	}
	p.root = root
	return nil
}

func (p *linuxProcess) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state says it all
	p.host.mu.Lock()
	p.host.live = slices.DeleteFunc(p.host.live, func(pid int) bool { return pid == p.root.pid })
	p.host.mu.Unlock()
	p.exit = Exit{Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.exit = Exit{Code: -1, Signal: unix.SignalName(ws.Signal())}
	}
	close(p.exited)
}

// Wait implements Process.
func (p *linuxProcess) Wait() Exit {
	<-p.exited
	return p.exit
}

// tree returns the living members, and reaps those dead ones that nobody else will.
func (p *linuxProcess) tree() ([]proc, error) {
	p.host.mu.Lock()
	defer p.host.mu.Unlock()
	all, err := processTable()
	if err != nil {
		return nil, err
	}
	var living []proc
	for _, m := range members(all, p.root, os.Getpid(), p.host.live, p.mark, proc.mark) {
		switch {
		case !m.dead:
			living = append(living, m)
		case m.ppid == os.Getpid() && !slices.Contains(p.host.live, m.pid):
			_, _ = unix.Wait4(m.pid, nil, unix.WNOHANG, nil) // an orphan; at worst it stays a zombie
		}
	}
	return living, nil
}

// Tell implements Process.
func (p *linuxProcess) Tell(sig syscall.Signal) (int, error) {
	tree, err := p.tree()
	told := 0
	for _, m := range tree {
		if !m.catches(sig) {
			continue
		}
		if e := m.signal(sig); e != nil {
			err = errors.Join(err, fmt.Errorf("sending %s to process %d: %w", unix.SignalName(sig), m.pid, e))
			continue
		}
		told++
	}
	return told, err
}

// Stop implements Process.
func (p *linuxProcess) Stop(ctx context.Context, grace time.Duration) error {
	soft, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	tree, err := p.tree()
	for _, m := range tree {
		_ = m.signal(unix.SIGTERM) // what cannot be asked is killed below
	}
	if err == nil {
		_, err = p.emptied(soft, func([]proc) {})
	}
	if err != nil && ctx.Err() == nil && soft.Err() == nil {
		return err
	}
	return p.Kill(context.WithoutCancel(ctx)) // whatever became of ctx, nothing may be left
}

// killPatience is how long Kill goes on. A process that outlives it hangs in the kernel.
const killPatience = 10 * time.Second

// Kill implements Process.
func (p *linuxProcess) Kill(ctx context.Context) error {
	p.killing.Lock()
	defer p.killing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	left, err := p.emptied(ctx, func(tree []proc) {
		for _, m := range tree {
			_ = m.signal(unix.SIGSTOP) // all at once, so that none forks while the next is killed
		}
		for _, m := range tree {
			_ = m.signal(unix.SIGKILL) // looked at again until it is gone
		}
	})
	if err != nil {
		return fmt.Errorf("killing the tree of process %d: left are %v: %w", p.root.pid, left, err)
	}
	p.endOutput()
	return nil
}

// emptied calls each with what is left of the tree until nothing is.
func (p *linuxProcess) emptied(ctx context.Context, each func([]proc)) ([]proc, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		tree, err := p.tree()
		if err != nil {
			return nil, err
		}
		if len(tree) == 0 {
			return nil, nil
		}
		each(tree)
		select {
		case <-ctx.Done():
			return tree, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// endOutput waits until everything written has been read. The writers are dead,
// so there is no more than the pipes hold; a descriptor passed to a process
// outside the tree would keep them open.
func (p *linuxProcess) endOutput() {
	for _, r := range p.outputs {
		_ = r.SetReadDeadline(time.Now().Add(time.Second))
	}
	p.copying.Wait()
	p.closeOutputs()
	<-p.exited
}

// Writing implements Process.
func (p *linuxProcess) Writing(dir string) (files []string, err error) {
	tree, err := p.tree()
	for _, m := range tree {
		files = append(files, m.writes(dir)...)
	}
	return files, err
}
