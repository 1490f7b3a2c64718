package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/plane"
)

const (
	seller = "fake"
	org    = events.OrgID("bench")
)

// rig is the whole control plane on a real bus with its files on the real disk,
// and a seller that answers at once.
type rig struct {
	dir    string
	bus    *natsbus.Embedded
	log    *natsbus.Log
	store  *dir.Store
	fake   *providertest.Fake
	plane  *plane.Plane
	jobs   *failover.Book
	now    func() events.Moment
	timers events.Timers
	creds  func(name string) (natsbus.Credentials, error)
	close  []func()

	// each, if set, is called with every event of a job or a lease, and the rig remembers none.
	each func(events.Event)

	mu    sync.Mutex
	seen  map[string]events.Event // the newest event of each type, by aggregate and type
	woken chan struct{}
}

// open starts the bus and builds the services. born is called for every machine bought.
func open(dirname string, born func(events.Bootstrap)) (r *rig, err error) {
	clock := trace.NewClock(time.Now(), time.Now(), 1)
	r = &rig{
		dir: dirname, timers: events.DefaultTimers(), seen: map[string]events.Event{}, woken: make(chan struct{}),
		now: func() events.Moment { return clock.Moment(time.Now()) },
	}
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: filepath.Join(dirname, "operator"), Entropy: rand.Reader, Now: time.Now})
	if err != nil {
		return r, err
	}
	r.creds = op.Service
	if r.bus, err = natsbus.Start(natsbus.EmbeddedConfig{Dir: filepath.Join(dirname, "bus"), Listen: true, Operator: op}); err != nil {
		return r, err
	}
	r.close = append(r.close, r.bus.Shutdown)
	services, err := op.Service("services")
	if err != nil {
		return r, err
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: r.bus, Credentials: services, Name: "services", Log: zap.NewNop()})
	if err != nil {
		return r, err
	}
	r.close = append(r.close, nc.Close)
	system, err := op.System("gateway")
	if err != nil {
		return r, err
	}
	pusher, err := natsbus.Connect(natsbus.ConnConfig{Server: r.bus, Credentials: system, Name: "gateway-accounts", Log: zap.NewNop()})
	if err != nil {
		return r, err
	}
	r.close = append(r.close, pusher.Close)
	if r.log, err = natsbus.New(nc, natsbus.Options{Room: r.bus.Room}); err != nil {
		return r, err
	}
	if err := natsbus.Declare(context.Background(), r.log.JetStream(), 1); err != nil {
		return r, err
	}
	if r.store, err = dir.Open(dir.Config{Path: filepath.Join(dirname, "store"), Now: time.Now}); err != nil {
		return r, err
	}
	r.sell(born)
	r.jobs = failover.NewBook(r.log, r.now)
	r.plane, err = plane.New(plane.Config{
		Conn: nc, Log: r.log, Operator: op, Accounts: natsbus.NewAccounts(op, pusher), Store: r.store,
		Grant:   events.StoreGrant{Kind: "dir", Path: filepath.Join(dirname, "store")},
		Sellers: map[string]provider.Provider{seller: provider.Stack(r.fake, provider.StackConfig{Seller: seller, Limit: provider.LimitConfig{PerSecond: 200, Burst: 200}})},
		Clock:   clock, Timers: r.timers, Poll: r.timers.Heartbeat, URL: r.bus.URL(), URLFile: r.bus.URLFile(),
		Org: org, Mark: "sf-bench", Now: time.Now, Version: "bench", Logger: zap.NewNop(),
	})
	return r, err
}

// sell has the model's pools sold at their first price, for ever, by a seller
// whose machines call themselves born at once.
func (r *rig) sell(born func(events.Bootstrap)) {
	offers := trace.Offers(trace.NewModel(1, seller), r.now(), 10*time.Minute)
	for i := range offers {
		offers[i].InStock = nil
	}
	r.fake = providertest.New(providertest.Config{
		Seller: seller, Now: r.now, Offers: offers,
		OnLaunch: func(_ provider.Instance, spec provider.LaunchSpec) {
			var b events.Bootstrap
			if err := json.Unmarshal(spec.UserData, &b); err == nil {
				born(b)
			}
		},
	})
}

// run serves until ctx ends; done tells how it went.
func (r *rig) run(ctx context.Context) (done <-chan error) {
	ended := make(chan error, 1)
	go func() { _ = r.fake.Run(ctx) }()
	go func() {
		_ = r.log.Consume(ctx, events.Subscription{Filters: []string{events.FilterJobs, events.FilterLeases}}, r.note)
	}()
	go func() { ended <- r.plane.Run(ctx) }()
	return ended
}

func (r *rig) stop() {
	for i := len(r.close) - 1; i >= 0; i-- {
		r.close[i]()
	}
	if r.store != nil {
		_ = r.store.Close()
	}
}

// note keeps the newest event of a type.
func (r *rig) note(_ context.Context, e events.Event) error {
	if r.each != nil {
		r.each(e)
		return nil
	}
	row, _ := events.TypeOf(e.Fact)
	key := e.Aggregate.ID + " " + row.Family + "." + row.Event
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[key] = e
	close(r.woken)
	r.woken = make(chan struct{})
	return nil
}

// event returns the newest event of a type of an aggregate, or false.
func (r *rig) event(aggregate, kind string) (events.Event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.seen[aggregate+" "+kind]
	return e, ok
}

// until waits until holds, which is asked after every event.
func (r *rig) until(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		r.mu.Lock()
		woken := r.woken
		r.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		}
	}
}

// submit opens a job that could train for ever.
func (r *rig) submit(ctx context.Context, n int) (events.JobID, error) {
	id := events.JobID(fmt.Sprintf("01bench%019d", n))
	_, err := r.jobs.Submit(ctx, id, failover.Submit{Attribution: events.Attribution{Org: org}, By: "bench", Spec: events.JobSpec{
		Name: fmt.Sprint("job-", n), Run: "train",
		Policy: events.Policy{
			Budget: 1000 * events.Dollar, Checkpoint: events.CheckpointPolicy{Framework: "hf", Signal: "SIGUSR1"},
			Spot: events.SpotPolicy{Mode: events.SpotOnly}, Work: events.Work{Steps: 1 << 30, HoursOnS: map[string]int64{"*": 100 * 3600}},
		},
	}})
	return id, err
}

// must is a value that the test cannot go on without.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
