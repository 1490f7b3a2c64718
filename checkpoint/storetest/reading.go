package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spotferry/spotferry/checkpoint"
)

// sizes stand around what stores and transports cut bytes into: copy buffers of
// 32 KiB, messages of 64 and 128 KiB, blocks of 1 and 4 MiB, the smallest part
// of a multipart upload, 5 MiB, and the engine's chunk, 8 MiB.
var sizes = []int{0, 1, 511, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64 << 10, 128<<10 - 1, 128<<10 + 1,
	1<<20 - 1, 1 << 20, 3<<20 + 7, 4<<20 - 1, 4<<20 + 1, 5<<20 - 1, 5 << 20, 8 << 20, 8<<20 + 1}

func roundTrips(c *check) {
	for _, n := range sizes {
		name, data := fmt.Sprintf("v1/size/%d", n), Content(n)
		c.put(name, data)
		c.holds(name, data)
	}
}

func ranges(c *check) {
	data := Content(3 << 20)
	size := int64(len(data))
	c.put("v1/a", data)
	for _, r := range [][2]int64{{0, 1}, {0, size}, {size - 1, 1}, {1, 65_536}, {65_535, 34_465}, {1 << 20, 1 << 20}, {1<<20 - 1, 2}, {2 << 20, 1 << 20}} {
		got, err := c.rng("v1/a", r[0], r[1])
		c.want(err == nil && bytes.Equal(got, data[r[0]:r[0]+r[1]]), "range %v gave %d bytes, %v", r, len(got), err)
	}
	for _, r := range [][2]int64{{0, size + 1}, {size, 1}, {size - 1, 2}, {1 << 40, 1}, {1, size}} {
		_, err := c.rng("v1/a", r[0], r[1])
		c.is(err, checkpoint.ErrCorrupt, "range %v of %d bytes", r, size)
	}
	for _, r := range [][2]int64{{0, 0}, {-1, 1}, {0, -1}} {
		_, err := c.rng("v1/a", r[0], r[1])
		c.want(err != nil, "range %v succeeded", r)
	}
	_, err := c.rng("v1/none", 0, 1)
	c.is(err, checkpoint.ErrNotFound, "range of nothing")
	c.put("v1/empty", nil)
	_, err = c.rng("v1/empty", 0, 1)
	c.is(err, checkpoint.ErrCorrupt, "range of an empty object")
}

func manyRanges(c *check) {
	const parts, each = 16, 64 << 10
	data := Content(parts * each)
	c.put("v1/a", data)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() {
			got, err := c.rng("v1/a", int64(i*each), each)
			c.want(err == nil && bytes.Equal(got, data[i*each:(i+1)*each]), "part %d gave %d bytes, %v", i, len(got), err)
		})
	}
	wg.Wait()
}

func twoReaders(c *check) {
	c.put("v1/a", []byte("content"))
	one, err := c.store.Get(c.ctx, "v1/a")
	c.need(err, "Get")
	defer one.Close()
	_, err = io.ReadFull(one, make([]byte, 3))
	c.need(err, "reading 3 bytes")
	got, err := c.get("v1/a")
	c.want(err == nil && string(got) == "content", "the second reader got %q, %v", got, err)
	rest, err := io.ReadAll(one)
	c.want(err == nil && string(rest) == "tent", "the first reader went on with %q, %v", rest, err)
}

func missing(c *check) {
	c.absent("v1/none")
	c.put("v1/nonesuch", []byte("x"))
	c.absent("v1/none")
	c.absent("v1/nonesuch2")
}

func deletes(c *check) {
	c.is(c.store.Delete(c.ctx, "v1/none"), nil, "Delete of nothing")
	for _, content := range []string{"first", "second"} {
		c.put("v1/some", []byte(content))
		c.holds("v1/some", []byte(content))
		for range 3 {
			c.is(c.store.Delete(c.ctx, "v1/some"), nil, "Delete")
			c.absent("v1/some")
		}
	}
}

func directories(c *check) {
	c.put("v1/dir/leaf", []byte("x"))
	c.absent("v1/dir")
	c.absent("v1/dir/leaf/below")
	c.absent("v1/di")
	if c.can(Deletes) {
		c.is(c.store.Delete(c.ctx, "v1/dir"), nil, "Delete of what is no object")
		c.holds("v1/dir/leaf", []byte("x"))
	}
}

