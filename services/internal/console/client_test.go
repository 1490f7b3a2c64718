package console

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func deref(p any) events.Fact { return reflect.ValueOf(p).Elem().Interface() }

// bus is a NATS server in this process, without a port.
func bus(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true, MaxPayload: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestAskingOverTheBus(t *testing.T) {
	nc := bus(t)
	d := newDesk(t)
	d.live()
	client := NewClient(nc, Admin, "ann")
	if _, err := Ask[Clock](t.Context(), client, GetClock, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("before anybody serves: %v", err)
	}
	d.cfg.Health = func(context.Context) []Check { return []Check{{Detail: strings.Repeat("x", 70<<10)}} }
	stopped := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	d.serve(func() {
		go func() { stopped <- d.server.Serve(ctx, nc) }()
		<-d.server.Listening()
		if c, err := Ask[Clock](t.Context(), client, GetClock, nil); err != nil || c.Version != "1.2.3" {
			t.Errorf("%+v, %v", c, err)
		}
		var p *Problem
		if _, err := Ask[Job](t.Context(), client, GetJob, Query{Job: "nobody"}); !errors.As(err, &p) || p.Code != "not-found" {
			t.Errorf("%v", err)
		}
		if _, err := Ask[[]Check](t.Context(), client, GetHealth, nil); !errors.As(err, &p) || !strings.Contains(p.Message, "longer") {
			t.Errorf("an answer that the bus does not carry: %v", err)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("asked to stop: %v", err)
		}
	})
}

// TestABusThatIsAwayIsUnreachable with connections as natsbus makes them, which buffer nothing.
func TestABusThatIsAwayIsUnreachable(t *testing.T) {
	s, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: s, Name: "cli"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client := NewClient(nc, Viewer, "ann")
	for range 2 {
		if _, err := Ask[Clock](t.Context(), client, GetClock, nil); !errors.Is(err, ErrUnreachable) {
			t.Errorf("connected %v: %v", nc.IsConnected(), err)
		}
		s.Shutdown()
		for nc.IsConnected() {
			time.Sleep(time.Millisecond)
		}
	}
}

func TestAServerWhoseConnectionEndsSaysSo(t *testing.T) {
	nc := bus(t)
	d := newDesk(t)
	s := New(d.cfg)
	stopped := make(chan error)
	go func() { stopped <- s.Serve(t.Context(), nc) }()
	<-s.Listening()
	nc.Close()
	if err := <-stopped; !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		t.Errorf("%v", err)
	}
}
