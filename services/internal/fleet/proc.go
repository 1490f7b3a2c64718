package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spotferry/spotferry/services/internal/installation"
)

// Proc is a process: pid and start together name it for good.
type Proc struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// Alive says whether it is there, and not just waiting to be collected.
func (p Proc) Alive() bool {
	f := stat(p.PID)
	return f != nil && f[0] != "Z" && f[0] != "X" && startOf(f) == p.Start
}

// Kill sends SIGKILL if it is alive.
func (p Proc) Kill() {
	if p.Alive() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may be gone by now
	}
}

// Signal sends a signal; an error says that it is not there.
func (p Proc) Signal(s syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("process %d, started at %d, is gone", p.PID, p.Start)
	}
	return syscall.Kill(p.PID, s)
}

// Machine is one of the local seller's machines that runs.
type Machine struct {
	Lease string // the token it was bought under
	Dir   string
	Host  Proc
	Agent Proc // zero until it was started
	// Trainers are the processes below the agent that are a training: `spotferry trainer`,
	// or else whatever its script runs.
	Trainers []Proc
}

// Machines are those that run, by lease.
func (f *Fleet) Machines() ([]Machine, error) {
	dirs, err := filepath.Glob(filepath.Join(f.i.Path(installation.SellerDir), "instances", "*"))
	if err != nil {
		return nil, err
	}
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var out []Machine
	for _, d := range dirs {
		m := Machine{Lease: filepath.Base(d), Dir: d}
		b, err := os.ReadFile(filepath.Join(d, "host.json"))
		if err != nil {
			continue // not started yet
		}
		if err := json.Unmarshal(b, &m); err != nil || !m.Host.Alive() {
			continue
		}
		m.Trainers = trainers(all, m.Agent)
		out = append(out, m)
	}
	return out, nil
}

// Left are the processes that run a program of the fleet's directory or work in it.
func (f *Fleet) Left() ([]Proc, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var out []Proc
	for _, p := range all {
		for _, link := range []string{"exe", "cwd"} {
			to, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", p.PID, link))
			if err == nil && strings.HasPrefix(to, f.cfg.Dir+"/") && p.Alive() {
				out = append(out, p.Proc)
				break
			}
		}
	}
	return out, nil
}

// listed is a line of the process table.
type listed struct {
	Proc
	parent int
	args   []string
}

func processes() ([]listed, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []listed
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		f := stat(pid)
		if f == nil {
			continue
		}
		parent, _ := strconv.Atoi(f[1])
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		out = append(out, listed{Proc{pid, startOf(f)}, parent, strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")})
	}
	return out, nil
}

// trainers are the training's processes below an agent.
func trainers(all []listed, agent Proc) []Proc {
	if !agent.Alive() {
		return nil
	}
	below := map[int]bool{agent.PID: true}
	var leaves, named []Proc
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if below[p.parent] && !below[p.PID] {
				below[p.PID], grown = true, true
			}
		}
	}
	for _, p := range all {
		if !below[p.PID] || p.PID == agent.PID {
			continue
		}
		if slices.Contains(p.args, "trainer") {
			named = append(named, p.Proc)
		}
		if !slices.ContainsFunc(all, func(c listed) bool { return c.parent == p.PID }) {
			leaves = append(leaves, p.Proc)
		}
	}
	if len(named) > 0 {
		return named
	}
	return leaves
}

// stat is what /proc says of a process behind its name: state, parent, ...; nil if it is gone.
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return nil
	}
	return f
}

func startOf(f []string) uint64 {
	n, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func startTicks(pid int) uint64 {
	if f := stat(pid); f != nil {
		return startOf(f)
	}
	return 0
}
