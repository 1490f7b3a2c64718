package fleet

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/services/internal/installation"
)

// Config of a fleet.
type Config struct {
	// Dir is the fleet's directory, absolute. An empty or missing one becomes an
	// installation; one that is an installation goes on where it was.
	Dir string
	// Spotferry is the one binary, whose hidden commands are the programs. Required:
	// it is also the command line, and what machines run.
	Spotferry string
	// Binaries is a directory with the separate programs (watcher, bidder, ...).
	// "": the one binary is used for them.
	Binaries string
	// Replicas of every service; the bus and the seller are one each. 0: 1.
	Replicas int

	// Wish is what the installation is made with, if it is made now: market, scale, divide, org.
	installation.Wish

	// Evidence is the directory in which trainers, machines and the meter leave
	// their own records; absolute. "": Dir/evidence.
	Evidence string
	// Env is added to the environment of every program, "NAME=value".
	Env []string
	// Args are added to the command of the programs they are keyed by.
	Args map[string][]string
	// Wait bounds Start, Restart and each program's share of Stop. 0: 30 s.
	Wait time.Duration
}

// Services are the programs of which there are Replicas, in the order in which they are started.
func Services() []string {
	return []string{"gateway", "bidder", "watcher", "failover", "ledger", "console"}
}

// single programs: they have what a file system gives to one process at a time.
const (
	busProgram    = "bus"
	sellerProgram = "provider-local"
)

func (c Config) withDefaults() (Config, error) {
	if !filepath.IsAbs(c.Dir) {
		return c, fmt.Errorf("fleet: Dir is %q: give an absolute path", c.Dir)
	}
	if !filepath.IsAbs(c.Spotferry) {
		return c, errors.New("fleet: Spotferry must be the absolute path of the program")
	}
	c.Replicas = max(c.Replicas, 1)
	if c.Evidence == "" {
		c.Evidence = filepath.Join(c.Dir, "evidence")
	}
	if c.Wait == 0 {
		c.Wait = 30 * time.Second
	}
	return c, nil
}

// command is the argument vector of a program's replica.
func (c Config) command(i *installation.Installation, name string, replica int) []string {
	argv := []string{c.Spotferry, "service", name}
	if c.Binaries != "" {
		argv = []string{filepath.Join(c.Binaries, name)}
	}
	run := filepath.Join(c.Dir, "run", fmt.Sprintf("%s-%d", name, replica))
	argv = append(argv,
		"--installation", filepath.Join(i.Dir(), installation.File),
		"--admin", "127.0.0.1:0", "--admin-file", run+".admin")
	switch name {
	case busProgram:
		argv = append(argv, "--listen", "127.0.0.1:0")
	case sellerProgram:
		argv = append(argv, "--creds", i.Creds(name), "--evidence", c.Evidence,
			"--host-command", c.Spotferry+" host", "--agent-command", c.Spotferry+" agent")
	default:
		argv = append(argv, "--creds", i.Creds(name))
	}
	if marked(name) {
		argv = append(argv, "--marks", run+".marks.json")
	}
	return append(argv, c.Args[name]...)
}

// marked says whether a program acts on streams of truth, and so keeps marks of how far they were.
func marked(name string) bool {
	switch name {
	case "gateway", "bidder", "failover", "ledger", "console":
		return true
	}
	return false
}
