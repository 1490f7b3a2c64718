package installation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// AddPerson makes a person's credentials from the operator's keys in dir, and
// returns their file. Those that are there are not overwritten: fs.ErrExist.
func AddPerson(dir, name, role string, now func() time.Time) (string, error) {
	if err := events.CheckToken("user", name); err != nil {
		return "", err
	}
	keys := filepath.Join(dir, operatorDir)
	if _, err := os.Stat(keys); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s holds no operator keys: give the directory of the installation with --state", dir)
	}
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: keys, Entropy: rand.Reader, Now: now})
	if err != nil {
		return "", err
	}
	creds, err := op.Person(name, role, natsbus.Validity{From: now()})
	if err != nil {
		return "", err
	}
	text, err := creds.Text()
	if err != nil {
		return "", err
	}
	people := filepath.Join(dir, peopleDir)
	if err := os.MkdirAll(people, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(people, name+".creds")
	if err := create(path, []byte(text)); err != nil {
		return "", fmt.Errorf("credentials of %s: %w", name, err)
	}
	return path, nil
}
