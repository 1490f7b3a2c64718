package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
)

// check is one store being held to one promise. Everything it is asked to want
// is counted.
type check struct {
	*testing.T
	cfg   Config
	ctx   context.Context
	store checkpoint.Store
	proxy *faultproxy.Proxy // under faults
	count atomic.Int64
}

func (c *check) can(f Feature) bool { return c.cfg.Without[f] == "" }

// want counts, and fails the test unless ok.
func (c *check) want(ok bool, format string, args ...any) bool {
	c.Helper()
	c.count.Add(1)
	if !ok {
		c.Errorf(format, args...)
	}
	return ok
}

// is wants an error to be of a kind; nil is a kind.
func (c *check) is(err, kind error, format string, args ...any) bool {
	c.Helper()
	return c.want(errors.Is(err, kind), "%s = %v, want %v", fmt.Sprintf(format, args...), err, kind)
}

// need is want for what the rest of the promise builds on.
func (c *check) need(err error, format string, args ...any) {
	c.Helper()
	if !c.is(err, nil, format, args...) {
		c.FailNow()
	}
}

func (c *check) put(name string, data []byte) {
	c.Helper()
	c.need(c.tryPut(name, data), "Put(%q) of %d bytes", name, len(data))
}

func (c *check) tryPut(name string, data []byte) error {
	return c.store.Put(c.ctx, name, bytes.NewReader(data), int64(len(data)))
}

// holds wants an object to have exactly these bytes, and their size.
func (c *check) holds(name string, data []byte) {
	c.Helper()
	got, err := c.get(name)
	c.want(err == nil && bytes.Equal(got, data), "Get(%q) = %d bytes, %v; want the %d that were put", name, len(got), err, len(data))
	size, err := c.store.Stat(c.ctx, name)
	c.want(err == nil && size == int64(len(data)), "Stat(%q) = %d, %v; want %d", name, size, err, len(data))
}

func (c *check) get(name string) ([]byte, error) {
	r, err := c.store.Get(c.ctx, name)
	return drain(r, err)
}

func (c *check) rng(name string, off, n int64) ([]byte, error) {
	r, err := c.store.Range(c.ctx, name, off, n)
	return drain(r, err)
}

func drain(r io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

func (c *check) list(prefix string) ([]string, error) {
	found, err := c.store.List(c.ctx, prefix)
	names := make([]string, len(found))
	for i, o := range found {
		names[i] = o.Name
	}
	return names, err
}

// absent wants nothing whatever to be visible of an object.
func (c *check) absent(name string) {
	c.Helper()
	_, err := c.store.Stat(c.ctx, name)
	c.is(err, checkpoint.ErrNotFound, "Stat(%q)", name)
	_, err = c.get(name)
	c.is(err, checkpoint.ErrNotFound, "Get(%q)", name)
	_, err = c.rng(name, 0, 1)
	c.is(err, checkpoint.ErrNotFound, "Range(%q)", name)
	if c.can(Lists) {
		names, err := c.list("")
		c.want(err == nil && !slices.Contains(names, name), "List = %q, %v: has %s", names, err, name)
	}
}

// passing wants an error that condemns nothing and ends nothing: the caller may
// try again.
func (c *check) passing(err error, format string, args ...any) {
	c.Helper()
	what := fmt.Sprintf(format, args...)
	if !c.want(err != nil, "%s succeeded", what) {
		return
	}
	for _, final := range []error{checkpoint.ErrExists, checkpoint.ErrNotFound, checkpoint.ErrCorrupt, checkpoint.ErrNoSpace,
		checkpoint.ErrSize, checkpoint.ErrRefused, errors.ErrUnsupported, context.Canceled, context.DeadlineExceeded} {
		c.want(!errors.Is(err, final), "%s = %v, which is %v: the caller would not try again", what, err, final)
	}
}
