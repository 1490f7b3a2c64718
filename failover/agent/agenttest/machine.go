package agenttest

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spotferry/spotferry/failover/agent"
)

// Machine is agent.Processes whose programs are functions, by the base name of
// the script they stand for ("setup.sh", "run.sh"), or of the program itself.
type Machine struct {
	Programs map[string]func(*Running) agent.Exit

	mu      sync.Mutex
	started []*Running
}

// Running is one program, as itself and as agent.Process.
type Running struct {
	agent.Program
	Name    string              // as in Machine.Programs
	Ctx     context.Context     // ends when the program is killed
	Signals chan syscall.Signal // those it catches

	mu      sync.Mutex
	catches []syscall.Signal
	cancel  context.CancelFunc
	done    chan struct{}
	exit    agent.Exit
}

// Start implements agent.Processes.
func (m *Machine) Start(p agent.Program) (agent.Process, error) {
	name := filepath.Base(p.Argv[len(p.Argv)-1])
	f := m.Programs[name]
	if f == nil {
		name = filepath.Base(p.Argv[0])
		f = m.Programs[name]
	}
	if f == nil {
		return nil, fmt.Errorf("no program %q: %w", name, fs.ErrNotExist)
	}
	r := &Running{Program: p, Name: name, Signals: make(chan syscall.Signal, 8), done: make(chan struct{})}
	r.Ctx, r.cancel = context.WithCancel(context.Background())
	m.mu.Lock()
	if strings.HasSuffix(name, ".sh") {
		m.started = append(m.started, r)
	}
	m.mu.Unlock()
	go func() {
		exit := f(r)
		r.mu.Lock()
		if r.exit == (agent.Exit{}) {
			r.exit = exit
		}
		r.mu.Unlock()
		close(r.done)
	}()
	return r, nil
}

// Started returns every script of the job started so far.
func (m *Machine) Started() []*Running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.started)
}

// Alive reports whether the program has not ended.
func (r *Running) Alive() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Getenv returns a variable of the program's environment.
func (r *Running) Getenv(name string) string {
	for _, v := range slices.Backward(r.Env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Catch says which signals the program has a handler for.
func (r *Running) Catch(s ...syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catches = s
}

// Die ends the program as a signal from outside would.
func (r *Running) Die(signal string) {
	r.mu.Lock()
	if r.Alive() && r.exit == (agent.Exit{}) {
		r.exit = agent.Exit{Code: -1, Signal: signal}
	}
	r.mu.Unlock()
	r.cancel()
	<-r.done
}

// Wait implements agent.Process.
func (r *Running) Wait() agent.Exit {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exit
}

// Tell implements agent.Process.
func (r *Running) Tell(sig syscall.Signal) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.Alive() || !slices.Contains(r.catches, sig) {
		return 0, nil
	}
	select {
	case r.Signals <- sig:
	default: // pending already
	}
	return 1, nil
}

// Stop implements agent.Process.
func (r *Running) Stop(ctx context.Context, grace time.Duration) error {
	if told, _ := r.Tell(syscall.SIGTERM); told == 0 {
		r.Die("SIGTERM")
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.Kill(ctx)
}

// Kill implements agent.Process.
func (r *Running) Kill(context.Context) error {
	if r.Alive() {
		r.Die("SIGKILL")
	}
	return nil
}

// Writing implements agent.Process.
func (r *Running) Writing(string) ([]string, error) { return nil, nil }
