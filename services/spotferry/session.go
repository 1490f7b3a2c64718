package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spotferry/spotferry/services/internal/console"
)

// session is a way to ask the system.
type session struct {
	client   *console.Client
	readOnly bool // nothing runs: the state was opened for reading
	close    func()
}

// link is a session that can be opened again after the system went away.
type link struct {
	session
	env      *environment
	dir      string
	readable bool
}

// connect opens a session with the system. readable says that the command
// makes do with a state on which nothing runs.
func (e *environment) connect(ctx context.Context, readable bool) (*link, error) {
	dir, err := e.stateDir()
	if err != nil && e.busURL() == "" {
		return nil, err
	}
	l := &link{env: e, dir: dir, readable: readable}
	if err := l.reopen(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *link) reopen(ctx context.Context) error {
	l.Close()
	s, err := l.env.open(ctx, l.dir, l.readable)
	switch {
	case err == nil:
		l.session = s
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrPermission):
		return &failure{exit: exitAuth, What: err.Error(), Remedy: "use the account that started the system"}
	}
	if f := failureOf(ctx, err); f.exit == exitAuth {
		return f
	}
	return &failure{exit: exitUnreachable, What: err.Error()}
}

// Close ends the session.
func (l *link) Close() {
	if l.session.close != nil {
		l.session.close()
	}
	l.session = session{}
}

// ask puts one request to the system.
func ask[T any](ctx context.Context, l *link, v console.Verb, request any) (T, error) {
	var none T
	if l.client == nil {
		return none, console.ErrUnreachable
	}
	within, cancel := context.WithTimeout(ctx, l.env.timeout)
	defer cancel()
	got, err := console.Ask[T](within, l.client, v, request)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return none, fmt.Errorf("%w: no answer to %s within %s", console.ErrUnreachable, v, short(l.env.timeout))
	}
	return got, err
}

// once opens a session, puts one request, and closes it.
func once[T any](ctx context.Context, e *environment, readable bool, v console.Verb, request any) (T, error) {
	l, err := e.connect(ctx, readable)
	if err != nil {
		var none T
		return none, err
	}
	defer l.Close()
	return ask[T](ctx, l, v, request)
}

// away says whether err means that the system cannot be asked just now.
func away(err error) bool {
	var f *failure
	var p *console.Problem
	return errors.Is(err, console.ErrUnreachable) ||
		(errors.As(err, &f) && f.exit == exitUnreachable) ||
		(errors.As(err, &p) && problemExit(p.Code) == exitUnreachable)
}

// pause waits d, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
