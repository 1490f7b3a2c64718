package simtest

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/remote"
	"github.com/spotferry/spotferry/events/natsbus"
)

// sells is the seller as a program of its own: it outlives every control plane,
// and is reached over the bus.
func (w *world) sells() {
	for n := 0; w.ctx.Err() == nil; n++ {
		turn("seller-start")
		nc, err := w.sellerConn(n)
		if err == nil {
			err = remote.Serve(w.ctx, nc, provider.Stack(w.journal, provider.StackConfig{Seller: sellerName}), remote.ServerConfig{
				Seller: sellerName, Log: w.log.Named("seller"), Registerer: prometheus.NewRegistry(),
			})
		}
		if err != nil {
			w.trace("the seller's program ended: %v", err)
		}
		sleep(w.ctx, 2*time.Second)
	}
}

func (w *world) sellerConn(n int) (*nats.Conn, error) {
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: w.path("operator"), Entropy: w.chance.entropy("seller", n), Now: time.Now})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint("seller-", n)
	creds, err := op.Service(name)
	if err != nil {
		return nil, err
	}
	return natsbus.Connect(natsbus.ConnConfig{Server: newLink(w.current), Credentials: creds, Name: name, Log: w.log.Named("seller-bus")})
}

// road is how a control plane reaches the seller: beside it, or over its own connection.
func (l *life) road(nc *nats.Conn) (provider.Provider, error) {
	w := l.w
	if !w.far {
		return wishes{provider.Stack(w.journal, provider.StackConfig{Seller: sellerName}), w}, nil
	}
	c, err := remote.NewClient(nc, sellerName, remote.ClientConfig{})
	if err != nil {
		return nil, err
	}
	return wishes{provider.Stack(c, provider.StackConfig{Seller: sellerName}), w}, nil
}
