package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
)

// calls does each of a store's verbs once and tells their errors. It needs
// v1/there to be there, and v1/new not to be.
func (c *check) calls(want func(err error, call string)) {
	want(c.tryPut("v1/new", []byte("new")), "Put")
	_, err := c.get("v1/there")
	want(err, "Get")
	_, err = c.rng("v1/there", 0, 2)
	want(err, "Range")
	_, err = c.store.Stat(c.ctx, "v1/there")
	want(err, "Stat")
	if c.can(Lists) {
		_, err = c.list("v1/")
		want(err, "List")
	}
	if c.can(Deletes) {
		want(c.store.Delete(c.ctx, "v1/there"), "Delete")
	}
}

// all is a plan for every request.
func all(f faultproxy.Fault) faultproxy.Plan {
	return func(faultproxy.Request) faultproxy.Fault { return f }
}

func trouble(c *check) {
	c.put("v1/there", []byte("there"))
	slowDown := `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`
	for name, f := range map[string]faultproxy.Fault{
		"500": {Status: 500}, "502": {Status: 502, Body: "<html>bad gateway</html>"}, "503": {Status: 503},
		"503 SlowDown": {Status: 503, Header: http.Header{"Content-Type": {"application/xml"}}, Body: slowDown},
		"504":          {Status: 504}, "429": {Status: 429}, "408": {Status: 408},
		"no answer at all": {CutIn: 1, Lose: true},
	} {
		c.proxy.Set(all(f))
		c.calls(func(err error, call string) { c.passing(err, "%s under %s", call, name) })
	}
	c.proxy.Set(nil)
	c.absent("v1/new")
	c.holds("v1/there", []byte("there"))
	c.put("v1/new", []byte("new"))
}

func retryAfter(c *check) {
	c.put("v1/there", []byte("there"))
	for _, status := range []int{503, 429} {
		c.proxy.Set(all(faultproxy.Fault{Status: status, Header: http.Header{"Retry-After": {"7"}}}))
		c.calls(func(err error, call string) {
			var asks interface{ RetryAfter() time.Duration }
			c.want(errors.As(err, &asks) && asks.RetryAfter() == 7*time.Second, "%s under %d = %v, which does not ask for 7 s", call, status, err)
		})
	}
}

func refusals(c *check) {
	c.put("v1/there", []byte("there"))
	for _, status := range []int{401, 403, 400} {
		c.proxy.Set(all(faultproxy.Fault{Status: status}))
		c.calls(func(err error, call string) {
			c.is(err, checkpoint.ErrRefused, "%s under %d", call, status)
			for _, proof := range []error{checkpoint.ErrNotFound, checkpoint.ErrCorrupt, checkpoint.ErrExists} {
				c.want(!errors.Is(err, proof), "%s under %d = %v, which is %v", call, status, err, proof)
			}
		})
	}
	c.proxy.Set(nil)
	c.absent("v1/new")
	c.holds("v1/there", []byte("there"))
}

func fullService(c *check) {
	c.proxy.Set(faultproxy.On(faultproxy.Put, faultproxy.Fault{Status: http.StatusInsufficientStorage}))
	c.is(c.tryPut("v1/a", []byte("x")), checkpoint.ErrNoSpace, "Put under 507")
	c.proxy.Set(nil)
	c.absent("v1/a")
	c.put("v1/a", []byte("x"))
}

// full wants room for one object of 600,000 bytes and not for two.
func full(c *check) {
	half := Content(600_000)
	c.put("v1/one", half)
	for range 3 {
		c.is(c.tryPut("v1/two", half), checkpoint.ErrNoSpace, "Put into a full store")
		c.absent("v1/two")
	}
	c.holds("v1/one", half)
	c.is(c.store.Delete(c.ctx, "v1/one"), nil, "Delete in a full store")
	c.put("v1/two", half)
	c.holds("v1/two", half)
}

func cutPut(c *check) {
	data := Content(1 << 20)
	for i, after := range []int64{0, 1, 65_536, 500_000, int64(len(data)) - 1} {
		name := fmt.Sprintf("v1/cut/%d", i)
		c.proxy.Set(faultproxy.On(faultproxy.Put, faultproxy.Fault{CutIn: after + 1}))
		c.passing(c.tryPut(name, data), "Put cut off after %d bytes", after)
		c.proxy.Set(nil)
		c.absent(name)
		c.put(name, data)
		c.holds(name, data)
	}
}

