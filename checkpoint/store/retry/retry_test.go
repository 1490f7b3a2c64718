package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/store/retry"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

var errTrouble = errors.New("trouble")

const noFaults = "it makes faults pass; see TestServiceInTrouble"

func TestConformance(t *testing.T) {
	over := func(cfg mem.Config) func(*testing.T) checkpoint.Store {
		return func(*testing.T) checkpoint.Store { return retry.New(mem.New(cfg), retry.Config{}) }
	}
	storetest.Check(t, storetest.Config{Column: "retry(mem)", Open: over(mem.Config{}), Full: over(mem.Config{Room: 1 << 20}),
		Without: map[storetest.Feature]string{storetest.Faults: noFaults}})
}

// TestConformanceUnderTrouble: with a third of all operations failing, before or
// after their effect, the wrapped store keeps what the contract promises of one
// without trouble.
func TestConformanceUnderTrouble(t *testing.T) {
	plan := func(op mem.Op) mem.Fault {
		switch op.N * 2654435761 >> 7 % 10 { // spread, and the same in every run
		case 0, 1:
			return mem.Fault{Before: errTrouble}
		case 2:
			return mem.Fault{After: errTrouble}
		}
		return mem.Fault{}
	}
	storetest.Check(t, storetest.Config{
		Column: "retry(mem in trouble)",
		Open: func(*testing.T) checkpoint.Store {
			return retry.New(mem.New(mem.Config{Plan: plan}), retry.Config{First: time.Microsecond, Most: time.Microsecond, Tries: 40, Failures: 100})
		},
		Without: map[storetest.Feature]string{
			storetest.Faults:    noFaults,
			storetest.Filling:   "full or not is one answer, and final; see retry(mem)",
			storetest.OneWinner: "after a lost answer an object of the same size is taken for one's own; names contain hashes",
		},
	})
}

// TestServiceInTrouble goes over a real service and a network with faults.
func TestServiceInTrouble(t *testing.T) {
	server := s3server.Start(t)
	proxy := faultproxy.Start(t, faultproxy.Config{Target: server.URL})
	below, err := s3.Open(s3.Config{Bucket: server.Bucket(t), Endpoint: proxy.URL, Access: server.Access, Secret: server.Secret})
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	repeats := 0
	s := retry.New(below, retry.Config{First: time.Millisecond, OnRepeat: func(string, string, error) { repeats++ }})
	data := storetest.Content(3 << 20)
	for i, f := range []faultproxy.Fault{
		{Status: 500}, {Status: 503}, {CutIn: 1}, {CutIn: 1 << 20}, {Lose: true}, {CutOut: 1}, {CutOut: 2 << 20}, {FlipIn: 77},
	} {
		name := fmt.Sprintf("v1/a/%d", i)
		first := func(r faultproxy.Request) faultproxy.Fault {
			if r.N == 0 && r.Verb != faultproxy.Stat {
				return f
			}
			return faultproxy.Fault{}
		}
		proxy.Set(first)
		if err := s.Put(t.Context(), name, bytes.NewReader(data), int64(len(data))); err != nil && !errors.Is(err, checkpoint.ErrExists) {
			t.Errorf("Put under %+v = %v", f, err)
		}
		proxy.Set(first)
		r, err := s.Get(t.Context(), name)
		if err != nil {
			t.Fatalf("Get under %+v = %v", f, err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get under %+v = %d bytes, %v", f, len(got), err)
		}
	}
	if repeats < 8 {
		t.Errorf("%d repeats", repeats)
	}
}

// script fails the first operations of a verb with these errors.
func script(verb mem.Verb, errs ...error) mem.Plan {
	n := 0
	return func(op mem.Op) (f mem.Fault) {
		if op.Verb == verb && n < len(errs) {
			f.Before = errs[n]
			n++
		}
		return f
	}
}

// asking is an error of a service that wants to be left alone.
type asking time.Duration

func (a asking) Error() string             { return "busy" }
func (a asking) RetryAfter() time.Duration { return time.Duration(a) }

func times(n int, err error) (all []error) {
	for range n {
		all = append(all, err)
	}
	return all
}

func TestRepeats(t *testing.T) {
	data := []byte("content")
	put := func(ctx context.Context, s *retry.Store, r io.Reader) error { return s.Put(ctx, "v1/a", r, 7) }
	for _, tc := range []struct {
		name  string
		plan  mem.Plan
		r     io.Reader
		limit time.Duration // of the context; 0: none
		want  error
		took  time.Duration
		there bool
	}{
		{"without trouble nothing is repeated", nil, bytes.NewReader(data), 0, nil, 0, true},
		{"delays double", script(mem.Put, times(3, errTrouble)...), bytes.NewReader(data), 0, nil, (1 + 2 + 4) * 200 * time.Millisecond, true},
		{"six tries are enough", script(mem.Put, times(9, errTrouble)...), bytes.NewReader(data), 0, errTrouble, (1 + 2 + 4 + 8 + 16) * 200 * time.Millisecond, false},
		{"a full store is final", script(mem.Put, checkpoint.ErrNoSpace), bytes.NewReader(data), 0, checkpoint.ErrNoSpace, 0, false},
		{"a refusal is final", script(mem.Put, checkpoint.ErrRefused), bytes.NewReader(data), 0, checkpoint.ErrRefused, 0, false},
		{"what the service asks to wait is waited, and a little more", script(mem.Put, asking(7*time.Second)), bytes.NewReader(data), 0, nil, 7200 * time.Millisecond, true},
		{"a service that asks too much is not waited for", script(mem.Put, asking(time.Hour)), bytes.NewReader(data), 0, asking(time.Hour), 0, false},
		{"nor one that asks beyond the deadline", script(mem.Put, asking(7*time.Second)), bytes.NewReader(data), 5 * time.Second, asking(7 * time.Second), 0, false},
		{"a reader that cannot go back and was not touched is read", script(mem.Put, errTrouble), bytes.NewBuffer(data), 0, nil, 200 * time.Millisecond, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := mem.New(mem.Config{Plan: tc.plan})
				ctx := t.Context()
				if tc.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.limit)
					defer cancel()
				}
				start := time.Now()
				err := put(ctx, retry.New(below, retry.Config{}), tc.r)
				if !errors.Is(err, tc.want) {
					t.Errorf("Put = %v, want %v", err, tc.want)
				}
				if took := time.Since(start); took != tc.took {
					t.Errorf("it took %v, want %v", took, tc.took)
				}
				if there := len(below.Names()) == 1; there != tc.there {
					t.Errorf("it is there: %v, want %v", there, tc.there)
				}
				if seeker, ok := tc.r.(*bytes.Reader); ok {
					_, _ = seeker.Seek(0, io.SeekStart)
				}
			})
		})
	}
}

