package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/services/internal/installation"
)

// ErrNoState says that the directory holds no state of ours.
var ErrNoState = errors.New("no Spotferry state")

// ErrNotRunning says that no system runs on a state directory.
var ErrNotRunning = errors.New("no system runs on this state")

// ErrRunning says that another process has the state directory.
var ErrRunning = errors.New("already in use")

// stateFormat rises with every version whose state an earlier one must not run
// on. 2: jobs can be paused and operations decide, which earlier ones cannot read.
const stateFormat = 2

const (
	stateFile  = "state.json"
	unfinished = ".new-" // what the name of a file begins with while it is written
)

// state is what a state directory fixes for its whole life.
type state struct {
	Format int `json:"format"`
	installation.Terms
	Store string `json:"store,omitempty"` // URL of the checkpoint store; "": a directory here
}

type layout struct{ dir string }

// storeURL is where the checkpoint store is; see package storage.
func (l layout) storeURL(st state) string { return cmp.Or(st.Store, "dir:"+l.path("store")) }

func (l layout) path(name string) string { return filepath.Join(l.dir, name) }

// readState reads state.json, or returns ErrNoState.
func (l layout) readState() (state, error) {
	var s state
	b, err := os.ReadFile(l.path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s: %w; 'spotferry dev --state %s' makes one", l.dir, ErrNoState, l.dir)
	}
	if err != nil {
		return s, fmt.Errorf("reading the state: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Format < 1 {
		return s, fmt.Errorf("%s is not a state file of Spotferry: move it away, or choose another --state", l.path(stateFile))
	}
	if s.Format > stateFormat {
		return s, fmt.Errorf("%s was written by a newer Spotferry (%s, format %d; this one reads %d): use that one", l.dir, s.Version, s.Format, stateFormat)
	}
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("%s: %w", l.path(stateFile), err)
	}
	return s, nil
}

// raise makes a state of an earlier format one of this program's. From then on
// the earlier program refuses it by name.
func (l layout) raise(s state, version string) (state, error) {
	if s.Format == stateFormat {
		return s, nil
	}
	s.Format, s.Version = stateFormat, version
	return s, l.writeState(s)
}

// writeState writes state.json so that a crash leaves the old or the new one.
func (l layout) writeState(s state) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(l.path(stateFile), append(b, '\n'), 0o600)
}

func replaceFile(path string, b []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// patience is how long a directory is waited for that is in use but not served:
// by a command that reads it, or by a system that starts.
const patience = 2 * time.Second

// patiently tries until there is another error than the transient one, or none.
func patiently[T any](ctx context.Context, transient error, try func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		v, err := try()
		if !errors.Is(err, transient) || time.Since(began) > patience {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(patience / 40):
		}
	}
}

// lock takes the directory for this process, or returns ErrRunning. The kernel
// gives it back when the process ends, however it ends.
func (l layout) lock() (release func(), err error) {
	f, err := os.OpenFile(l.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the state directory cannot be used: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("state directory %s is %w by another process: stop it, or choose another --state", l.dir, ErrRunning)
	}
	return func() { f.Close() }, nil
}
