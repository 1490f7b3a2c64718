package dev

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/installation"
)

// administrator is whose credentials a command line on an installation's own directory uses.
const administrator = "admin"

// openInstallation connects to the separate programs of an installation, as its
// administrator: whoever can read its directory is one.
func openInstallation(ctx context.Context, i *installation.Installation, err error) (*Session, error) {
	if err != nil {
		return nil, err
	}
	return patiently(ctx, console.ErrUnreachable, func() (*Session, error) {
		client, end, err := ask(i.PersonCreds(administrator), i.Reach(natsbus.ConnConfig{}))
		if err != nil {
			return nil, err
		}
		return &Session{Client: client, StoreDir: i.StoreDir(), Org: events.OrgID(i.Org), close: end}, nil
	})
}

// storeOf is the organisation of a state directory or of an installation, and the URL of its store.
func storeOf(dir string) (org, url string, err error) {
	i, err := installation.Load(filepath.Join(dir, installation.File))
	if err == nil {
		return i.Org, i.StoreURL(), nil
	}
	if !errors.Is(err, installation.ErrNone) {
		return "", "", err
	}
	l := layout{dir}
	st, err := l.readState()
	return st.Org, l.storeURL(st), err
}
