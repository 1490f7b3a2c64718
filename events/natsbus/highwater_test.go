package natsbus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

// damaged runs a bus with forty events and their mark, stops it, lets damage
// happen to its directory, and returns what the check says after the restart.
func damaged(t *testing.T, damage func(t *testing.T, d damage)) error {
	t.Helper()
	d := newDamage(t)
	e, l := d.start(t)
	if err := Declare(t.Context(), l.JetStream(), 1); err != nil {
		t.Fatal(err)
	}
	all := grow(t, l, events.JobAggregate(org, job), 20)
	e.Shutdown()
	copyTree(t, filepath.Join(d.bus, "jetstream"), d.old)

	e, l = d.start(t)
	last := all[len(all)-1]
	for i := range 20 {
		next, err := l.Append(t.Context(), last.Position, follow(t, last.Aggregate, &last, waiting(100+i)))
		if err != nil {
			t.Fatal(err)
		}
		last = next
	}
	h := d.open(t, l)
	if err := h.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Shutdown()
	damage(t, d)

	e, l = d.start(t)
	defer e.Shutdown()
	return d.open(t, l).Verify(t.Context())
}

type damage struct{ root, bus, old, file string }

func newDamage(t *testing.T) damage {
	root := natsbustest.Dir(t)
	return damage{root, filepath.Join(root, "bus"), filepath.Join(root, "old"), filepath.Join(root, "marks.json")}
}

func (d damage) start(t *testing.T) (*Embedded, *Log) {
	t.Helper()
	e, err := Start(EmbeddedConfig{Dir: d.bus})
	if err != nil {
		t.Fatal(err)
	}
	return e, newLog(t, dial(t, ConnConfig{Server: e}), Options{})
}

func (d damage) open(t *testing.T, l *Log) *HighWater {
	t.Helper()
	h, err := OpenHighWater(HighWaterConfig{Conn: l.nc, JS: l.JetStream(), File: d.file})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (d damage) stream() string { return filepath.Join(d.bus, "jetstream", "$G", "streams", "JOBS") }

// block returns the file that holds the messages of JOBS.
func (d damage) block(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(d.stream(), "msgs", "*.blk"))
	if err != nil || len(found) != 1 {
		t.Fatalf("blocks %v, %v", found, err)
	}
	return found[0]
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func TestARegressedStreamIsRefusedByNameAndSequence(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, d damage)
	}{
		{"nothing happened", nil},
		{"a bit flipped in the middle", func(t *testing.T, d damage) { flip(t, d.block(t), 1, 2) }},
		{"a bit flipped near the end", func(t *testing.T, d damage) { flip(t, d.block(t), 99, 100) }},
		{"a bit flipped near the beginning", func(t *testing.T, d damage) { flip(t, d.block(t), 1, 100) }},
		{"the block was cut in half", func(t *testing.T, d damage) { cutFile(t, d.block(t)) }},
		{"the block was cut in half and the index is gone", func(t *testing.T, d damage) {
			cutFile(t, d.block(t))
			if err := os.Remove(filepath.Join(d.stream(), "msgs", "index.db")); err != nil {
				t.Fatal(err)
			}
		}},
		{"the stream's directory was deleted", func(t *testing.T, d damage) { remove(t, d.stream()) }},
		{"all streams were deleted", func(t *testing.T, d damage) { remove(t, filepath.Join(d.bus, "jetstream")) }},
		{"an old copy was put back", func(t *testing.T, d damage) { copyTree(t, d.old, filepath.Join(d.bus, "jetstream")) }},
		{"an old copy was put back and written on", func(t *testing.T, d damage) {
			copyTree(t, d.old, filepath.Join(d.bus, "jetstream"))
			writeOn(t, d)
		}},
		{"the stream was made anew and written on", func(t *testing.T, d damage) {
			remove(t, d.stream())
			writeOn(t, d)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.damage == nil {
				if err := damaged(t, func(*testing.T, damage) {}); err != nil {
					t.Errorf("err = %v, want none", err)
				}
				return
			}
			err := damaged(t, tc.damage)
			if !errors.Is(err, events.ErrRegressed) || !strings.Contains(err.Error(), "stream JOBS had reached sequence 40") {
				t.Errorf("err = %v, want a regression that names JOBS and 40", err)
			}
		})
	}
}

