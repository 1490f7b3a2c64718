package natsbus

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

func TestStartSaysInOneLineWhatIsWrong(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, dir string, c *EmbeddedConfig)
		want    string
	}{
		{"no directory", func(_ *testing.T, _ string, c *EmbeddedConfig) { c.Dir = "" }, "none given"},
		{"a file in the directory's place", func(t *testing.T, dir string, c *EmbeddedConfig) {
			c.Dir = write(t, filepath.Join(dir, "file"), "x")
		}, "not a directory"},
		{"somebody else's directory", func(t *testing.T, dir string, _ *EmbeddedConfig) { write(t, filepath.Join(dir, "thesis.tex"), "x") }, "holds thesis.tex but no bus.json"},
		{"a mark that cannot be read", func(t *testing.T, dir string, _ *EmbeddedConfig) { write(t, filepath.Join(dir, stateFile), "{") }, "not readable as the mark"},
		{"another product's mark", func(t *testing.T, dir string, _ *EmbeddedConfig) {
			write(t, filepath.Join(dir, stateFile), `{"product":"x","format":1}`)
		}, "not readable as the mark"},
		{"a newer version's directory", func(t *testing.T, dir string, _ *EmbeddedConfig) {
			write(t, filepath.Join(dir, stateFile), `{"product":"spotferry-bus","format":2}`)
		}, "use the newer program"},
		{"a second server on the directory", func(t *testing.T, dir string, _ *EmbeddedConfig) { startBus(t, EmbeddedConfig{Dir: dir}) }, "in use by another process"},
		{"a port that is taken", func(_ *testing.T, _ string, c *EmbeddedConfig) {
			c.Listen, c.Port = true, taken.Addr().(*net.TCPAddr).Port
		}, "is taken: choose another"},
		{"a stream directory that is a file", func(t *testing.T, dir string, _ *EmbeddedConfig) {
			write(t, filepath.Join(dir, stateFile), `{"product":"spotferry-bus","format":1}`)
			write(t, filepath.Join(dir, "jetstream"), "x")
		}, "starting the bus in"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := natsbustest.Dir(t)
			c := EmbeddedConfig{Dir: dir}
			tc.prepare(t, dir, &c)
			e, err := Start(c)
			if err == nil {
				e.Shutdown()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("err = %q, want one line with %q", err, tc.want)
			}
		})
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheBusComesBackWhereItWasAndKeepsItsPort(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(natsbustest.Dir(t), "bus")
	start := func() *Embedded {
		e, err := Start(EmbeddedConfig{Dir: dir, Listen: true})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := start()
	url := e.URL()
	nc := dial(t, ConnConfig{URLFile: e.URLFile()})
	l := newLog(t, nc, Options{Timeout: 500 * time.Millisecond})
	if err := Declare(t.Context(), l.JetStream(), 1); err != nil {
		t.Fatal(err)
	}
	all := grow(t, l, events.JobAggregate(org, job), 3)
	e.Shutdown()

	e = start()
	if e.URL() != url {
		t.Errorf("it listens on %s, before on %s", e.URL(), url)
	}
	read := func() []events.Event {
		var got []events.Event
		eventually(t, "the events can be read again", func() (ok bool) {
			var err error
			got, err = l.Read(t.Context(), events.JobAggregate(org, job), 0)
			return err == nil
		})
		return got
	}
	if got := read(); len(got) != len(all) {
		t.Errorf("%d events, want %d", len(got), len(all))
	}
	e.Shutdown()

	// Somebody takes the port meanwhile: the bus moves, and clients find it by the file.
	squatter, err := net.Listen("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	e = start()
	defer e.Shutdown()
	if e.URL() == url {
		t.Fatal("it has not moved")
	}
	if got := read(); len(got) != len(all) {
		t.Errorf("%d events, want %d", len(got), len(all))
	}
}

func TestDeclareAddsTheSubjectsOfALaterVersion(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	before := table()[0].config(1)
	before.MaxBytes = mib
	before.Name, before.Subjects = "OLDER", []string{"older.job.>", "older.lease.>"}
	if err := declare(t.Context(), l.js, before); err != nil {
		t.Fatal(err)
	}
	if _, err := l.js.Publish(t.Context(), "older.job.a", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	after := before
	after.Subjects = append(slices.Clone(before.Subjects), "older.ops.>")
	if err := declare(t.Context(), l.js, after); err != nil {
		t.Fatal(err)
	}
	if _, err := l.js.Publish(t.Context(), "older.ops.a", nil); err != nil {
		t.Errorf("the added subject is not taken: %v", err)
	}
	s, err := l.js.Stream(t.Context(), "OLDER")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "kept" {
		t.Errorf("what was there: %v, %v", m, err)
	}
	if err := declare(t.Context(), l.js, before); !errors.Is(err, ErrStreamMismatch) {
		t.Errorf("the older version on the newer stream: %v, want a refusal", err)
	}
}

func TestDeclareIsRepeatableAndRefusesByName(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	if err := Declare(t.Context(), l.JetStream(), 1); err != nil {
		t.Errorf("a second time: %v", err)
	}
	s, err := l.JetStream().Stream(t.Context(), StreamLogs)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxBytes = 5 * mib
	if _, err := l.JetStream().UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	err = Declare(t.Context(), l.JetStream(), 1)
	if !errors.Is(err, ErrStreamMismatch) || !strings.Contains(err.Error(), "stream LOGS") || !strings.Contains(err.Error(), "max bytes is 5242880") {
		t.Errorf("err = %v, want a refusal that names stream and setting", err)
	}
}

func TestEveryWriteIsOnDiskBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	_, e := declared(t, Options{})
	if c := e.srv.JetStreamConfig(); c == nil || !c.SyncAlways || c.MaxStore != DefaultMaxStore {
		t.Errorf("the server has %+v", c)
	}
}

func TestTruthCanNeitherBeDeletedNorPurged(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	grow(t, l, events.JobAggregate(org, job), 1)
	for _, name := range TruthStreams() {
		s, err := l.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Purge(t.Context()); err == nil {
			t.Errorf("%s could be purged", name)
		}
		if err := s.DeleteMsg(t.Context(), 1); err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Errorf("a message of %s could be deleted: %v", name, err)
		}
	}
}

func TestAFullBusRefusesAndGoesOnWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	room := error(nil)
	l, _ := declared(t, Options{Room: func() error { return room }})
	a := events.JobAggregate(org, job)
	first := grow(t, l, a, 1)[0]
	second := follow(t, a, &first, waiting(1))
	room = ErrFull
	if _, err := l.Append(t.Context(), first.Position, second); !errors.Is(err, ErrFull) || errors.Is(err, events.ErrUnknown) {
		t.Errorf("Append: err = %v, want full and certain", err)
	}
	if err := l.PutSignal(t.Context(), Place{org, job, 1}, events.Heartbeat{}); !errors.Is(err, ErrFull) {
		t.Errorf("PutSignal: err = %v, want full", err)
	}
	room = nil
	if _, err := l.Append(t.Context(), first.Position, second); err != nil {
		t.Error(err)
	}
}

