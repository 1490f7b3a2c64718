package remote_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote"
	"github.com/spotferry/spotferry/events"
)

// bus starts a NATS server inside the test's bubble and returns two connections to it.
func bus(t *testing.T) (sellerSide, buyerSide *nats.Conn) {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the bus did not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	dial := func() *nats.Conn {
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	return dial(), dial()
}

// serve puts p on the bus until the test ends, and returns a way to end it sooner.
func serve(t *testing.T, nc *nats.Conn, p provider.Provider, cfg remote.ServerConfig) (stop func()) {
	t.Helper()
	cfg.Seller = "fake"
	ready := make(chan struct{})
	cfg.Ready = func() { close(ready) }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- remote.Serve(ctx, nc, p, cfg) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("Serve = %v before it was ready", err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func dial(t *testing.T, nc *nats.Conn, cfg remote.ClientConfig) *remote.Client {
	t.Helper()
	c, err := remote.NewClient(nc, "fake", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func moment() events.Moment { return events.Moment{Control: time.Now(), Market: time.Now()} }

var offer = providertest.SampleOffer("fake", "us-west-2", events.DollarPerHour)

func fake(cfg providertest.Config) *providertest.Fake {
	cfg.Now, cfg.Offers = moment, []events.Offer{offer}
	return providertest.New(cfg)
}

func TestRemoteKeepsTheContract(t *testing.T) {
	providertest.RunInBubble(t, func(t *testing.T) providertest.Harness {
		f := fake(providertest.Config{Buy: 3 * time.Second, Visible: 10 * time.Second})
		near, far := bus(t)
		serve(t, near, f, remote.ServerConfig{})
		c := dial(t, far, remote.ClientConfig{})
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return providertest.FakeHarness(f, func(provider.Provider) provider.Provider { return c })
	})
}

func TestRemoteThroughBothStacksKeepsTheContract(t *testing.T) {
	providertest.RunInBubble(t, func(t *testing.T) providertest.Harness {
		f := fake(providertest.Config{Buy: 3 * time.Second})
		near, far := bus(t)
		serve(t, near, provider.Stack(f, provider.StackConfig{Seller: "fake"}), remote.ServerConfig{})
		c := dial(t, far, remote.ClientConfig{})
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return providertest.FakeHarness(f, func(provider.Provider) provider.Provider {
			return provider.Stack(c, provider.StackConfig{Seller: "fake"})
		})
	})
}

func bubble(t *testing.T, name string, check func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, check) })
}

func kind(t *testing.T, err error, want provider.Kind) *provider.Error {
	t.Helper()
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Kind != want {
		t.Fatalf("error %v, want kind %s", err, want)
	}
	return e
}

func TestWhatHappensOnTheWay(t *testing.T) {
	bubble(t, "nobody listening means not sent", func(t *testing.T) {
		_, far := bus(t)
		c := dial(t, far, remote.ClientConfig{})
		_, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-1")
		if e := kind(t, err, provider.Transient); e.MaybeCreated || !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("maybe created %v, %v; want false and no responders", e.MaybeCreated, err)
		}
	})
	bubble(t, "a bus that is down means not sent", func(t *testing.T) {
		_, far := bus(t)
		c := dial(t, far, remote.ClientConfig{})
		far.Close()
		_, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-1")
		if e := kind(t, err, provider.Transient); e.MaybeCreated {
			t.Error("a launch that never left says that something may exist")
		}
	})
	bubble(t, "a launch nobody answers is unknown, a list is transient", func(t *testing.T) {
		f := fake(providertest.Config{})
		near, far := bus(t)
		serve(t, near, f, remote.ServerConfig{Launch: time.Hour})
		c := dial(t, far, remote.ClientConfig{Launch: 10 * time.Minute, Other: 20 * time.Second})
		f.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Hang})
		f.Script(provider.OpList, providertest.Fault{Mode: providertest.Hang})
		start := time.Now()
		_, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-1")
		e := kind(t, err, provider.UnknownOutcome)
		if took := time.Since(start); took != 10*time.Minute || !e.MaybeCreated || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v, maybe created %v", took, err, e.MaybeCreated)
		}
		_, err = c.List(t.Context())
		kind(t, err, provider.Transient)
	})
	bubble(t, "a launch goes on when its caller gives up, and a repeat joins it", func(t *testing.T) {
		f := fake(providertest.Config{Buy: 4 * time.Minute})
		near, far := bus(t)
		serve(t, near, f, remote.ServerConfig{})
		c := dial(t, far, remote.ClientConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Launch(ctx, providertest.SampleSpec(offer), "a-1-1")
		kind(t, err, provider.UnknownOutcome)
		start := time.Now()
		i, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-1")
		if err != nil || i.Token != "a-1-1" {
			t.Fatalf("the repeat gave %+v, %v", i, err)
		}
		if took := time.Since(start); took > 3*time.Minute || f.Calls(provider.OpLaunch) != 1 {
			t.Errorf("it took %s and %d calls of the seller; want the rest of the first, and 1", took, f.Calls(provider.OpLaunch))
		}
	})
	bubble(t, "launches do not wait for each other", func(t *testing.T) {
		f := fake(providertest.Config{Buy: 3 * time.Minute})
		near, far := bus(t)
		serve(t, near, f, remote.ServerConfig{})
		c := dial(t, far, remote.ClientConfig{})
		start := time.Now()
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				if _, err := c.Launch(t.Context(), providertest.SampleSpec(offer), fmt.Sprintf("a-1-%d", n+1)); err != nil {
					t.Error(err)
				}
			})
		}
		if _, err := c.List(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("a list beside them: %v after %s", err, time.Since(start))
		}
		all.Wait()
		if took := time.Since(start); took > 4*time.Minute {
			t.Errorf("20 launches of 3 minutes took %s", took)
		}
	})
	bubble(t, "more calls than the server runs are throttled, not queued", func(t *testing.T) {
		f := fake(providertest.Config{Buy: time.Minute})
		near, far := bus(t)
		serve(t, near, f, remote.ServerConfig{Parallel: 2})
		c := dial(t, far, remote.ClientConfig{})
		var all sync.WaitGroup
		for n := range 2 {
			all.Go(func() { _, _ = c.Launch(t.Context(), providertest.SampleSpec(offer), fmt.Sprintf("a-1-%d", n+1)) })
		}
		synctest.Wait()
		_, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-9")
		if e := kind(t, err, provider.Throttled); e.RetryAfter != time.Second || e.MaybeCreated {
			t.Errorf("refused with %+v", e)
		}
		all.Wait()
	})
	bubble(t, "a server that stops cuts its launches off as unknown", func(t *testing.T) {
		f := fake(providertest.Config{Buy: time.Hour})
		near, far := bus(t)
		stop := serve(t, near, f, remote.ServerConfig{Launch: 2 * time.Hour})
		c := dial(t, far, remote.ClientConfig{Launch: 2 * time.Hour})
		go func() { time.Sleep(time.Minute); stop() }()
		_, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-1")
		if e := kind(t, err, provider.UnknownOutcome); !e.MaybeCreated {
			t.Error("cut off, and sure that nothing exists")
		}
	})
	bubble(t, "an adapter that panics is an answer, and the next call works", func(t *testing.T) {
		near, far := bus(t)
		serve(t, near, panicky{fake(providertest.Config{})}, remote.ServerConfig{})
		c := dial(t, far, remote.ClientConfig{})
		_, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-1")
		if e := kind(t, err, provider.UnknownOutcome); e.Code != "panic" || !e.MaybeCreated {
			t.Errorf("got %+v", e)
		}
		if _, err := c.List(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type panicky struct{ *providertest.Fake }

func (panicky) Launch(context.Context, provider.LaunchSpec, string) (provider.Instance, error) {
	panic("index out of range")
}

func TestThousandsOfOffersArriveInPages(t *testing.T) {
	bubble(t, "5000 offers", func(t *testing.T) {
		f := fake(providertest.Config{})
		for n := range 5000 {
			o := offer
			o.Pool.Zone = fmt.Sprintf("zone-%04d", n)
			f.Put(o)
		}
		near, far := bus(t)
		serve(t, near, f, remote.ServerConfig{})
		got, err := dial(t, far, remote.ClientConfig{}).Offers(t.Context())
		if err != nil || len(got) != 5001 {
			t.Fatalf("%d offers, %v; want 5001", len(got), err)
		}
		seen := map[events.Pool]bool{}
		for _, o := range got {
			seen[o.Pool] = true
		}
		if len(seen) != 5001 {
			t.Errorf("%d different pools, want 5001", len(seen))
		}
	})
	bubble(t, "user data beyond a message is refused before it is sent", func(t *testing.T) {
		near, far := bus(t)
		f := fake(providertest.Config{})
		serve(t, near, f, remote.ServerConfig{})
		spec := providertest.SampleSpec(offer)
		spec.UserData = []byte(strings.Repeat("x", 1<<20))
		_, err := dial(t, far, remote.ClientConfig{}).Launch(t.Context(), spec, "a-1-1")
		kind(t, err, provider.Invalid)
		if f.Calls(provider.OpLaunch) != 0 {
			t.Error("it reached the seller")
		}
	})
}

func TestMalformedRequestsAreAnsweredAndCounted(t *testing.T) {
	bubble(t, "garbage on every subject", func(t *testing.T) {
		f := fake(providertest.Config{})
		near, far := bus(t)
		reg := prometheus.NewPedanticRegistry()
		serve(t, near, f, remote.ServerConfig{Registerer: reg})
		sent := 0
		for _, body := range []string{
			"", "null", "[]", "{", "<html>", `{"token":7}`, `{"token":"a","spec":{"max_price":1.5}}`,
			`{"token":"*","spec":{}}`, `{"token":"` + strings.Repeat("a", 100) + `"}`, strings.Repeat("[", 100_000),
		} {
			m, err := far.RequestWithContext(soon(t), remote.Subject("fake", provider.OpLaunch), []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(m.Data), `"kind":"invalid"`) {
				t.Errorf("%.40q was answered %s", body, m.Data)
			}
			sent++
		}
		for _, op := range []string{provider.OpTerminate, provider.OpMetered, provider.OpRebid} {
			for _, body := range []string{"", "{}", `{"instance":""}`, `{"instance":"` + strings.Repeat("i", 2000) + `"}`} {
				m, err := far.RequestWithContext(soon(t), remote.Subject("fake", op), []byte(body))
				if err != nil || !strings.Contains(string(m.Data), `"kind":"invalid"`) {
					t.Errorf("%s %.40q: %v, %v", op, body, m, err)
				}
				sent++
			}
		}
		if n := f.Calls("") - f.Calls(provider.OpNotices); n != 0 {
			t.Errorf("%d of them reached the seller", n)
		}
		total := 0.0
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				total += m.GetCounter().GetValue()
			}
		}
		if int(total) != sent {
			t.Errorf("counted %v requests, sent %d", total, sent)
		}
		if n := testutil.CollectAndCount(reg, "spotferry_provider_requests_total"); n != 4 {
			t.Errorf("%d series, want malformed for four operations", n)
		}
	})
	bubble(t, "a seller that answers garbage is not believed", func(t *testing.T) {
		near, far := bus(t)
		for _, op := range provider.Ops() {
			sub, err := near.Subscribe(remote.Subject("fake", op), func(m *nats.Msg) { _ = m.Respond([]byte("<html>502</html>")) })
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Unsubscribe() }()
		}
		if err := near.FlushWithContext(soon(t)); err != nil {
			t.Fatal(err)
		}
		c := dial(t, far, remote.ClientConfig{})
		_, err := c.Launch(t.Context(), providertest.SampleSpec(offer), "a-1-1")
		if e := kind(t, err, provider.UnknownOutcome); !e.MaybeCreated || e.Code != "malformed_answer" {
			t.Errorf("got %+v", e)
		}
		_, err = c.Offers(t.Context())
		kind(t, err, provider.Transient)
	})
}

