package natsbus

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

const (
	org = events.OrgID("acme")
	job = events.JobID("01j00000000000000000000000")
)

var epoch0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// startBus runs an embedded server without accounts for one test.
func startBus(t *testing.T, c EmbeddedConfig) *Embedded {
	t.Helper()
	if c.Dir == "" {
		c.Dir = filepath.Join(natsbustest.Dir(t), "bus")
	}
	e, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Shutdown)
	return e
}

func dial(t *testing.T, c ConnConfig) *nats.Conn {
	t.Helper()
	if c.Name == "" {
		c.Name = "test"
	}
	nc, err := Connect(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func newLog(t *testing.T, nc *nats.Conn, o Options) *Log {
	t.Helper()
	l, err := New(nc, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// declared is a Log on a fresh embedded bus.
func declared(t *testing.T, o Options) (*Log, *Embedded) {
	t.Helper()
	e := startBus(t, EmbeddedConfig{})
	l := newLog(t, dial(t, ConnConfig{Server: e}), o)
	if err := Declare(t.Context(), l.JetStream(), 1); err != nil {
		t.Fatal(err)
	}
	return l, e
}

func openOperator(t *testing.T, dir string, entropy io.Reader) *Operator {
	t.Helper()
	o, err := OpenOperator(OperatorConfig{Dir: filepath.Join(dir, "operator"), Entropy: entropy, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// follow makes the event behind prev, complete enough to travel.
func follow(t testing.TB, a events.Aggregate, prev *events.Event, f events.Fact) events.Event {
	t.Helper()
	e, err := events.Follow(a, prev, f)
	if err != nil {
		t.Fatal(err)
	}
	e.Source, e.Time, e.Correlation = "/spotferry/test", epoch0, a.ID
	return e
}

// waiting is a fact that differs by n.
func waiting(n int) events.JobWaiting { return events.JobWaiting{Reason: fmt.Sprint("reason ", n)} }

// grow appends n events to an aggregate that has none.
func grow(t testing.TB, l *Log, a events.Aggregate, n int) []events.Event {
	t.Helper()
	var out []events.Event
	var prev *events.Event
	var after uint64
	for i := range n {
		e, err := l.Append(context.Background(), after, follow(t, a, prev, waiting(i)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
		prev, after = &out[len(out)-1], e.Position
	}
	return out
}

// ids tells events apart: id, position and content.
func ids(all []events.Event) []string {
	var out []string
	for _, e := range all {
		hash, err := e.Hash()
		out = append(out, fmt.Sprint(e.ID, " at ", e.Position, " ", hash, err))
	}
	return out
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
