//go:build !linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Agents run on Linux. This file lets the rest of the program be built elsewhere.

// Linux starts real processes, on Linux.
type Linux struct{}

// NewLinux returns errors.ErrUnsupported.
func NewLinux() (*Linux, error) {
	return nil, fmt.Errorf("running a trainer: %w on this system; rent or use a Linux machine", errors.ErrUnsupported)
}

// Start implements Processes.
func (*Linux) Start(Program) (Process, error) {
	return nil, fmt.Errorf("running a trainer: %w on this system", errors.ErrUnsupported)
}

func bootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("CLOCK_MONOTONIC: " + err.Error()) // in POSIX since 2001
	}
	return time.Duration(t.Nano())
}

func born(string) (time.Time, bool) { return time.Time{}, false }

// DirChanges is not known here.
func DirChanges(context.Context, string) (<-chan struct{}, error) {
	return nil, fmt.Errorf("watching a directory: %w on this system", errors.ErrUnsupported)
}
