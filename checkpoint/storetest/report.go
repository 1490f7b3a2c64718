package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
)

// Mark begins each line of a column as it is logged, so that it can be found
// again in the output of many tests. The line goes on with column, promise and
// cell, divided by " | ".
const Mark = "storetest | "

// cell is what became of one promise.
type cell struct {
	asserts int64
	na      string
	failed  bool
	ran     bool
}

func (c *cell) String() string {
	switch {
	case !c.ran:
		return "not run"
	case c.failed:
		return "FAILED"
	case c.na != "":
		return "n/a: " + c.na
	}
	return fmt.Sprint(c.asserts)
}

// hold runs one promise, or says why it does not apply.
func (c *cell) hold(t *testing.T, cfg Config, p promise) {
	c.ran = true
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	k := &check{T: t, cfg: cfg, ctx: ctx}
	t.Cleanup(func() {
		c.asserts, c.failed = k.count.Load(), t.Failed()
		if c.asserts == 0 && c.na == "" && !t.Failed() {
			c.failed = true
			t.Error("nothing was held to this promise")
		}
	})
	for _, f := range p.needs {
		if why := cfg.Without[f]; why != "" {
			c.na = why
			t.Skip("n/a: " + why)
		}
	}
	k.open(p)
	if _, ok := k.store.(checkpoint.Signer); !ok && needs(p, Signing) {
		c.na = "not a checkpoint.Signer"
		t.Skip("n/a: " + c.na)
	}
	p.hold(k)
}

func (c *check) open(p promise) {
	switch {
	case needs(p, Faults):
		c.store, c.proxy = c.cfg.Faulty(c.T)
	case needs(p, Filling):
		c.store = c.cfg.Full(c.T)
	default:
		c.store = c.cfg.Open(c.T)
	}
}

func needs(p promise, f Feature) bool {
	for _, n := range p.needs {
		if n == f {
			return true
		}
	}
	return false
}

func report(t *testing.T, column string, cells []*cell) {
	t.Helper()
	var b strings.Builder
	for i, p := range promises {
		if cells[i] != nil {
			fmt.Fprintf(&b, "%s%s | %s | %s\n", Mark, column, p.name, cells[i])
		}
	}
	t.Log("\n" + b.String())
}
