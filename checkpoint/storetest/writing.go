package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing/iotest"

	"github.com/spotferry/spotferry/checkpoint"
)

func neverOverwrites(c *check) {
	for _, first := range []int{0, 5, 300_000} {
		name, data := fmt.Sprintf("v1/first/%d", first), Content(first)
		c.put(name, data)
		for _, second := range [][]byte{nil, []byte("second"), Content(1 << 20), data} {
			if len(second) == first && !c.can(OneWinner) {
				continue // it may be taken for the one that won
			}
			c.is(c.tryPut(name, second), checkpoint.ErrExists, "Put(%s) of %d bytes after one of %d", name, len(second), first)
			c.holds(name, data)
		}
	}
}

func oneWinner(c *check) {
	const writers, rounds = 8, 20
	for round := range rounds {
		name := fmt.Sprintf("v1/race/%d", round)
		var wins atomic.Int32
		var winner atomic.Pointer[[]byte]
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				data := bytes.Repeat([]byte{byte(i)}, 10_000+round*1_000)
				switch err := c.tryPut(name, data); {
				case err == nil:
					wins.Add(1)
					winner.Store(&data)
				default:
					c.is(err, checkpoint.ErrExists, "the Put of a loser")
				}
			})
		}
		wg.Wait()
		if c.want(wins.Load() == 1, "%d writers won %s", wins.Load(), name) {
			c.holds(name, *winner.Load())
		}
	}
}

func manyAtOnce(c *check) {
	content := func(i int) (string, []byte) {
		name := fmt.Sprintf("v1/many/%d/%d", i%4, i)
		return name, []byte(name)
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			name, data := content(i)
			c.is(c.tryPut(name, data), nil, "Put(%s)", name)
		})
	}
	wg.Wait()
	for i := range 32 {
		c.holds(content(i))
	}
}

var errBroken = errors.New("the reader broke")

func leavesNothing(c *check) {
	data := Content(100_000)
	for _, tc := range []struct {
		name string
		r    io.Reader
		size int64
		want error
	}{
		{"short", bytes.NewReader(data), int64(len(data)) + 1, checkpoint.ErrSize},
		{"long", bytes.NewReader(data), int64(len(data)) - 1, checkpoint.ErrSize},
		{"longbyfar", bytes.NewReader(data), 10, checkpoint.ErrSize},
		{"shortbyfar", bytes.NewReader(data), 10 << 20, checkpoint.ErrSize},
		{"empty", strings.NewReader(""), 1, checkpoint.ErrSize},
		{"notempty", strings.NewReader("x"), 0, checkpoint.ErrSize},
		{"atonce", iotest.ErrReader(errBroken), 10, errBroken},
		{"emptyatonce", iotest.ErrReader(errBroken), 0, errBroken},
		{"midway", io.MultiReader(bytes.NewReader(data[:50_000]), iotest.ErrReader(errBroken)), int64(len(data)), errBroken},
		{"attheend", io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errBroken)), int64(len(data)), errBroken},
		{"withthelast", iotest.DataErrReader(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errBroken))), int64(len(data)), errBroken},
	} {
		err := c.store.Put(c.ctx, "v1/"+tc.name, tc.r, tc.size)
		c.is(err, tc.want, "Put of a reader that is %s", tc.name)
		c.absent("v1/" + tc.name)
	}
}

// readersPlace: a store that rewinds a reader it can seek would put what came
// before, and one that reads ahead would take what is not its own.
func readersPlace(c *check) {
	data := Content(200_000)
	r := bytes.NewReader(data)
	_, err := r.Seek(50_000, io.SeekStart)
	c.need(err, "seeking")
	c.need(c.store.Put(c.ctx, "v1/rest", r, 150_000), "Put of the rest of a reader")
	c.holds("v1/rest", data[50_000:])
	for name, r := range map[string]io.Reader{
		"v1/slow":   iotest.HalfReader(bytes.NewReader(data)),
		"v1/ending": iotest.DataErrReader(bytes.NewReader(data)),
		"v1/part":   io.NewSectionReader(bytes.NewReader(data), 0, 200_000),
		"v1/closer": closing{bytes.NewReader(data), c},
	} {
		c.need(c.store.Put(c.ctx, name, r, 200_000), "Put(%s)", name)
		c.holds(name, data)
	}
}

// closing is a reader whose Close is not the store's to call.
type closing struct {
	io.ReadSeeker
	c *check
}

func (r closing) Close() error {
	r.c.want(false, "the store closed a reader that is its caller's")
	return nil
}

func canBeRepeated(c *check) {
	err := c.store.Put(c.ctx, "v1/a", iotest.ErrReader(errBroken), 3)
	c.is(err, errBroken, "Put of a broken reader")
	c.put("v1/a", []byte("now"))
	c.holds("v1/a", []byte("now"))
}

// ending ends a context once n bytes have been read from it.
type ending struct {
	r   io.Reader
	n   *int
	end func()
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.r.Read(p[:min(len(p), 10_000)])
	if *e.n -= n; *e.n <= 0 {
		e.end()
	}
	return n, err
}

func stopsPut(c *check) {
	data := Content(1 << 20)
	for name, at := range map[string]int{"v1/first": 1, "v1/midway": 500_000, "v1/last": len(data) - 1} {
		ctx, cancel := context.WithCancel(c.ctx)
		last := at == len(data)-1 // then it may be too late to stop
		err := c.store.Put(ctx, name, ending{bytes.NewReader(data), &at, cancel}, int64(len(data)))
		cancel()
		if last && err == nil {
			c.holds(name, data)
			continue
		}
		c.is(err, context.Canceled, "Put(%s)", name)
		c.absent(name)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	c.is(c.store.Put(ctx, "v1/before", strings.NewReader("x"), 1), context.Canceled, "Put with an ended context")
	c.absent("v1/before")
}
