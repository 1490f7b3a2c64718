// Package remotetest puts a seller in another place: on a bus inside the test, as
// everyone else sees it.
package remotetest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/remote"
)

// Far is p as it is seen over NATS, until the test ends.
func Far(t *testing.T, seller string, p provider.Provider) *remote.Client {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the bus did not start")
	}
	dial := func() *nats.Conn {
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	theirs, ours := dial(), dial()
	ctx, cancel := context.WithCancel(context.Background()) // the test's own ends before the cleanups
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- remote.Serve(ctx, theirs, p, remote.ServerConfig{Seller: seller, Ready: func() { close(ready) }})
	}()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("Serve = %v before it was ready", err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	c, err := remote.NewClient(ours, seller, remote.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}