// The real thing: a disk that is nearly full, and then is not any more.
func TestADiskThatFillsUpRefusesAndGoesOnWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	disk := natsbustest.Dir(t)
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=72m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	e := startBus(t, EmbeddedConfig{Dir: filepath.Join(disk, "bus")})
	l := newLog(t, dial(t, ConnConfig{Server: e}), Options{Room: e.Room})
	if err := Declare(t.Context(), l.JetStream(), 1); err != nil {
		t.Fatal(err)
	}
	all := grow(t, l, events.JobAggregate(org, job), 3)
	ballast := write(t, filepath.Join(disk, "ballast"), strings.Repeat("x", 8<<20))
	next := follow(t, all[0].Aggregate, &all[2], waiting(3))
	if _, err := l.Append(t.Context(), all[2].Position, next); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("err = %v, want full with a remedy", err)
	}
	if _, err := Start(EmbeddedConfig{Dir: filepath.Join(disk, "other")}); !errors.Is(err, ErrFull) {
		t.Errorf("Start: err = %v, want full", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), all[2].Position, next); err != nil {
		t.Error(err)
	}
}

func TestAStreamAtItsLimitIsFullAndKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	e := startBus(t, EmbeddedConfig{})
	l := newLog(t, dial(t, ConnConfig{Server: e}), Options{})
	c := table()[0].config(1)
	c.MaxBytes = 64 << 10
	if _, err := l.JetStream().CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	a := events.JobAggregate(org, job)
	var all []events.Event
	var prev *events.Event
	for after := uint64(0); ; {
		f := events.JobWaiting{Reason: strings.Repeat("x", 4000)}
		e, err := l.Append(t.Context(), after, follow(t, a, prev, f))
		if err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatalf("err = %v, want full", err)
			}
			break
		}
		all = append(all, e)
		prev, after = &e, e.Position
	}
	if got, err := l.Read(t.Context(), a, 0); err != nil || len(got) != len(all) || len(got) < 10 {
		t.Errorf("%d events, %v; want %d", len(got), err, len(all))
	}
}

