package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/nats"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bus is an embedded server with all streams of an installation.
func bus(t *testing.T) *natsbus.Embedded {
	t.Helper()
	e, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: filepath.Join(natsbustest.Dir(t), "bus"), MaxStore: 32 << 30})
	must(t, err)
	t.Cleanup(e.Shutdown)
	return e
}

func dial(t *testing.T, e natsbus.InProcess) *gonats.Conn {
	t.Helper()
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: e, Name: "test"})
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func open(t *testing.T, nc *gonats.Conn, cfg nats.Config) *nats.Store {
	t.Helper()
	s, err := nats.Open(t.Context(), nc, cfg)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestConformance(t *testing.T) {
	nc := dial(t, bus(t))
	var n atomic.Int64
	fresh := func(most int64) func(*testing.T) checkpoint.Store {
		return func(t *testing.T) checkpoint.Store {
			return open(t, nc, nats.Config{Bucket: fmt.Sprintf("bucket-%d", n.Add(1)), MaxBytes: most})
		}
	}
	storetest.Check(t, storetest.Config{Column: "nats", Open: fresh(64 << 20), Full: fresh(1 << 20),
		Without: map[storetest.Feature]string{storetest.Faults: "it does not speak HTTP; see TestLostAnswer and TestDamage"}})
}

// TestRaces: twenty races of eight writers, each on a connection of its own.
func TestRaces(t *testing.T) {
	t.Parallel()
	e := bus(t)
	var stores []*nats.Store
	for range 8 {
		stores = append(stores, open(t, dial(t, e), nats.Config{MaxBytes: 64 << 20}))
	}
	for race := range 20 {
		name := fmt.Sprintf("v1/race/%d", race)
		var winner atomic.Pointer[[]byte]
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() {
				data := bytes.Repeat([]byte{byte(i)}, 100_000)
				switch err := s.Put(t.Context(), name, bytes.NewReader(data), int64(len(data))); {
				case err == nil:
					if winner.Swap(&data) != nil {
						t.Errorf("race %d has two winners", race)
					}
				case !errors.Is(err, checkpoint.ErrExists):
					t.Errorf("race %d: a loser got %v", race, err)
				}
			})
		}
		wg.Wait()
		if got, err := read(t.Context(), stores[race%8], name); winner.Load() == nil || err != nil || !bytes.Equal(got, *winner.Load()) {
			t.Errorf("race %d: the object is not what the winner put: %v", race, err)
		}
	}
	if n := chunks(t, dial(t, e)); n != 20 {
		t.Errorf("chunks of %d objects are left, want the winners'", n)
	}
}

