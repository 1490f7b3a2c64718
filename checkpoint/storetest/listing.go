package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spotferry/spotferry/checkpoint"
)

func lists(c *check) {
	all := []string{"v1/a/1", "v1/a/10", "v1/a/2", "v1/ab", "v1/b/c/d", "v2"}
	for i := range all {
		name := all[(i*5+3)%len(all)] // not in order
		c.put(name, []byte(name))
	}
	for prefix, want := range map[string][]string{
		"": all, "v": all, "v1/a": all[:4], "v1/a/": all[:3], "v1/a/1": all[:2], "v1/b/": all[4:5], "v2": all[5:],
		"v1/a/1/": nil, "w": nil, "v1/none/at/all": nil, "../": nil, "/": nil, "v1//": nil, "v1/.": nil, "v1/*": nil, "V1/": nil,
		strings.Repeat("v", 600): nil, "\xff": nil, "v1\x00": nil, "v1/a/1\n": nil,
	} {
		found, err := c.store.List(c.ctx, prefix)
		var got []string
		for _, o := range found {
			got = append(got, o.Name)
			c.want(o.Size == int64(len(o.Name)), "List(%q): %s of %d bytes", prefix, o.Name, o.Size)
		}
		c.want(err == nil && slices.Equal(got, want), "List(%q) = %q, %v; want %q", prefix, got, err, want)
	}
}

func listsAfterDelete(c *check) {
	var left []string
	for i := range 12 {
		c.put(fmt.Sprintf("v1/d/%02d", i), []byte("x"))
	}
	for i := range 12 {
		name := fmt.Sprintf("v1/d/%02d", i)
		if i%3 == 0 {
			left = append(left, name)
			continue
		}
		c.is(c.store.Delete(c.ctx, name), nil, "Delete(%s)", name)
	}
	got, err := c.list("v1/d/")
	c.want(err == nil && slices.Equal(got, left), "List = %q, %v; want %q", got, err, left)
	for _, name := range left {
		c.is(c.store.Delete(c.ctx, name), nil, "Delete(%s)", name)
	}
	got, err = c.list("")
	c.want(err == nil && len(got) == 0, "List = %q, %v; want nothing", got, err)
}

// listsMany fills one directory beyond a page of any service: S3, Google and
// Azure give at most 1,000, 1,000 and 5,000 at a time. Between the pages nothing
// may be lost, repeated or out of order.
func listsMany(c *check) {
	const many, at = 1_101, 16
	want := make([]string, many)
	names := make(chan string)
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for name := range names {
				c.is(c.tryPut(name, []byte("x")), nil, "Put(%s)", name)
			}
		})
	}
	for i := range want {
		want[i] = fmt.Sprintf("v1/flat/%04d", i)
		names <- want[i]
	}
	close(names)
	wg.Wait()
	c.put("v1/flat2", []byte("x"))
	for prefix, n := range map[string]int{"v1/flat/": many, "v1/flat/0": 1_000, "v1/flat/1": 101, "v1/flat/10": 100, "v1/flat/0999": 1} {
		got, err := c.list(prefix)
		matching := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !strings.HasPrefix(s, prefix) })
		c.want(err == nil && len(got) == n && slices.Equal(got, matching), "List(%q) = %d names, %v; want %d", prefix, len(got), err, n)
	}
	if _, err := c.store.Stat(c.ctx, want[many-1]); err != nil {
		c.is(err, checkpoint.ErrNotFound, "Stat of the last")
	}
}
