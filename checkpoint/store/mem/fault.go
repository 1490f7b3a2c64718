package mem

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// Verb is one of the operations of a store.
type Verb string

const (
	Put    Verb = "put"
	Get    Verb = "get"
	Stat   Verb = "stat"
	List   Verb = "list"
	Delete Verb = "delete"
)

// Op is one operation about to happen.
type Op struct {
	Verb Verb
	Name string // for List the prefix
	N    int    // how many operations there were before
}

// Plan decides what goes wrong with an operation. It is called without locks,
// possibly from several goroutines, and may be slow only through Fault.Delay.
type Plan func(Op) Fault

// Fault is what goes wrong. The zero value is nothing.
type Fault struct {
	// Delay passes first.
	Delay time.Duration
	// Before fails the operation without any effect. ErrNoSpace is one choice.
	Before error
	// After fails it once its effect is there: an answer that was lost. A Get's
	// reader gives its bytes and then this.
	After error
	// Bend changes a copy of the bytes of a Put, at rest, or of a Get, on the
	// wire: Torn and Flipped are ready made.
	Bend func([]byte) []byte
	// Hide leaves names out of a List that is late.
	Hide func(name string) bool
}

// Torn keeps the first n bytes.
func Torn(n int) func([]byte) []byte {
	return func(b []byte) []byte { return b[:min(n, len(b))] }
}

// Flipped inverts one bit, counted from the start and around the end. Without
// any bytes, it adds one.
func Flipped(bit int) func([]byte) []byte {
	return func(b []byte) []byte {
		if len(b) == 0 {
			return []byte{1}
		}
		bit %= 8 * len(b)
		b[bit/8] ^= 1 << (bit % 8)
		return b
	}
}

func (f Fault) bend(data []byte) []byte {
	if f.Bend == nil {
		return data
	}
	return f.Bend(bytes.Clone(data))
}

// begin checks the name and lets happen what comes before the effect.
func (s *Store) begin(ctx context.Context, verb Verb, name string) (Fault, error) {
	if verb != List && !checkpoint.ObjectName(name) {
		return Fault{}, fmt.Errorf("%s %q: not an object name", verb, name)
	}
	s.mu.Lock()
	op := Op{Verb: verb, Name: name, N: s.ops}
	s.ops++
	s.mu.Unlock()
	var f Fault
	if s.cfg.Plan != nil {
		f = s.cfg.Plan(op)
	}
	if f.Delay > 0 {
		if err := s.cfg.Sleep(ctx, f.Delay); err != nil {
			return f, err
		}
	}
	if err := ctx.Err(); err != nil {
		return f, err
	}
	if f.Before != nil {
		return f, fmt.Errorf("%s %s: %w", verb, name, f.Before)
	}
	return f, nil
}