func read(ctx context.Context, s checkpoint.Store, name string) ([]byte, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// chunks counts the objects that have chunks in the default bucket.
func chunks(t *testing.T, nc *gonats.Conn) int {
	t.Helper()
	js, err := jetstream.New(nc)
	must(t, err)
	stream, err := js.Stream(t.Context(), "OBJ_"+nats.DefaultBucket)
	must(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$O."+nats.DefaultBucket+".C.>"))
	must(t, err)
	return len(info.State.Subjects)
}

// TestOtherClients: NATS' own tools read what is here, and what they delete is
// gone and can be put again.
func TestOtherClients(t *testing.T) {
	t.Parallel()
	nc := dial(t, bus(t))
	s := open(t, nc, nats.Config{})
	js, err := jetstream.New(nc)
	must(t, err)
	theirs, err := js.ObjectStore(t.Context(), nats.DefaultBucket)
	must(t, err)

	data := storetest.Content(3<<20 + 7)
	must(t, s.Put(t.Context(), "v1/a", bytes.NewReader(data), int64(len(data))))
	if got, err := theirs.GetBytes(t.Context(), "v1/a"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("their client gets %d bytes, %v", len(got), err)
	}
	must(t, theirs.Delete(t.Context(), "v1/a"))
	if _, err := s.Stat(t.Context(), "v1/a"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Stat of what they deleted = %v", err)
	}
	must(t, s.Delete(t.Context(), "v1/a"))
	must(t, s.Put(t.Context(), "v1/a", strings.NewReader("again"), 5))
	if got, err := read(t.Context(), s, "v1/a"); err != nil || string(got) != "again" {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = theirs.PutBytes(t.Context(), "v1/theirs", []byte("x"))
	must(t, err)
	if _, err := s.Stat(t.Context(), "v1/theirs"); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Stat of what they put = %v, want ErrCorrupt", err)
	}
	if err := s.Put(t.Context(), "v1/theirs", strings.NewReader("x"), 1); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("Put over what they put = %v", err)
	}
	must(t, s.Delete(t.Context(), "v1/theirs"))
	if n := chunks(t, nc); n != 1 {
		t.Errorf("chunks of %d objects are left", n)
	}
}

// TestSweep: chunks of a writer that died go when they are old, and no others.
func TestSweep(t *testing.T) {
	t.Parallel()
	nc := dial(t, bus(t))
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := open(t, nc, nats.Config{Now: now})
	must(t, s.Put(t.Context(), "v1/a", strings.NewReader("content"), 7))
	js, err := jetstream.New(nc)
	must(t, err)
	for range 3 {
		_, err := js.Publish(t.Context(), "$O."+nats.DefaultBucket+".C.dead", make([]byte, 1000))
		must(t, err)
	}
	for _, tc := range []struct {
		after        time.Duration
		swept, there int
	}{{0, 0, 2}, {59 * time.Minute, 0, 2}, {61 * time.Minute, 1, 1}, {62 * time.Minute, 0, 1}} {
		later.Store(int64(tc.after))
		n, err := s.Sweep(t.Context())
		if must(t, err); n != tc.swept || chunks(t, nc) != tc.there {
			t.Errorf("after %v %d swept, want %d; %d left, want %d", tc.after, n, tc.swept, chunks(t, nc), tc.there)
		}
	}
	if got, err := read(t.Context(), s, "v1/a"); err != nil || string(got) != "content" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestBesideTheStreams: the default bucket fits into an embedded bus beside all
// streams of an installation.
func TestBesideTheStreams(t *testing.T) {
	t.Parallel()
	e, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: filepath.Join(natsbustest.Dir(t), "bus")})
	must(t, err)
	t.Cleanup(e.Shutdown)
	nc := dial(t, e)
	js, err := jetstream.New(nc)
	must(t, err)
	must(t, natsbus.Declare(t.Context(), js, 1))
	open(t, nc, nats.Config{})
	if _, err := nats.Open(t.Context(), nc, nats.Config{Bucket: "another"}); !errors.Is(err, checkpoint.ErrNoSpace) {
		t.Errorf("a bucket that does not fit = %v, want ErrNoSpace", err)
	}
}

// TestVirtualTime runs the store and its server in a bubble.
func TestVirtualTime(t *testing.T) {
	natsbustest.Bubble(t, func(t *testing.T) {
		nc := dial(t, bus(t))
		var n int
		s := open(t, nc, nats.Config{MaxBytes: 64 << 20, ID: func() string { n++; return fmt.Sprint(n) }})
		start := time.Now()
		data := storetest.Content(5<<20 + 1)
		must(t, s.Put(t.Context(), "v1/a", bytes.NewReader(data), int64(len(data))))
		if err := s.Put(t.Context(), "v1/a", strings.NewReader("x"), 1); !errors.Is(err, checkpoint.ErrExists) {
			t.Errorf("Put = %v", err)
		}
		if got, err := read(t.Context(), s, "v1/a"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %v of virtual time", d)
		}
		// A reader that takes too long: what it put so far must not stay.
		slow := io.LimitReader(slowly(31*time.Minute), 3<<20)
		if err := s.Put(t.Context(), "v1/slow", slow, 3<<20); err == nil {
			t.Error("a put of 93 minutes succeeded")
		}
		if c := chunks(t, nc); c != 1 {
			t.Errorf("chunks of %d objects are left", c)
		}
	})
}

// slowly takes a time for every read.
type slowly time.Duration

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Duration(s)) // virtual
	return len(p), nil
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]nats.Config{
		"more than 2 GiB": {MaxBytes: 3 << 30}, "less than nothing": {MaxBytes: -1}, "six replicas": {Replicas: 6},
		"a sweep sooner than a put": {StaleAfter: time.Second},
	} {
		if cfg.Validate() == nil {
			t.Errorf("Validate accepted %s", name)
		}
	}
}