func TestTooLittleReservedStorageIsFull(t *testing.T) {
	t.Parallel()
	e := startBus(t, EmbeddedConfig{MaxStore: 100 * mib})
	l := newLog(t, dial(t, ConnConfig{Server: e}), Options{})
	if err := Declare(t.Context(), l.JetStream(), 1); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "JOBS") {
		t.Errorf("err = %v, want full, naming JOBS", err)
	}
}

func TestOffersKeepTheNewestAndTheirHistory(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	pool := events.Pool{Seller: "aws", Region: "eu-west-1", Zone: "euw1-az1", InstanceType: "p3.2xlarge", Capacity: events.Spot}
	for i := range 3 {
		e := events.Event{ID: events.EventID(string(rune('a' + i))), Time: epoch0, Fact: events.OfferChanged{Offer: events.Offer{Pool: pool, VCPU: i}}}
		if err := l.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]uint64{StreamOffers: 1, StreamOfferHistory: 3} {
		eventually(t, name, func() bool {
			s, err := l.JetStream().Stream(t.Context(), name)
			return err == nil && s.CachedInfo().State.Msgs == want
		})
	}
}

func TestEveryConnectionEventIsLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	dir := filepath.Join(natsbustest.Dir(t), "bus")
	var bus atomic.Pointer[Embedded]
	start := func() {
		e, err := Start(EmbeddedConfig{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		bus.Store(e)
	}
	start()
	nc := dial(t, ConnConfig{Server: dialer(bus.Load), Log: zap.New(core)})
	bus.Load().Shutdown()
	eventually(t, "the loss is logged", func() bool { return logs.FilterMessage("bus lost").Len() == 1 })
	start()
	eventually(t, "the return is logged", func() bool { return logs.FilterMessage("bus back").Len() == 1 })
	nc.Close()
	bus.Load().Shutdown()
	eventually(t, "the first connection and the end are logged", func() bool {
		return logs.FilterMessage("bus connected").Len() == 1 && logs.FilterMessage("bus closed").Len() == 1
	})
}

func TestRetryConnectsWhenTheBusComesLater(t *testing.T) {
	t.Parallel()
	file := filepath.Join(natsbustest.Dir(t), "url")
	if _, err := Connect(ConnConfig{URLFile: file, Name: "eager"}); err == nil {
		t.Error("it connected to nothing")
	}
	nc := dial(t, ConnConfig{URLFile: file, Name: "patient", Retry: true})
	e := startBus(t, EmbeddedConfig{Listen: true})
	write(t, file, e.URL())
	eventually(t, "it connects", nc.IsConnected)
}

func TestAPipeDeliversWhatWasWrittenBeforeItWasClosed(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	p := newPipe(near)
	for range 3 {
		if _, err := p.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan error, 1)
	go func() {
		_, err := p.Read(make([]byte, 1))
		read <- err
	}()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a reader got %v", err)
	}
	got := make([]byte, 0, 9)
	for buf := make([]byte, 4); ; {
		n, err := far.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			break
		}
	}
	if string(got) != "abcabcabc" {
		t.Errorf("the other side got %q", got)
	}
	if _, err := p.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing after: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func TestAPipeToSomebodyWhoDoesNotReadCanBeClosed(t *testing.T) {
	natsbustest.Bubble(t, func(t *testing.T) { // which ends only if the pump does
		near, far := net.Pipe()
		defer far.Close()
		p := newPipe(near)
		if _, err := p.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
