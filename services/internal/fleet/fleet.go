package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spotferry/spotferry/services/internal/installation"
)

// Fleet is the programs of one installation.
type Fleet struct {
	cfg      Config
	i        *installation.Installation
	programs []*Program
}

// Start makes the installation if need be, starts every program, and returns
// when all of them are ready. When it fails nothing runs.
func Start(ctx context.Context, c Config) (*Fleet, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: c}
	if err := f.establish(); err != nil {
		return nil, err
	}
	f.place()
	if err := f.Begin(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) establish() (err error) {
	f.i, err = installation.Load(filepath.Join(f.cfg.Dir, installation.File))
	if errors.Is(err, installation.ErrNone) {
		f.i, err = installation.Init(installation.Config{Dir: f.cfg.Dir, Wish: f.cfg.Wish})
	}
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	for _, d := range []string{filepath.Join(f.cfg.Dir, "run"), filepath.Join(f.cfg.Dir, "logs"), f.cfg.Evidence} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("fleet: %w", err)
		}
	}
	return nil
}

// place gives every program its slot.
func (f *Fleet) place() {
	add := func(name string, replicas int) {
		for r := range replicas {
			f.programs = append(f.programs, f.cfg.program(f.cfg.command(f.i, name, r), name, r))
		}
	}
	add(busProgram, 1)
	add(sellerProgram, 1)
	for _, name := range Services() {
		add(name, f.cfg.Replicas)
	}
}

// Begin starts every program that does not run, and returns when all are ready:
// the bus first, then the rest together, in no order.
func (f *Fleet) Begin(ctx context.Context) error {
	for n, p := range f.programs {
		if !p.Running() {
			if err := p.Begin(); err != nil {
				return err
			}
		}
		if n == 0 {
			if err := p.Ready(ctx); err != nil {
				return err
			}
		}
	}
	for _, p := range f.programs {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Programs are all slots: the bus, the seller, then the services with their replicas.
func (f *Fleet) Programs() []*Program { return slices.Clone(f.programs) }

// Program is one slot, or nil if there is none.
func (f *Fleet) Program(name string, replica int) *Program {
	for _, p := range f.programs {
		if p.Name == name && p.Replica == replica {
			return p
		}
	}
	return nil
}

// Installation is what the programs were told.
func (f *Fleet) Installation() *installation.Installation { return f.i }

// Evidence is the directory of the records that trainers, machines and the meter leave.
func (f *Fleet) Evidence() string { return f.cfg.Evidence }

// Stop asks every program to end, services first, the bus last, and waits. The
// error names each that did not exit with 0. Machines go on.
func (f *Fleet) Stop(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Backward(f.programs) {
		errs = append(errs, p.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Close kills whatever is left of the fleet, machines included, and returns when it is gone.
func (f *Fleet) Close() {
	for _, p := range slices.Backward(f.programs) {
		p.Kill()
	}
	for range 1000 {
		left, err := f.Left()
		if err != nil || len(left) == 0 {
			return
		}
		for _, p := range left {
			p.Kill()
		}
	}
}

// Said is what a command of the command line came to.
type Said struct {
	Code           int
	Stdout, Stderr []byte
}

// CLI runs the command line against the fleet, as its administrator. The error is
// of starting it; how it ended is in Said.Code.
func (f *Fleet) CLI(ctx context.Context, args ...string) (Said, error) {
	cmd := exec.CommandContext(ctx, f.cfg.Spotferry, append(slices.Clone(args), "--state", f.cfg.Dir)...)
	cmd.Env = append(os.Environ(), f.cfg.Env...)
	cmd.Dir = filepath.Join(f.cfg.Dir, "run")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	code := -1
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	}
	return Said{code, out.Bytes(), complaints.Bytes()}, err
}
