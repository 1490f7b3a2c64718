package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

// lossy opens connections that are cut at the worst moments.
type lossy struct {
	dial    func() (net.Conn, error)
	lostAck atomic.Int64 // so many answers to a publish are cut off before they arrive
	lostAsk atomic.Int64 // so many publishes are cut off before they leave
}

func (l *lossy) InProcessConn() (net.Conn, error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: c, l: l}, nil
}

type lossyConn struct {
	net.Conn
	l *lossy
}

func take(n *atomic.Int64) bool {
	for {
		v := n.Load()
		if v <= 0 {
			return false
		}
		if n.CompareAndSwap(v, v-1) {
			return true
		}
	}
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && bytes.Contains(b[:n], []byte(`{"stream":"JOBS"`)) && take(&c.l.lostAck) {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("HPUB sf.v1.job")) && take(&c.l.lostAsk) {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// cluster runs three servers on loopback ports and returns how to dial each.
func cluster(t *testing.T) []func() (net.Conn, error) {
	t.Helper()
	dir := natsbustest.Dir(t)
	var ports []int
	var routes []*url.URL
	for range 3 {
		p := freePort(t)
		ports = append(ports, p)
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort(loopback, strconv.Itoa(p))})
	}
	var dials []func() (net.Conn, error)
	var servers []*server.Server
	for i, p := range ports {
		o := options(EmbeddedConfig{Dir: filepath.Join(dir, strconv.Itoa(i)), Listen: true}, server.RANDOM_PORT)
		o.ServerName = fmt.Sprint("s", i)
		o.Cluster = server.ClusterOpts{Name: "test", Host: loopback, Port: p}
		o.Routes = routes
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
		dials = append(dials, func() (net.Conn, error) { return net.Dial("tcp", s.Addr().String()) })
	}
	eventually(t, "the cluster has a leader", func() bool {
		leaders := 0
		for _, s := range servers {
			if !s.JetStreamIsCurrent() {
				return false
			}
			if s.JetStreamIsLeader() {
				leaders++
			}
		}
		return leaders == 1
	})
	return dials
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestAppendsEndInExactlyOneEvent runs the same promises on one server and on three.
func TestAppendsEndInExactlyOneEvent(t *testing.T) {
	t.Parallel()
	promises := func(t *testing.T, dials []func() (net.Conn, error)) {
		t.Run("when an acknowledgement is lost", func(t *testing.T) { lostAcknowledgement(t, dials) })
		t.Run("when they are repeated", func(t *testing.T) { repetition(t, dials) })
		t.Run("when many race over lossy connections", func(t *testing.T) { race(t, dials) })
	}
	t.Run("R1", func(t *testing.T) {
		t.Parallel()
		e := startBus(t, EmbeddedConfig{})
		promises(t, declareOn(t, 1, []func() (net.Conn, error){e.InProcessConn}))
	})
	t.Run("R3", func(t *testing.T) {
		t.Parallel()
		promises(t, declareOn(t, 3, cluster(t)))
	})
}

func declareOn(t *testing.T, replicas int, dials []func() (net.Conn, error)) []func() (net.Conn, error) {
	t.Helper()
	l := newLog(t, dial(t, ConnConfig{Server: &lossy{dial: dials[0]}}), Options{Timeout: 2 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		err := Declare(ctx, l.JetStream(), replicas)
		if err == nil {
			return dials
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

func lostAcknowledgement(t *testing.T, dials []func() (net.Conn, error)) {
	for _, tc := range []struct {
		name string
		lose func(*lossy)
	}{
		{"the answer is lost", func(l *lossy) { l.lostAck.Store(1) }},
		{"the request is lost", func(l *lossy) { l.lostAsk.Store(1) }},
		{"the request is lost twice", func(l *lossy) { l.lostAsk.Store(2) }},
		{"the request is lost, then the answer", func(l *lossy) { l.lostAsk.Store(1); l.lostAck.Store(1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cut := &lossy{dial: dials[0]}
			l := newLog(t, dial(t, ConnConfig{Server: cut}), Options{Timeout: 400 * time.Millisecond})
			a := events.JobAggregate(org, events.JobID(events.Token(tc.name)))
			all := grow(t, l, a, 2)
			tc.lose(cut)
			e, err := l.Append(t.Context(), all[1].Position, follow(t, a, &all[1], waiting(2)))
			if err != nil {
				t.Fatal(err)
			}
			if cut.lostAck.Load()+cut.lostAsk.Load() != 0 {
				t.Error("nothing was lost")
			}
			got, err := l.Read(t.Context(), a, 0)
			if err != nil || len(got) != 3 || got[2].Position != e.Position {
				t.Errorf("Read = %v, %v; want three events, the last at %d", ids(got), err, e.Position)
			}
		})
	}
}

// A broker of one refuses a repetition, a cluster calls it a duplicate; two
// different events for one place are refused by both.
func repetition(t *testing.T, dials []func() (net.Conn, error)) {
	l := newLog(t, dial(t, ConnConfig{Server: &lossy{dial: dials[0]}}), Options{})
	a := events.JobAggregate(org, "repeated")
	all := grow(t, l, a, 2)
	for range 2 {
		got, err := l.Append(t.Context(), all[0].Position, follow(t, a, &all[0], waiting(1)))
		if err != nil || got.Position != all[1].Position {
			t.Errorf("the same again = position %d, %v; want %d", got.Position, err, all[1].Position)
		}
	}
	if _, err := l.Append(t.Context(), all[0].Position, follow(t, a, &all[0], waiting(7))); !errors.Is(err, events.ErrConflict) {
		t.Errorf("another in its place: err = %v, want a conflict", err)
	}
	if got, err := l.Read(t.Context(), a, 0); err != nil || len(got) != 2 {
		t.Errorf("Read = %v, %v; want two events", ids(got), err)
	}
}

func TestABusThatIsAwayLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	cut := &lossy{}
	e := startBus(t, EmbeddedConfig{})
	var down atomic.Bool
	cut.dial = func() (net.Conn, error) {
		if down.Load() {
			return nil, errors.New("away")
		}
		return e.InProcessConn()
	}
	declareOn(t, 1, []func() (net.Conn, error){e.InProcessConn})
	l := newLog(t, dial(t, ConnConfig{Server: cut}), Options{Timeout: 100 * time.Millisecond})
	a := events.JobAggregate(org, job)
	first := grow(t, l, a, 1)[0]
	down.Store(true)
	cut.lostAck.Store(1)
	second := follow(t, a, &first, waiting(1))
	if _, err := l.Append(t.Context(), first.Position, second); !errors.Is(err, events.ErrUnknown) {
		t.Fatalf("err = %v, want unknown", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Append(ctx, first.Position, second); !errors.Is(err, events.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: err = %v, want unknown and cancelled", err)
	}
	down.Store(false)
	eventually(t, "the bus is back and says what became of it", func() bool {
		got, err := l.Append(t.Context(), first.Position, second)
		return err == nil && got.Position == 2
	})
}

// Six writers race for one aggregate over connections that keep being cut.
func race(t *testing.T, dials []func() (net.Conn, error)) {
	const writers, each = 6, 12
	a := events.JobAggregate(org, "raced")
	var cuts atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		cut := &lossy{dial: dials[w%len(dials)]}
		l := newLog(t, dial(t, ConnConfig{Server: cut, Name: fmt.Sprint("writer ", w)}), Options{Timeout: 400 * time.Millisecond})
		rng := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for n := range each {
				if rng.IntN(6) == 0 {
					cuts.Add(1)
					cut.lostAck.Store(1)
				} else if rng.IntN(6) == 0 {
					cuts.Add(1)
					cut.lostAsk.Store(1)
				}
				if err := appendOne(t, l, a, events.JobWaiting{Reason: fmt.Sprint(w, "-", n)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	l := newLog(t, dial(t, ConnConfig{Server: &lossy{dial: dials[0]}}), Options{})
	got, err := l.Read(t.Context(), a, 0)
	if err != nil {
		t.Fatal(err)
	}
	stands := map[string]int{}
	for _, e := range got {
		stands[e.Fact.(events.JobWaiting).Reason]++
	}
	if len(got) != writers*each || len(stands) != writers*each || cuts.Load() == 0 {
		t.Errorf("%d events, %d different, %d cuts; want %d of each", len(got), len(stands), cuts.Load(), writers*each)
	}
}

// appendOne is what a service does: read, decide, append, and read again until it knows.
func appendOne(t *testing.T, l *Log, a events.Aggregate, f events.JobWaiting) error {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var all []events.Event
	for ctx.Err() == nil {
		var prev *events.Event
		var after uint64
		if n := len(all); n > 0 {
			prev, after = &all[n-1], all[n-1].Position
		}
		more, err := l.Read(ctx, a, after)
		if errors.Is(err, events.ErrRegressed) {
			return err
		}
		if err != nil {
			continue
		}
		all = append(all, more...)
		for _, e := range more {
			if e.Fact.(events.JobWaiting).Reason == f.Reason {
				return nil
			}
		}
		if n := len(all); n > 0 {
			prev, after = &all[n-1], all[n-1].Position
		}
		_, err = l.Append(ctx, after, follow(t, a, prev, f))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, events.ErrConflict), errors.Is(err, events.ErrUnknown):
		default:
			return err
		}
	}
	return ctx.Err()
}
