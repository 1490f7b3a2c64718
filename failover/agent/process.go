package agent

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Processes starts programs on the machine. Whoever uses the real one has no
// other child processes.
type Processes interface {
	Start(Program) (Process, error)
}

// Program is what to start.
type Program struct {
	Argv   []string
	Dir    string
	Env    []string // all of it
	Stdout io.Writer
	Stderr io.Writer // both are written to by goroutines of the process
}

// Process is a running program with everything that descends from it: its tree.
// Kill is called in the end whatever happened before; it also ends the output.
type Process interface {
	// Wait returns how the program itself ended. Others of its tree may live on.
	Wait() Exit

	// Tell sends a signal to those processes of the tree that have a handler for
	// it, and returns how many. The rest would only die of it: the shell around a
	// trainer, the other end of its pipe, a trainer that is still loading.
	Tell(sig syscall.Signal) (int, error)

	// Stop asks the whole tree to end, waits until it has, but not longer than
	// grace or ctx, and then kills what is left.
	Stop(ctx context.Context, grace time.Duration) error

	// Kill ends the tree, whatever sessions and process groups it has spread
	// over. On nil nothing of it is left and all output has been written.
	Kill(ctx context.Context) error

	// Writing returns the files below dir that the tree has open for writing.
	Writing(dir string) ([]string, error)
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // -1 when killed by a signal
	Signal string // "SIGKILL"; "" when it ended by itself
}

func (e Exit) String() string {
	if e.Signal != "" {
		return "was killed by " + e.Signal
	}
	return fmt.Sprintf("ended with code %d", e.Code)
}

// shellExit reads the convention by which a shell passes on that its last
// command was killed by a signal.
func shellExit(e Exit) Exit {
	sig := syscall.Signal(e.Code - 128)
	if e.Signal == "" && sig > 0 && sig < 32 {
		if name := unix.SignalName(sig); name != "" {
			return Exit{Code: -1, Signal: name}
		}
	}
	return e
}

// parseSignal reads a name such as "SIGUSR1"; the empty one is no signal.
func parseSignal(name string) (syscall.Signal, error) {
	if name == "" {
		return 0, nil
	}
	if sig := unix.SignalNum(name); sig != 0 && sig != unix.SIGKILL && sig != unix.SIGSTOP {
		return sig, nil
	}
	return 0, fmt.Errorf("policy.checkpoint.signal is %.20q: give the name of a signal that can be caught, such as SIGUSR1", name)
}

// endsTrainer reports whether trainers by custom end after saving on this signal.
func endsTrainer(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGABRT:
		return true
	}
	return false
}