func TestCapabilitiesAreThoseOfTheSellerBehind(t *testing.T) {
	bubble(t, "a plain seller has none", func(t *testing.T) {
		near, far := bus(t)
		serve(t, near, plain{fake(providertest.Config{})}, remote.ServerConfig{})
		c := dial(t, far, remote.ClientConfig{})
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok := provider.As[provider.Meter](c); ok || c.Capabilities() != (provider.Capabilities{}) {
			t.Errorf("capabilities %+v, want none", c.Capabilities())
		}
		_, err := c.Metered(t.Context(), "i-1")
		kind(t, err, provider.Invalid)
	})
	bubble(t, "a fuller one is known from its first answer", func(t *testing.T) {
		near, far := bus(t)
		serve(t, near, fake(providertest.Config{}), remote.ServerConfig{})
		c := dial(t, far, remote.ClientConfig{})
		if _, ok := provider.As[provider.Meter](c); ok {
			t.Error("a meter is claimed before anything is known")
		}
		if _, err := c.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok := provider.As[provider.Meter](provider.Stack(c, provider.StackConfig{})); !ok {
			t.Error("the meter is not found through the stack")
		}
	})
}

// plain hides everything optional.
type plain struct{ p provider.Provider }

func (p plain) Offers(ctx context.Context) ([]events.Offer, error) { return p.p.Offers(ctx) }
func (p plain) Launch(ctx context.Context, s provider.LaunchSpec, token string) (provider.Instance, error) {
	return p.p.Launch(ctx, s, token)
}
func (p plain) Terminate(ctx context.Context, id events.InstanceID) error {
	return p.p.Terminate(ctx, id)
}
func (p plain) List(ctx context.Context) (provider.Listing, error) { return p.p.List(ctx) }

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
