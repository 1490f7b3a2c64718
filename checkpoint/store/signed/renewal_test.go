package signed_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

// first is a plan for the first n requests of a verb.
func first(verb faultproxy.Verb, n int, f faultproxy.Fault) faultproxy.Plan {
	return func(r faultproxy.Request) faultproxy.Fault {
		if r.Verb == verb && r.N < n {
			return f
		}
		return faultproxy.Fault{}
	}
}

const expired = `<?xml version="1.0"?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>`

// TestRenewal: an access that is refused is replaced once, in every way that
// services say so, wherever the request was.
func TestRenewal(t *testing.T) {
	server := s3server.Start(t)
	data := storetest.Content(1 << 20)
	put := func(ctx context.Context, r rig, in io.Reader) error { return r.Put(ctx, "v1/new", in, 1<<20) }
	for _, tc := range []struct {
		name   string
		verb   faultproxy.Verb
		n      int // of refusals
		fault  faultproxy.Fault
		do     func(context.Context, rig) error
		want   error
		grants int32
	}{
		{"a put refused with 403 is put by a new access", faultproxy.Put, 1, faultproxy.Fault{Status: 403},
			func(ctx context.Context, r rig) error { return put(ctx, r, bytes.NewReader(data)) }, nil, 2},
		{"and one refused with 401", faultproxy.Put, 1, faultproxy.Fault{Status: 401},
			func(ctx context.Context, r rig) error { return put(ctx, r, bytes.NewReader(data)) }, nil, 2},
		{"and one refused as Google does", faultproxy.Put, 1, faultproxy.Fault{Status: 400, Body: expired},
			func(ctx context.Context, r rig) error { return put(ctx, r, bytes.NewReader(data)) }, nil, 2},
		{"but only once", faultproxy.Put, 9, faultproxy.Fault{Status: 403},
			func(ctx context.Context, r rig) error { return put(ctx, r, bytes.NewReader(data)) }, checkpoint.ErrRefused, 2},
		{"and not if the reader cannot go back", faultproxy.Put, 1, faultproxy.Fault{Status: 403},
			func(ctx context.Context, r rig) error { return put(ctx, r, bytes.NewBuffer(data)) }, checkpoint.ErrRefused, 1},
		{"a get", faultproxy.Get, 1, faultproxy.Fault{Status: 403},
			func(ctx context.Context, r rig) error { return read(r.Get(ctx, "v1/there")) }, nil, 2},
		{"a range", faultproxy.Get, 1, faultproxy.Fault{Status: 403},
			func(ctx context.Context, r rig) error { return read(r.Range(ctx, "v1/there", 1, 2)) }, nil, 2},
		{"a head, also where all that is told is 400", faultproxy.Stat, 1, faultproxy.Fault{Status: 400},
			func(ctx context.Context, r rig) error { _, err := r.Stat(ctx, "v1/there"); return err }, nil, 2},
		{"trouble is no reason to ask again", faultproxy.Get, 1, faultproxy.Fault{Status: 503},
			func(ctx context.Context, r rig) error { return notNil(read(r.Get(ctx, "v1/there"))) }, nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := open(t, server, time.Hour)
			if err := r.behind.Put(t.Context(), "v1/there", bytes.NewReader(data), 1<<20); err != nil {
				t.Fatal(err)
			}
			r.proxy.Set(first(tc.verb, tc.n, tc.fault))
			if err := tc.do(t.Context(), r); !errors.Is(err, tc.want) {
				t.Errorf("= %v, want %v", err, tc.want)
			}
			if got := r.gateway.given.Load(); got != tc.grants {
				t.Errorf("%d accesses were given, want %d", got, tc.grants)
			}
			size, err := r.behind.Stat(t.Context(), "v1/new")
			if there := err == nil && size == 1<<20; there != (tc.verb == faultproxy.Put && tc.want == nil) {
				t.Errorf("the object is there: %v (%d, %v)", there, size, err)
			}
		})
	}
}

func notNil(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return nil
}

func read(r io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// TestAnEndThatComesEarly: the service's clock is ahead, or its signer's key is
// taken back; accesses end before their time, with a real service.
func TestAnEndThatComesEarly(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t)
	r := open(t, server, time.Hour)
	early := &optimist{gateway: r.gateway}
	r = r.with(t, early)
	data := storetest.Content(1000)
	if err := r.behind.Put(t.Context(), "v1/a", bytes.NewReader(data), 1000); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for early.gateway.given.Load() < 3 { // until two accesses have ended under it
		if err := read(r.Get(t.Context(), "v1/a")); err != nil {
			t.Fatalf("Get = %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatal("no access ended")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// optimist gives accesses of a second as if they were of an hour.
type optimist struct{ *gateway }

func (o *optimist) Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error) {
	all, err := (&gateway{signer: o.signer, life: time.Second}).Grant(ctx, verb, objects)
	for i := range all {
		all[i].Until = time.Now().Add(time.Hour)
		o.given.Add(1)
	}
	return all, err
}

// TestEndInTheMiddle: an access that ends while its transfer is under way does
// not end the transfer; services look when a request begins.
func TestEndInTheMiddle(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t)
	r := open(t, server, time.Second)
	data := storetest.Content(1 << 20)
	r.proxy.Set(func(faultproxy.Request) faultproxy.Fault { return faultproxy.Fault{Rate: 500_000} })
	if err := r.Put(t.Context(), "v1/slow", bytes.NewReader(data), 1<<20); err != nil {
		t.Errorf("Put that outlasts its access = %v", err)
	}
	got, err := r.Get(t.Context(), "v1/slow")
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(got)
	if err := errors.Join(err, got.Close()); err != nil || !bytes.Equal(all, data) {
		t.Errorf("Get that outlasts its access = %d bytes, %v", len(all), err)
	}
}
