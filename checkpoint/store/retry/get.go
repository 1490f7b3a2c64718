package retry

import (
	"context"
	"errors"
	"io"
)

// Get implements checkpoint.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	o := &object{s: s, ctx: ctx, name: name, end: -1}
	err := s.repeat(ctx, "get", name, func() (err error) {
		o.r, err = s.next.Get(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Range implements checkpoint.Store.
func (s *Store) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	o := &object{s: s, ctx: ctx, name: name, at: off, end: off + n}
	if err := o.open(n); err != nil {
		return nil, err
	}
	return o, nil
}

// forgiven is how much has to come for the count of breaks to begin again.
const forgiven = 1 << 20

// object is an open object that goes on where it broke.
type object struct {
	s      *Store
	ctx    context.Context // of the Get, whose reader fails once it ends
	name   string
	r      io.ReadCloser
	at     int64 // the next byte
	end    int64 // -1: not known yet
	since  int64 // bytes that came since it last broke
	breaks int
	broke  error // what broke r, when it is to be replaced
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	if o.broke != nil {
		if err := o.goOn(); err != nil {
			return 0, err
		}
	}
	n, err := o.r.Read(p)
	o.at += int64(n)
	if o.since += int64(n); o.since >= forgiven {
		o.breaks = 0
	}
	if err == nil || errors.Is(err, io.EOF) || final(err) || o.ctx.Err() != nil {
		return n, err
	}
	o.broke = err
	return n, nil // and goes on with the next Read
}

// goOn replaces the broken reader by a range from where it broke.
func (o *object) goOn() error {
	if o.breaks++; o.breaks >= o.s.cfg.Tries {
		return o.broke
	}
	o.s.cfg.OnRepeat("get", o.name, o.broke)
	_ = o.r.Close() // it is broken
	if o.end < 0 {
		size, err := o.s.Stat(o.ctx, o.name)
		if err != nil {
			return err
		}
		o.end = size
	}
	if o.at == o.end { // only the end itself was lost
		o.r, o.broke = empty{}, nil
		return nil
	}
	return o.open(o.end - o.at)
}

func (o *object) open(n int64) error {
	err := o.s.repeat(o.ctx, "get", o.name, func() (err error) {
		o.r, err = o.s.next.Range(o.ctx, o.name, o.at, n)
		return err
	})
	if err != nil {
		if o.r == nil {
			o.r = empty{}
		}
		return err
	}
	o.broke, o.since = nil, 0
	return nil
}

// Close implements io.Closer.
func (o *object) Close() error { return o.r.Close() }

// empty is an object of which nothing is left.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }
