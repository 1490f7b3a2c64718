package installation

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/storage"
)

// Config of Init. Zero fields mean their defaults.
type Config struct {
	Dir string // must not exist, or be empty
	Wish
	BusURL   string   // of a bus that others run; "": our own on this machine, wherever it listens
	Listen   string   // host:port of a stock nats-server; "127.0.0.1:4222"
	Store    string   // URL of the checkpoint store, see package storage; "": a directory in Dir
	Encrypt  bool     // make a key for the organisation's checkpoints
	Sellers  []string // who is bought from; "local", whose machines are processes of this one
	Replicas int      // of each stream; 1
	Admin    string   // the person who gets credentials; "admin"
	Now      func() time.Time
}

// Init makes an installation and returns it. It never touches one that is there:
// an error that wraps fs.ErrExist says so.
func Init(c Config) (*Installation, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := vacant(dir); err != nil {
		return nil, err
	}
	i, err := c.draw(dir)
	if err != nil {
		return nil, err
	}
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: i.Path(operatorDir), Entropy: rand.Reader, Now: c.Now})
	if err != nil {
		return nil, err
	}
	m := maker{i: i, op: op, c: c}
	for _, step := range []func() error{m.directories, m.services, m.people, m.bus, m.server, m.keys, m.file} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("making the installation %s: %w", dir, err)
		}
	}
	return i, nil
}

func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("the directory cannot be used: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty (it has %q), and keys are never overwritten: choose another directory: %w", dir, entries[0].Name(), fs.ErrExist)
	}
	return os.Chmod(dir, 0o700)
}

// draw decides what the installation's file says.
func (c Config) draw(dir string) (*Installation, error) {
	if c.Seller == "" {
		c.Seller = "local"
	}
	if c.Org == "" {
		c.Org = "main"
	}
	if len(c.Sellers) == 0 {
		c.Sellers = []string{c.Seller}
	}
	terms, err := NewTerms(c.Now(), c.Wish)
	if err != nil {
		return nil, err
	}
	i := &Installation{
		Format: format, Terms: terms, Waits: waitsOf(terms.Timers()), Every: Span(terms.Poll()),
		Bus: Bus{URL: c.BusURL}, Store: Store{Kind: "dir", Path: storeDir}, Sellers: c.Sellers, Replicas: max(c.Replicas, 1), dir: dir,
	}
	if c.Store != "" {
		i.Store = Store{Kind: "url", URL: c.Store}
	}
	if c.BusURL == "" {
		i.Bus.URLFile = natsbus.URLFile(BusDir)
	}
	return i, i.Validate()
}

// Names below the installation's directory.
const (
	BusDir      = "bus"
	SellerDir   = "seller"
	RunDir      = "run"
	operatorDir = "operator"
	storeDir    = "store"
	credsDir    = "creds"
	peopleDir   = "people"
	trustFile   = "trust.json"
	serverFile  = "nats-server.conf"
)

// OperatorDir is where the keys of the bus are.
func (i *Installation) OperatorDir() string { return i.Path(operatorDir) }

// TrustFile tells our own bus program whom to believe.
func (i *Installation) TrustFile() string { return i.Path(trustFile) }

// Creds is a program's credentials file.
func (i *Installation) Creds(program string) string {
	return i.Path(filepath.Join(credsDir, program+".creds"))
}

// PersonCreds is a person's credentials file.
func (i *Installation) PersonCreds(name string) string {
	return i.Path(filepath.Join(peopleDir, name+".creds"))
}

type maker struct {
	i  *Installation
	op *natsbus.Operator
	c  Config
}

func (m maker) directories() error {
	for _, d := range []string{credsDir, peopleDir, storeDir, SellerDir, BusDir, RunDir} {
		if err := os.Mkdir(m.i.Path(d), 0o700); err != nil {
			return err
		}
	}
	return nil
}

func (m maker) services() error {
	for _, p := range programs(m.i.Sellers) {
		if err := m.service(p); err != nil {
			return err
		}
	}
	return nil
}

// service makes one program's credentials.
func (m maker) service(p program) error {
	creds, err := m.op.Limited(p.name, p.rights)
	if err == nil {
		err = m.keep(m.i.Creds(p.name), creds)
	}
	if err != nil {
		return fmt.Errorf("credentials of %s: %w", p.name, err)
	}
	return nil
}

func (m maker) people() error {
	name := m.c.Admin
	if name == "" {
		name = "admin"
	}
	if err := events.CheckToken("admin", name); err != nil {
		return err
	}
	creds, err := person(m.op, name, m.c.Now())
	if err != nil {
		return err
	}
	return m.keep(m.i.PersonCreds(name), creds)
}

func (m maker) keep(path string, c natsbus.Credentials) error {
	text, err := c.Text()
	if err != nil {
		return err
	}
	return create(path, []byte(text))
}

func (m maker) bus() error {
	t, err := m.op.Trust()
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return create(m.i.TrustFile(), append(b, '\n'))
}

func (m maker) server() error {
	t, err := m.op.Trust()
	if err != nil {
		return err
	}
	accounts := m.i.Path(accountsDir)
	if err := t.Seed(accounts); err != nil {
		return err
	}
	text, err := serverConfig(m.c.Listen, t, m.i.Replicas)
	if err != nil {
		return err
	}
	return create(m.i.Path(serverFile), text)
}

// keys makes what checkpoints are encrypted with.
func (m maker) keys() error {
	if !m.c.Encrypt {
		return nil
	}
	return storage.Keys{Dir: m.i.OperatorDir()}.Make(events.OrgID(m.i.Org))
}

// file comes last: a directory without it is not an installation.
func (m maker) file() error {
	b, err := m.i.text()
	if err != nil {
		return err
	}
	return create(m.i.Path(File), b)
}

func (i *Installation) text() ([]byte, error) {
	b, err := json.MarshalIndent(i, "", "  ")
	return append(b, '\n'), err
}

// create writes a file that is not there yet, for its owner alone, and sees it on the disk.
func create(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}
