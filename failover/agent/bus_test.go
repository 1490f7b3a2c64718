package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"go.uber.org/zap/zaptest"

	"github.com/spotferry/spotferry/events"
)

// bus starts a plain server on a free port. The returned function ends it.
func bus(t *testing.T, o server.Options) (*server.Server, func()) {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	var once sync.Once
	stop := func() { once.Do(func() { s.Shutdown(); s.WaitForShutdown() }) }
	t.Cleanup(stop)
	return s, stop
}

// answers serves every verb of a job's agents with fixed replies, and keeps what was asked.
type answers struct {
	mu    sync.Mutex
	asked map[string][]byte
	nc    *nats.Conn
}

func answer(t *testing.T, url string, replies map[events.Verb]any) *answers {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	a := &answers{asked: map[string][]byte{}, nc: nc}
	_, err = nc.Subscribe("agent.*.*.*", func(m *nats.Msg) {
		a.mu.Lock()
		a.asked[m.Subject] = m.Data
		a.mu.Unlock()
		_, _, verb, err := events.ParseAgentSubject(m.Subject)
		if err != nil {
			return
		}
		reply, ok := replies[verb]
		if !ok {
			reply = events.Reply{}
		}
		if raw, ok := reply.([]byte); ok {
			_ = m.Respond(raw)
			return
		}
		data, _ := json.Marshal(reply)
		_ = m.Respond(data)
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *answers) get(subject string) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[subject]
}

func bootstrap(url string) events.Bootstrap {
	return events.Bootstrap{Job: "j", Epoch: 3, Lease: "j-3-1", URL: url, Timers: events.DefaultTimers().Divide(50)}
}

func openBus(t *testing.T, b events.Bootstrap) *Bus {
	t.Helper()
	c, err := OpenBus(BusConfig{Bootstrap: b, Entropy: bytes.NewReader(bytes.Repeat([]byte{7}, 64)), Log: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestBusAsksOnTheSubjectsOfItsEpoch(t *testing.T) {
	s, _ := bus(t, server.Options{})
	gw := answer(t, s.ClientURL(), map[events.Verb]any{
		events.VerbJoin:   events.JoinReply{Org: "acme"},
		events.VerbRenew:  events.RenewReply{Order: events.OrderSave, OrderID: "save-1", PaidFor: time.Minute},
		events.VerbCommit: events.Reply{Refusal: &events.Refusal{Code: events.RefusedFenced, Message: "over"}},
		events.VerbReject: []byte("not json"),
	})
	c := openBus(t, bootstrap(s.ClientURL()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	err := persist(ctx, time.Second, func(ctx context.Context) error { // it connects in the background
		j, err := c.Join(ctx, events.JoinRequest{Lease: "j-3-1", Host: events.Host{OS: "linux"}})
		if err == nil && j.Org != "acme" {
			t.Errorf("join = %+v", j)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var join events.JoinRequest
	if err := json.Unmarshal(gw.get("agent.j.3.join"), &join); err != nil || !nkeys.IsValidPublicUserKey(join.Key) || join.Lease != "j-3-1" {
		t.Errorf("asked to join with %+v, %v", join, err)
	}
	var r events.RenewReply
	if err := persist(ctx, time.Second, func(ctx context.Context) (err error) {
		r, err = c.Renew(ctx, events.Heartbeat{Lease: "j-3-1", Step: 12, State: "training"})
		return err
	}); err != nil || r.OrderID != "save-1" || r.PaidFor != time.Minute {
		t.Errorf("renew = %+v, %v", r, err)
	}
	if err := c.Commit(ctx, events.CommitRequest{}); !refused(err, events.RefusedFenced) {
		t.Errorf("commit = %v", err)
	}
	if err := c.Reject(ctx, events.RejectRequest{}); err == nil || final(err) {
		t.Errorf("an answer that is not JSON = %v", err)
	}
	for verb, err := range map[string]error{"notice": c.Notice(ctx, events.NoticeRequest{Action: "stop"}), "done": c.Done(ctx, events.DoneRequest{Code: 4}), "log": c.Log(ctx, events.LogBatch{First: 9})} {
		if err != nil || gw.get("agent.j.3."+verb) == nil {
			t.Errorf("%s = %v", verb, err)
		}
	}
	if err := gw.nc.Publish(events.DownSubject("j", 3), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Hints():
	case <-ctx.Done():
		t.Error("a push gave no hint")
	}
	if err := c.Adopt(4, ""); err != nil {
		t.Fatal(err)
	}
	if err := persist(ctx, time.Second, func(ctx context.Context) error { return c.Done(ctx, events.DoneRequest{}) }); err != nil || gw.get("agent.j.4.done") == nil {
		t.Errorf("after going over to the next epoch: %v", err)
	}
}

func TestBusFollowsAServerToAnotherPort(t *testing.T) {
	first, stop := bus(t, server.Options{})
	file := filepath.Join(t.TempDir(), "bus.url")
	write := func(url string) {
		if err := os.WriteFile(file, []byte(url+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(first.ClientURL())
	answer(t, first.ClientURL(), nil)
	b := bootstrap("nats://127.0.0.1:1") // nobody is there; the file wins
	b.URLFile = file
	c := openBus(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := func() error {
		return persist(ctx, time.Second, func(ctx context.Context) error { return c.Done(ctx, events.DoneRequest{}) })
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
	stop()
	short, end := context.WithTimeout(ctx, 50*time.Millisecond) // it may have been sent to the dying server
	defer end()
	if err := c.Done(short, events.DoneRequest{}); err == nil {
		t.Error("answered without a server")
	}
	second, _ := bus(t, server.Options{})
	gw := answer(t, second.ClientURL(), nil)
	if gw.get("agent.j.3.done") != nil {
		t.Fatal("asked too early")
	}
	write(second.ClientURL())
	began := time.Now()
	if err := done(); err != nil {
		t.Fatal(err)
	}
	t.Logf("back after %v", time.Since(began))
}

func TestBusKeepsNothingForLater(t *testing.T) {
	s, stop := bus(t, server.Options{})
	url, port := s.ClientURL(), s.Addr().(*net.TCPAddr).Port
	answer(t, url, nil)
	c := openBus(t, bootstrap(url))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := persist(ctx, time.Second, func(ctx context.Context) error { return c.Done(ctx, events.DoneRequest{}) }); err != nil {
		t.Fatal(err)
	}
	stop()
	eventually(t, "the connection is lost", func() bool { return !c.conn.IsConnected() })
	began := time.Now()
	if err := c.Commit(ctx, events.CommitRequest{}); err == nil || time.Since(began) > time.Second {
		t.Errorf("commit = %v after %v: it must not wait for a connection", err, time.Since(began))
	}
	again, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	again.Start()
	t.Cleanup(func() { again.Shutdown(); again.WaitForShutdown() })
	if !again.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	gw := answer(t, url, nil)
	if err := persist(ctx, time.Second, func(ctx context.Context) error { return c.Done(ctx, events.DoneRequest{}) }); err != nil {
		t.Fatal(err)
	}
	if gw.get("agent.j.3.commit") != nil {
		t.Error("a commit arrived late")
	}
}

func TestBusSurvivesRefusedCredentials(t *testing.T) {
	s, _ := bus(t, server.Options{Username: "u", Password: "p"})
	var tries atomic.Int64
	c, err := OpenBus(BusConfig{Bootstrap: bootstrap(s.ClientURL()), Entropy: bytes.NewReader(make([]byte, 64)),
		Dial: func(address string) (net.Conn, error) {
			tries.Add(1)
			return net.Dial("tcp", address)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	// Two equal refusals would close it by default.
	eventually(t, "tried five times", func() bool { return tries.Load() >= 5 })
	if c.conn.IsClosed() {
		t.Error("given up for ever")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Done(ctx, events.DoneRequest{}); err == nil {
		t.Error("answered")
	}
}

func TestBusInABubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, StoreDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Subscribe("agent.>", func(m *nats.Msg) { _ = m.Respond([]byte(`{}`)) }); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		c, err := OpenBus(BusConfig{Bootstrap: bootstrap("nats://bubble:4222"), Entropy: bytes.NewReader(make([]byte, 64)),
			Dial: func(string) (net.Conn, error) { return s.InProcessConn() }})
		if err != nil {
			t.Fatal(err)
		}
		err = persist(t.Context(), time.Second, func(ctx context.Context) error { return c.Done(ctx, events.DoneRequest{}) })
		if err != nil {
			t.Error(err)
		}
		c.Close()
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
}

func TestOpenBusRefuses(t *testing.T) {
	good := bootstrap("nats://127.0.0.1:1")
	for name, cfg := range map[string]BusConfig{
		"no entropy":       {Bootstrap: good},
		"too little of it": {Bootstrap: good, Entropy: bytes.NewReader(nil)},
		"no address":       {Bootstrap: bootstrap(""), Entropy: bytes.NewReader(make([]byte, 64))},
		"a token without a user": {Entropy: bytes.NewReader(make([]byte, 64)), Bootstrap: func() events.Bootstrap {
			b := good
			b.Token = "canary"
			return b
		}()},
	} {
		if _, err := OpenBus(cfg); err == nil || bytes.Contains([]byte(err.Error()), []byte("canary")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
