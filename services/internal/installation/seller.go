package installation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/events/natsbus"
)

// AddSeller makes a seller known to the installation in dir and returns the file of
// its credentials. Programs that run already learn of it when they are started
// again. An error that wraps fs.ErrExist says that it is known.
func AddSeller(dir, name string, now func() time.Time) (string, error) {
	i, err := Load(filepath.Join(dir, File))
	if err != nil {
		return "", err
	}
	if i.Sells(name) {
		return "", fmt.Errorf("seller %s belongs to the installation: %w", name, fs.ErrExist)
	}
	i.Sellers = append(i.Sellers, name)
	if err := i.Validate(); err != nil {
		return "", err
	}
	if _, err := os.Stat(i.OperatorDir()); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s holds no operator keys: give the directory of the installation with --state", dir)
	}
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: i.OperatorDir(), Entropy: rand.Reader, Now: now})
	if err != nil {
		return "", err
	}
	m, p := maker{i: i, op: op}, seller(name)
	// The file names it last: one that was cut off here is added by the next attempt.
	if err := m.service(p); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return i.Creds(p.name), m.replace()
}

// replace writes the installation's file anew, whole or not at all.
func (m maker) replace() error {
	b, err := m.i.text()
	if err != nil {
		return err
	}
	tmp := m.i.Path(File + ".new")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := create(tmp, b); err != nil {
		return err
	}
	return os.Rename(tmp, m.i.Path(File))
}
