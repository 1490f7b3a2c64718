package signed_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/checkpoint/store/signed"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

// gateway grants what a signer signs, as the real one does over the bus.
type gateway struct {
	signer checkpoint.Signer
	life   time.Duration
	asked  atomic.Int32 // requests
	given  atomic.Int32 // accesses
}

func (g *gateway) Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error) {
	g.asked.Add(1)
	var all []checkpoint.Access
	for _, o := range objects {
		a, err := g.signer.Sign(ctx, verb, o.Name, o.Size, g.life)
		if err != nil {
			return nil, err
		}
		a.Until = time.Now().Add(g.life)
		all = append(all, a)
		g.given.Add(1)
	}
	return all, nil
}

// rig is a signed store, the service it speaks to, and who grants.
type rig struct {
	*signed.Store
	gateway *gateway
	behind  *s3.Store // with keys
	proxy   *faultproxy.Proxy
}

func open(t *testing.T, server *s3server.Server, life time.Duration) rig {
	t.Helper()
	proxy := faultproxy.Start(t, faultproxy.Config{Target: server.URL})
	behind, err := s3.Open(s3.Config{Bucket: server.Bucket(t), Prefix: "below/here", Endpoint: proxy.URL, Access: server.Access, Secret: server.Secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = behind.Close() })
	g := &gateway{signer: behind, life: life}
	return rig{gateway: g, behind: behind, proxy: proxy}.with(t, g)
}

// with is the rig with another who grants.
func (r rig) with(t *testing.T, g signed.Granter) rig {
	t.Helper()
	s, err := signed.Open(signed.Config{Granter: g, Margin: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r.Store = s
	return r
}

func TestConformance(t *testing.T) {
	server := s3server.Start(t)
	storetest.Check(t, storetest.Config{
		Column: "signed",
		Open:   func(t *testing.T) checkpoint.Store { return open(t, server, time.Hour).Store },
		Faulty: func(t *testing.T) (checkpoint.Store, *faultproxy.Proxy) {
			r := open(t, server, time.Hour)
			return r.Store, r.proxy
		},
		Without: map[storetest.Feature]string{
			storetest.Lists:      "a machine has no right to list",
			storetest.Deletes:    "a machine has no right to delete",
			storetest.Filling:    "filling it takes a right to delete; what a full service says is held under faults",
			storetest.ChecksPuts: "a checksum would have to be signed before there is a body; the engine's hash finds it",
		},
	})
}
