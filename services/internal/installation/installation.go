package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/storage"
)

const (
	format = 1
	// File is what the installation's file is called in its directory.
	File = "installation.json"
)

// Installation is what every program is told.
type Installation struct {
	Format int `json:"format"`
	Terms
	Waits    Waits    `json:"timers"`
	Every    Span     `json:"poll"` // between looks at a seller, control time
	Bus      Bus      `json:"bus"`
	Store    Store    `json:"store"`
	Sellers  []string `json:"sellers"`
	Replicas int      `json:"replicas"` // of each stream; more than 1 needs a cluster

	dir string // of the file
}

// Bus says where the bus is, in one of two ways.
type Bus struct {
	URL     string `json:"url,omitempty"`
	URLFile string `json:"url_file,omitempty"` // a bus on this machine writes its URL there
}

// Store says where checkpoints go.
type Store struct {
	Kind string `json:"kind"` // "dir", or "url"
	Path string `json:"path,omitempty"`
	URL  string `json:"url,omitempty"` // see package storage
}

// ErrNone says that a directory holds no installation.
var ErrNone = errors.New("no installation")

// Load reads an installation's file.
func Load(path string) (*Installation, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; 'spotferry creds init DIR' makes one", abs, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the installation: %w", err)
	}
	i := &Installation{dir: filepath.Dir(abs)}
	if err := json.Unmarshal(b, i); err != nil || i.Format < 1 {
		return nil, fmt.Errorf("%s is not an installation's file: %w", abs, errors.Join(err, errors.New("restore it from a backup")))
	}
	if i.Format > format {
		return nil, fmt.Errorf("%s was written by a newer Spotferry (%s, format %d; this one reads %d): use that one", abs, i.Version, i.Format, format)
	}
	if err := i.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", abs, err)
	}
	return i, nil
}

// Validate says which field cannot be used.
func (i *Installation) Validate() error {
	switch {
	case events.CheckToken("org", i.Org) != nil:
		return events.CheckToken("org", i.Org)
	case i.Mark == "":
		return errors.New("mark is missing: machines could not be told from another installation's")
	case (i.Bus.URL == "") == (i.Bus.URLFile == ""):
		return errors.New("bus: give url, or url_file")
	case i.Store.Kind == "url":
		if err := storage.Validate(i.Store.URL); err != nil {
			return err
		}
	case i.Store.Kind != "dir":
		return fmt.Errorf("store.kind %q: use dir, or url", i.Store.Kind)
	case i.Store.Path == "":
		return errors.New("store.path is missing")
	}
	switch {
	case i.Every <= 0:
		return errors.New("poll: give a duration, such as 5s")
	case i.Replicas < 1 || i.Replicas > 5:
		return fmt.Errorf("replicas is %d: use 1, or 3 or 5 on a cluster", i.Replicas)
	}
	for n, s := range i.Sellers {
		if err := events.CheckToken("sellers", s); err != nil {
			return err
		}
		if slices.Contains(i.Sellers[:n], s) {
			return fmt.Errorf("sellers: %s is named twice: name each once", s)
		}
	}
	return errors.Join(i.Waits.validate(), i.Terms.Validate())
}

// Dir is the installation's directory, absolute.
func (i *Installation) Dir() string { return i.dir }

// Path is where a name of the installation is: relative ones are below its directory.
func (i *Installation) Path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(i.dir, name)
}

// Timers are the ones in force.
func (i *Installation) Timers() events.Timers { return i.Waits.timers() }

// Poll is how often sellers are asked.
func (i *Installation) Poll() time.Duration { return time.Duration(i.Every) }

// StoreDir is the checkpoint store's directory; "" when it is not one of this machine's.
func (i *Installation) StoreDir() string {
	if i.Store.Kind == "url" {
		return ""
	}
	return i.Path(i.Store.Path)
}

// StoreURL is where the checkpoint store is; see package storage.
func (i *Installation) StoreURL() string {
	if i.Store.Kind == "url" {
		return i.Store.URL
	}
	return "dir:" + i.Path(i.Store.Path)
}

// Reach fills in where the bus is.
func (i *Installation) Reach(c natsbus.ConnConfig) natsbus.ConnConfig {
	c.URL, c.URLFile = i.Bus.URL, i.Path(i.Bus.URLFile)
	return c
}

// Sells says whether a seller belongs to the installation.
func (i *Installation) Sells(name string) bool { return slices.Contains(i.Sellers, name) }
