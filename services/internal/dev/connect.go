package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/installation"
	"github.com/spotferry/spotferry/services/internal/plane"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/storage"
)

// Session is a person's connection to a running system, or to a state directory
// that was opened for reading because none runs.
type Session struct {
	Client *console.Client
	// ReadOnly says that no services run behind it.
	ReadOnly bool
	// StoreDir is where working directories of jobs are kept on this machine.
	StoreDir string
	Org      events.OrgID
	close    func()
}

// Close ends the session and whatever it started.
func (s *Session) Close() { s.close() }

// Open returns a session with the system that runs on the state directory. When
// none runs, a reading command (readable) opens the state itself. Errors: ErrNoState, ErrNotRunning,
// or one line that says what is wrong with the directory.
func Open(ctx context.Context, dir string, readable bool) (*Session, error) {
	return OpenAs(ctx, dir, "", readable)
}

// OpenAs is Open as whoever a file of credentials says; "" is the file of the
// state directory. It makes no difference to a state that is only read: whoever
// can open its files needs no leave.
func OpenAs(ctx context.Context, dir, credentials string, readable bool) (*Session, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := layout{abs}
	if i, err := installation.Load(l.path(installation.File)); !errors.Is(err, installation.ErrNone) {
		return openInstallation(ctx, i, err)
	}
	st, err := l.readState()
	if err != nil {
		return nil, err
	}
	return patiently(ctx, console.ErrUnreachable, func() (*Session, error) { return l.connect(ctx, st, credentials, readable) })
}

func (l layout) connect(ctx context.Context, st state, credentials string, readable bool) (*Session, error) {
	release, err := l.lock()
	switch {
	case errors.Is(err, ErrRunning):
		return l.dial(st, credentials)
	case err != nil:
		return nil, err
	case !readable:
		release()
		return nil, fmt.Errorf("%s: %w; start 'spotferry dev --state %s'", l.dir, ErrNotRunning, l.dir)
	}
	s, err := l.read(ctx, st)
	if err != nil {
		release()
		return nil, err
	}
	end := s.close
	s.close = func() { end(); release() }
	return s, nil
}

// dial connects to the running system.
func (l layout) dial(st state, credentials string) (*Session, error) {
	if credentials == "" {
		credentials = l.path("user.creds")
	}
	client, end, err := ask(credentials, natsbus.ConnConfig{URLFile: natsbus.URLFile(l.path("bus"))})
	if err != nil {
		return nil, err
	}
	return l.session(st, client, false, end), nil
}

func (l layout) session(st state, client *console.Client, readOnly bool, end func()) *Session {
	return &Session{Client: client, ReadOnly: readOnly, StoreDir: l.path("store"), Org: events.OrgID(st.Org), close: end}
}

// read opens the streams without any service but the console.
func (l layout) read(ctx context.Context, st state) (*Session, error) {
	st, err := l.raise(st, st.Version) // opening the bus adds to its streams what this program knows
	if err != nil {
		return nil, err
	}
	s := &system{cfg: Config{Now: time.Now, Logger: zap.NewNop()}, layout: l, state: st}
	if err := s.openBus(ctx, false); err != nil {
		s.close()
		return nil, err
	}
	now := func() events.Moment { return st.Clock.Moment(time.Now()) }
	bus := process.Bus{Log: s.log}
	if s.store, err = storage.Open(ctx, l.storeURL(st), s.cfg.Logger); err != nil {
		s.close()
		return nil, fmt.Errorf("opening the checkpoint store: %w", err)
	}
	book := failover.NewBook(s.log, now)
	store := plane.Config{
		Store: s.store.Store, Grant: s.store.Grant, Signer: s.store.Signer, TenantKey: l.keys().Of, Operator: s.operator, Timers: st.Timers(),
	}
	server := console.New(console.Config{
		Log: s.log, Signals: bus, Book: book, Checkpoints: plane.StoreReader(store, book, now), Money: ledger.NewBook(s.log, "/spotferry/console", time.Now),
		Org: events.OrgID(st.Org), Offers: func() []console.Offer { return nil }, Logs: bus, ReadOnly: true, Now: now, Logger: zap.NewNop(),
		Plan: func(context.Context, console.SubmitRequest) (console.Plan, error) {
			return console.Plan{}, console.NotServing()
		},
		Health: func(context.Context) []console.Check {
			return []console.Check{{Name: "system", Detail: "not running", Remedy: fmt.Sprintf("start 'spotferry dev --state %s'", l.dir)}}
		},
	})
	rctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ended by Close
	done := make(chan error, 2)
	go func() { done <- server.Run(rctx) }()
	go func() { done <- server.Serve(rctx, s.conns[0]) }()
	select {
	case <-server.Listening():
	case err := <-done: // ended before anybody could ask
		cancel()
		err = errors.Join(err, <-done)
		s.close()
		return nil, fmt.Errorf("opening the state for reading: %w", err)
	}
	return l.session(st, console.NewClient(s.conns[0], console.Admin, userName()), true, func() {
		cancel()
		<-done
		<-done
		s.close()
	}), nil
}