func stopsGet(c *check) {
	data := Content(4 << 20)
	c.put("v1/a", data)
	for what, open := range map[string]func(context.Context) (io.ReadCloser, error){
		"Get":   func(ctx context.Context) (io.ReadCloser, error) { return c.store.Get(ctx, "v1/a") },
		"Range": func(ctx context.Context) (io.ReadCloser, error) { return c.store.Range(ctx, "v1/a", 1, 3<<20) },
	} {
		ctx, cancel := context.WithCancel(c.ctx)
		r, err := open(ctx)
		c.need(err, "%s", what)
		_, err = io.ReadFull(r, make([]byte, 10))
		c.need(err, "reading of the %s", what)
		cancel()
		_, err = io.Copy(io.Discard, r)
		c.is(err, context.Canceled, "reading on after the %s", what)
		_ = r.Close() // it was cut off: Close may say so
		_, err = open(ctx)
		c.is(err, context.Canceled, "%s with an ended context", what)
	}
	c.holds("v1/a", data)
}

func stopsRest(c *check) {
	c.put("v1/a", []byte("x"))
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	_, err := c.store.Stat(ctx, "v1/a")
	c.is(err, context.Canceled, "Stat")
	if c.can(Lists) {
		_, err = c.store.List(ctx, "v1/")
		c.is(err, context.Canceled, "List")
	}
	if c.can(Deletes) {
		c.is(c.store.Delete(ctx, "v1/a"), context.Canceled, "Delete")
	}
	c.holds("v1/a", []byte("x"))
}

func unsupported(c *check) {
	c.put("v1/a", []byte("x"))
	_, err := c.store.List(c.ctx, "v1/")
	c.is(err, unless(c.can(Lists)), "List")
	c.is(c.store.Delete(c.ctx, "v1/a"), unless(c.can(Deletes)), "Delete")
}

func unless(can bool) error {
	if can {
		return nil
	}
	return errors.ErrUnsupported
}

// odd are names that some service or file system would fold, escape, split or
// take for something else.
var odd = []string{"v1/with space", "v1/ lead", "v1/trail ", "v1/plus+plus", "v1/per%41cent", "v1/per%2fcent", "v1/ques?tion",
	"v1/ha#sh", "v1/amp&eq=1", "v1/star*[a-z]", "v1/quo'te\"s", "v1/<angle>", "v1/semi;colon:", "v1/at@dollar$", "v1/til~de^`",
	"v1/comma,{brace}|", "v1/back.", "v1/a..b", "v1/ümlaut", "v1/u\u0308mlaut", "v1/漢字/かな", "v1/🚢",
	"v1/Case", "v1/case", "v1/CON", "v1/" + strings.Repeat("long", 60), strings.Repeat("deep/", 60) + "leaf",
	"v1/2026-03-01T00:00:00Z", "v1/list-type=2", "v1/tagging", "v1/e\u00a0nbsp", "single"}

func oddNames(c *check) {
	for _, name := range odd {
		if !c.want(checkpoint.ObjectName(name), "%q is no object name: mend the test", name) {
			continue
		}
		data := []byte(name + "'s content")
		c.put(name, data)
		c.holds(name, data)
		c.is(c.tryPut(name, append(data, "more"...)), checkpoint.ErrExists, "second Put(%q)", name)
		if c.can(Lists) {
			found, err := c.store.List(c.ctx, name)
			c.want(err == nil && len(found) == 1 && found[0] == checkpoint.Object{Name: name, Size: int64(len(data))}, "List(%q) = %v, %v", name, found, err)
		}
		if c.can(Deletes) {
			c.is(c.store.Delete(c.ctx, name), nil, "Delete(%q)", name)
			c.absent(name)
		}
	}
}

func badNames(c *check) {
	for _, name := range []string{"", ".", "..", "/", "/abs", "a/", "a//b", "a/../b", "../a", "./a", ".hidden", "a/.hidden",
		`a\b`, "a\x00b", "a\nb", "\xff", strings.Repeat("a", 600)} {
		err := c.store.Put(c.ctx, name, strings.NewReader("x"), 1)
		c.want(err != nil && !errors.Is(err, checkpoint.ErrExists), "Put(%q) = %v, want a refusal", name, err)
		_, err = c.get(name)
		c.want(err != nil, "Get(%q) succeeded", name)
		_, err = c.rng(name, 0, 1)
		c.want(err != nil, "Range(%q) succeeded", name)
		_, err = c.store.Stat(c.ctx, name)
		c.want(err != nil, "Stat(%q) succeeded", name)
		c.want(c.store.Delete(c.ctx, name) != nil, "Delete(%q) succeeded", name)
	}
	if c.can(Lists) {
		names, err := c.list("")
		c.want(err == nil && len(names) == 0, "List = %q, %v; want nothing", names, err)
	}
}
