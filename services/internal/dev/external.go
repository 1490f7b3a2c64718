package dev

import (
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
)

// Dial returns a session with a system whose programs run by themselves, over its
// bus at a URL, as whoever a file of credentials says. There is no state
// directory: nothing can be read while the system is away, and StoreDir is empty.
// Errors are those of Open, and nats.ErrAuthorization when the bus does not take the credentials.
func Dial(url, credentials string) (*Session, error) {
	client, end, err := ask(credentials, natsbus.ConnConfig{URL: url})
	if err != nil {
		return nil, err
	}
	return &Session{Client: client, close: end}, nil
}

// ask connects a command line. Who asks, and in which role, stands in the credentials.
func ask(file string, c natsbus.ConnConfig) (*console.Client, func(), error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the command line's credentials: %w", err)
	}
	creds, err := natsbus.ParseCredentials(string(text))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	role, name, err := creds.Person()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	c.Credentials, c.Name, c.Log = creds, "command line", zap.NewNop()
	nc, err := natsbus.Connect(c)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return nil, nil, fmt.Errorf("%s: %w: the bus does not take it (ask for another: 'spotferry creds user')", file, err)
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", console.ErrUnreachable, err)
	}
	return console.NewClient(nc, console.Role(role), name), nc.Close, nil
}
