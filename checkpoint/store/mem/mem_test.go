package mem_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Check(t, storetest.Config{
		Column:  "mem",
		Open:    func(*testing.T) checkpoint.Store { return mem.New(mem.Config{}) },
		Full:    func(*testing.T) checkpoint.Store { return mem.New(mem.Config{Room: 1 << 20}) },
		Without: map[storetest.Feature]string{storetest.Faults: "in memory there is no network; its own faults are in TestFaults"},
	})
}

var errLost = errors.New("lost")

// TestFaults puts, lists and gets one object under each kind of fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	on := func(verb mem.Verb, f mem.Fault) mem.Plan {
		return func(op mem.Op) mem.Fault {
			if op.Verb == verb {
				return f
			}
			return mem.Fault{}
		}
	}
	for _, tc := range []struct {
		name     string
		plan     mem.Plan
		put, get error
		stored   string // what is there afterwards; "-" for nothing
		got      string
		listed   int
	}{
		{"none", nil, nil, nil, "content", "content", 1},
		{"a put that fails has no effect", on(mem.Put, mem.Fault{Before: checkpoint.ErrNoSpace}), checkpoint.ErrNoSpace, checkpoint.ErrNotFound, "-", "", 0},
		{"a put whose answer is lost has one", on(mem.Put, mem.Fault{After: errLost}), errLost, nil, "content", "content", 1},
		{"a torn put", on(mem.Put, mem.Fault{Bend: mem.Torn(3), After: errLost}), errLost, nil, "con", "con", 1},
		{"a bit flipped at rest", on(mem.Put, mem.Fault{Bend: mem.Flipped(0)}), nil, nil, "bontent", "bontent", 1},
		{"a bit flipped on the wire", on(mem.Get, mem.Fault{Bend: mem.Flipped(8)}), nil, nil, "content", "cnntent", 1},
		{"a get that breaks at its end", on(mem.Get, mem.Fault{After: errLost}), nil, errLost, "content", "content", 1},
		{"a list that is late", on(mem.List, mem.Fault{Hide: func(string) bool { return true }}), nil, nil, "content", "content", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := mem.New(mem.Config{Plan: tc.plan})
			if err := s.Put(t.Context(), "v1/a", strings.NewReader("content"), 7); !errors.Is(err, tc.put) {
				t.Errorf("Put = %v, want %v", err, tc.put)
			}
			if got, err := read(t, s); got != tc.got || !errors.Is(err, tc.get) {
				t.Errorf("Get = %q, %v; want %q, %v", got, err, tc.got, tc.get)
			}
			if names, err := s.List(t.Context(), "v1/"); err != nil || len(names) != tc.listed {
				t.Errorf("List = %v, %v; want %d names", names, err, tc.listed)
			}
			stored, err := read(t, s.Clone(mem.Config{}))
			if err != nil {
				stored = "-"
			}
			if stored != tc.stored {
				t.Errorf("%q is stored, want %q", stored, tc.stored)
			}
		})
	}
}

func read(t *testing.T, s *mem.Store) (string, error) {
	r, err := s.Get(t.Context(), "v1/a")
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Config{Plan: func(mem.Op) mem.Fault { return mem.Fault{Delay: time.Hour} }})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Put(ctx, "v1/a", strings.NewReader("x"), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put = %v, want the deadline", err)
		}
		if err := s.Delete(t.Context(), "v1/a"); err != nil || time.Since(start) != time.Hour+time.Minute {
			t.Errorf("Delete = %v after %v", err, time.Since(start))
		}
	})
}

func TestEditAndClone(t *testing.T) {
	t.Parallel()
	s := mem.New(mem.Config{})
	if err := s.Put(t.Context(), "v1/a", strings.NewReader("content"), 7); err != nil {
		t.Fatal(err)
	}
	c := s.Clone(mem.Config{})
	s.Edit("v1/a", bytes.ToUpper)
	one, _ := read(t, s)
	two, _ := read(t, c)
	if one != "CONTENT" || two != "content" {
		t.Errorf("edited %q, clone %q", one, two)
	}
	s.Edit("v1/a", func([]byte) []byte { return nil })
	if names := s.Names(); len(names) > 0 {
		t.Errorf("%q is left", names)
	}
}