func lostAnswer(c *check) {
	// ErrExists would be true, as far as a store can see that does look.
	for _, n := range []int{0, 10, 1 << 20} {
		name, data := fmt.Sprintf("v1/lost/%d", n), Content(n)
		c.proxy.Set(faultproxy.On(faultproxy.Put, faultproxy.Fault{Lose: true}))
		err := c.tryPut(name, data)
		if !errors.Is(err, checkpoint.ErrExists) { // a store may have looked
			c.passing(err, "Put of %d bytes with its answer lost", n)
		}
		c.proxy.Set(nil)
		c.holds(name, data)
		c.is(c.tryPut(name, data), checkpoint.ErrExists, "repeated Put")
		c.holds(name, data)
	}
}

func cutGet(c *check) {
	data := Content(1 << 20)
	c.put("v1/a", data)
	for _, after := range []int64{0, 1, 65_536, 500_000, int64(len(data)) - 1} {
		c.proxy.Set(faultproxy.On(faultproxy.Get, faultproxy.Fault{CutOut: after + 1}))
		got, err := c.get("v1/a")
		c.passing(err, "Get cut off after %d bytes", after)
		c.want(bytes.HasPrefix(data, got), "Get cut off gave %d bytes that are not the object's", len(got))
		got, err = c.rng("v1/a", 0, int64(len(data)))
		c.passing(err, "Range cut off after %d bytes", after)
		c.want(bytes.HasPrefix(data, got), "Range cut off gave %d bytes that are not the object's", len(got))
	}
	c.proxy.Set(nil)
	c.holds("v1/a", data)
}

// flippedGet: a store may find it, or pass it on to the engine, which hashes.
// It may not repair what it cannot know, nor call it whole.
func flippedGet(c *check) {
	data := Content(100_000)
	c.put("v1/a", data)
	for _, bit := range []int64{1, 8 * 50_000, 8 * 100_000} {
		c.proxy.Set(faultproxy.On(faultproxy.Get, faultproxy.Fault{FlipOut: bit}))
		got, err := c.get("v1/a")
		c.want(err != nil || len(got) == len(data) && !bytes.Equal(got, data), "Get with bit %d flipped = %d bytes, %v", bit, len(got), err)
		got, err = c.rng("v1/a", 0, 100_000)
		c.want(err != nil || len(got) == len(data) && !bytes.Equal(got, data), "Range with bit %d flipped = %d bytes, %v", bit, len(got), err)
	}
}

func flippedPut(c *check) {
	data := Content(100_000)
	for i, bit := range []int64{1, 8 * 50_000, 8 * 100_000} {
		name := fmt.Sprintf("v1/flip/%d", i)
		c.proxy.Set(faultproxy.On(faultproxy.Put, faultproxy.Fault{FlipIn: bit}))
		c.passing(c.tryPut(name, data), "Put with bit %d flipped", bit)
		c.proxy.Set(nil)
		c.absent(name)
		c.put(name, data)
		c.holds(name, data)
	}
}

func slow(c *check) {
	data := Content(400_000)
	c.proxy.Set(all(faultproxy.Fault{Rate: 1_000_000}))
	c.put("v1/a", data)
	c.holds("v1/a", data)
	c.proxy.Set(all(faultproxy.Fault{Rate: 10_000}))
	for call, do := range map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error { _, err := drain(c.store.Get(ctx, "v1/a")); return err },
		"Put": func(ctx context.Context) error {
			return c.store.Put(ctx, "v1/b", bytes.NewReader(data), int64(len(data)))
		},
	} {
		ctx, cancel := context.WithTimeout(c.ctx, 300*time.Millisecond)
		start := time.Now()
		err := do(ctx)
		c.is(err, context.DeadlineExceeded, "a slow %s", call)
		c.want(time.Since(start) < 10*time.Second, "a slow %s went on for %v after its context", call, time.Since(start))
		cancel()
	}
	c.proxy.Set(nil)
	c.absent("v1/b")
}

func lateList(c *check) {
	c.put("v1/old", []byte("old"))
	names, err := c.list("v1/")
	c.want(err == nil && slices.Equal(names, []string{"v1/old"}), "List = %q, %v", names, err)
	c.put("v1/new", []byte("new"))
	c.proxy.Set(faultproxy.On(faultproxy.List, faultproxy.Fault{Stale: true}))
	names, err = c.list("v1/")
	c.want(err == nil && slices.Equal(names, []string{"v1/old"}), "the late List = %q, %v", names, err)
	c.holds("v1/new", []byte("new"))
	c.is(c.tryPut("v1/new", []byte("again")), checkpoint.ErrExists, "Put of what the list does not show")
	if c.can(Deletes) {
		c.is(c.store.Delete(c.ctx, "v1/new"), nil, "Delete of what the list does not show")
		_, err := c.store.Stat(c.ctx, "v1/new")
		c.is(err, checkpoint.ErrNotFound, "Stat of what was deleted")
	}
}