// A broker finds some damage at its start and drops what is behind it, some
// only when asked for the message, depending on how it was stopped.
func TestEveryFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		for part := range 32 {
			t.Run(fmt.Sprintf("at %d/32, stopped cleanly %v", part, clean), func(t *testing.T) {
				t.Parallel()
				err := damaged(t, func(t *testing.T, d damage) {
					flip(t, d.block(t), part, 32)
					if !clean {
						remove(t, filepath.Join(d.stream(), "msgs", "index.db"))
					}
				})
				if !errors.Is(err, events.ErrRegressed) {
					t.Errorf("err = %v, want a regression", err)
				}
			})
		}
	}
}

// flip changes one bit at part/of of a file.
func flip(t *testing.T, path string, part, of int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)*part/of] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func cutFile(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, st.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// writeOn is what a service that does not check does: it goes on until the
// stream is longer than it was.
func writeOn(t *testing.T, d damage) {
	t.Helper()
	e, l := d.start(t)
	defer e.Shutdown()
	if err := Declare(t.Context(), l.JetStream(), 1); err != nil {
		t.Fatal(err)
	}
	grow(t, l, events.JobAggregate("zeta", "other"), 45)
}

func TestMarksAreNeitherLoweredNorGuessed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, content, want string }{
		{"garbage", "\x00\x01", "cannot be read"},
		{"half a file", `{"format":1,"str`, "cannot be read"},
		{"a newer version's", `{"format":2}`, "use the newer program"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := write(t, filepath.Join(natsbustest.Dir(t), "marks.json"), tc.content)
			_, err := OpenHighWater(HighWaterConfig{File: file})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("err = %v, want %q and the file's name", err, tc.want)
			}
		})
	}
}

// The bus is replaced by an older copy of itself while the service runs: it
// learns of it when the connection comes back.
func TestTheServiceStopsWhenTheBusComesBackOlder(t *testing.T) {
	d := newDamage(t)
	natsbustest.Bubble(t, func(t *testing.T) {
		var bus atomic.Pointer[Embedded]
		start := func() {
			e, err := Start(EmbeddedConfig{Dir: d.bus})
			if err != nil {
				t.Fatal(err)
			}
			bus.Store(e)
		}
		start()
		nc, err := Connect(ConnConfig{Server: dialer(bus.Load), Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		l := newLog(t, nc, Options{})
		if err := Declare(t.Context(), l.JetStream(), 1); err != nil {
			t.Fatal(err)
		}
		all := grow(t, l, events.JobAggregate(org, job), 5)
		bus.Load().Shutdown()
		copyTree(t, filepath.Join(d.bus, "jetstream"), d.old)
		start()
		time.Sleep(10 * time.Second)
		stopped := make(chan error, 1)
		h := d.open(t, l)
		go func() { stopped <- h.Run(t.Context()) }()
		if _, err := l.Append(t.Context(), all[4].Position, follow(t, all[0].Aggregate, &all[4], waiting(5))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		bus.Load().Shutdown()
		time.Sleep(time.Second)
		select {
		case err := <-stopped:
			t.Fatalf("it stopped although the bus is merely away: %v", err)
		default:
		}
		copyTree(t, d.old, filepath.Join(d.bus, "jetstream"))
		start()
		defer func() { bus.Load().Shutdown() }()
		if err := <-stopped; !errors.Is(err, events.ErrRegressed) || !strings.Contains(err.Error(), "stream JOBS had reached sequence 6, but it ends at sequence 5") {
			t.Errorf("err = %v, want a regression", err)
		}
	})
}

func TestTheMarkFollowsOnceASecondAndAtTheEnd(t *testing.T) {
	d := newDamage(t)
	bubble(t, Options{}, func(t *testing.T, l *Log) {
		h := d.open(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- h.Run(ctx) }()
		all := grow(t, l, events.JobAggregate(org, job), 2)
		time.Sleep(1100 * time.Millisecond)
		if m := d.open(t, l).marks[StreamJobs]; m.Sequence != 2 {
			t.Errorf("after a second the mark is %+v, want sequence 2", m)
		}
		if _, err := l.Append(t.Context(), all[1].Position, follow(t, all[0].Aggregate, &all[1], waiting(2))); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if m := d.open(t, l).marks[StreamJobs]; m.Sequence != 3 {
			t.Errorf("at the end the mark is %+v, want sequence 3", m)
		}
		if m := d.open(t, l).marks[StreamMoney]; m.Created.IsZero() {
			t.Error("an empty stream has no mark")
		}
	})
}
