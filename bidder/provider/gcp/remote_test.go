package gcp_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote"
)

// The contract once more, with the adapter in another process, as it is but in tests.
func TestKeepsTheContractOverNATS(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		p := open(t, world{})
		h := p.harness()
		h.Seller = overTheBus(t, provider.Typed(p.client))
		return h
	})
}

// overTheBus is a seller in another place.
func overTheBus(t *testing.T, p provider.Provider) provider.Provider {
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
	ctx, cancel := context.WithCancel(context.Background()) // ends with the test, before the connections
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- remote.Serve(ctx, theirs, p, remote.ServerConfig{Seller: "gcp", Ready: func() { close(ready) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("Serve = %v before it was ready", err)
	}
	c, err := remote.NewClient(ours, "gcp", remote.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}