// TestLostAnswers: ErrExists after a put whose answer was lost is a success if
// the size is right, and ErrExists at once is ErrExists.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lose := true
		below := mem.New(mem.Config{Plan: func(op mem.Op) (f mem.Fault) {
			if op.Verb == mem.Put && lose {
				f.After, lose = errTrouble, false
			}
			return f
		}})
		s := retry.New(below, retry.Config{})
		if err := s.Put(t.Context(), "v1/a", bytes.NewReader([]byte("content")), 7); err != nil {
			t.Errorf("Put with a lost answer = %v", err)
		}
		if err := s.Put(t.Context(), "v1/a", bytes.NewReader([]byte("content")), 7); !errors.Is(err, checkpoint.ErrExists) {
			t.Errorf("second Put = %v, want ErrExists", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		below := mem.New(mem.Config{Plan: script(mem.Put, nil, errTrouble)})
		s := retry.New(below, retry.Config{})
		if err := s.Put(t.Context(), "v1/a", bytes.NewReader([]byte("other, and longer")), 17); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "v1/a", bytes.NewReader([]byte("content")), 7); !errors.Is(err, checkpoint.ErrExists) {
			t.Errorf("Put after trouble, where another object is = %v, want ErrExists", err)
		}
	})
}

// TestTouchedReader: a put that took some of a reader that cannot go back is not
// repeated: what is left is another object.
func TestTouchedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := mem.New(mem.Config{Plan: func(op mem.Op) (f mem.Fault) {
			if op.N == 0 {
				f.After = errTrouble
			}
			return f
		}})
		err := retry.New(below, retry.Config{}).Put(t.Context(), "v1/a", bytes.NewBufferString("content"), 7)
		if !errors.Is(err, errTrouble) {
			t.Errorf("Put = %v, want the trouble", err)
		}
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, asked := true, 0
		below := mem.New(mem.Config{Plan: func(mem.Op) (f mem.Fault) {
			if asked++; down {
				f.Before = errTrouble
			}
			return f
		}})
		var states []string
		s := retry.New(below, retry.Config{Tries: 1, OnState: func(state string) { states = append(states, state) }})
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 30 {
			if _, err := s.Stat(soon, "v1/a"); err == nil {
				t.Error("Stat of a store that is down succeeded")
			}
		}
		if asked != 10 {
			t.Errorf("a store that is down was asked %d times, want 10", asked)
		}
		if _, err := s.Stat(soon, "v1/a"); !errors.Is(err, retry.ErrHeldBack) {
			t.Errorf("Stat = %v, want ErrHeldBack", err)
		}
		down = false
		start := time.Now()
		if err := s.Put(t.Context(), "v1/a", bytes.NewReader([]byte("x")), 1); err != nil || time.Since(start) > 3*time.Second {
			t.Errorf("Put after the store is back = %v after %v: what is held back waits for the breaker", err, time.Since(start))
		}
		if got := fmt.Sprint(states); got != "[open half-open closed]" {
			t.Errorf("states are %s", got)
		}
		for range 30 {
			if _, err := s.Stat(t.Context(), "v1/none"); !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("Stat = %v: what is final must not open the breaker", err)
			}
		}
	})
}

func TestEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retry.New(mem.New(mem.Config{Plan: script(mem.Stat, times(100, errTrouble)...)}), retry.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := s.Stat(ctx, "v1/a")
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errTrouble) || time.Since(start) != time.Second {
			t.Errorf("Stat = %v after %v", err, time.Since(start))
		}
	})
}
