package natsbus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

// Tests in a bubble are not parallel; the parallel ones wait until they have ended.

// seeded is entropy that is the same for the same seed.
func seeded(seed uint64) io.Reader {
	var key [32]byte
	key[0] = byte(seed)
	return rand.NewChaCha8(key)
}

func TestHoursOfVirtualTimeAreTheSameTwice(t *testing.T) {
	first := simulate(t, 1)
	if again := simulate(t, 1); again != first {
		t.Errorf("seed 1 gave %s, then %s", first, again)
	}
	if other := simulate(t, 2); other == first {
		t.Error("seed 2 gave the same history as seed 1")
	}
}

// simulate runs writers and consumers over accounts, a server restart and four
// virtual hours, and returns a hash over every message of the truth streams.
func simulate(t *testing.T, seed uint64) (hash string) {
	dir := natsbustest.Dir(t)
	natsbustest.Bubble(t, func(t *testing.T) {
		op := openOperator(t, dir, seeded(seed))
		w := &world{t: t, dir: dir, op: op, seed: seed}
		w.boot()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for actor := range 4 {
			wg.Go(func() { w.writer(ctx, actor) })
		}
		for _, name := range []string{"bidder", "failover"} {
			wg.Go(func() { w.consumer(ctx, name) })
		}
		time.Sleep(2 * time.Hour)
		w.reboot()
		time.Sleep(2 * time.Hour)
		cancel()
		wg.Wait()
		hash = w.history()
		w.halt()
	})
	return hash
}

type world struct {
	t    *testing.T
	dir  string
	op   *Operator
	seed uint64

	mu  sync.Mutex
	bus *Embedded
	nc  *nats.Conn
	log *Log
}

// dialer opens connections to whichever server runs at that moment.
type dialer func() *Embedded

func (d dialer) InProcessConn() (net.Conn, error) { return d().InProcessConn() }

func (w *world) boot() {
	w.start()
	creds, err := w.op.Service("sim")
	if err != nil {
		w.t.Fatal(err)
	}
	w.nc, err = Connect(ConnConfig{Server: dialer(w.current), Credentials: creds, Name: "sim"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.log, err = New(w.nc, Options{Wrap: w.slot})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := Declare(w.t.Context(), w.log.JetStream(), 1); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start() {
	bus, err := Start(EmbeddedConfig{Dir: filepath.Join(w.dir, "bus"), Operator: w.op})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bus = bus
}

func (w *world) current() *Embedded {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bus
}

func (w *world) reboot() {
	w.current().Shutdown()
	time.Sleep(time.Minute)
	w.start()
}

func (w *world) halt() {
	w.nc.Close()
	w.current().Shutdown()
}

// slot lets each consumer handle only at its own offset in a millisecond.
func (w *world) slot(s events.Subscription, h Handler) Handler {
	offset := time.Duration(100+10*len(s.Name)) * time.Microsecond
	return func(ctx context.Context, e events.Event) error {
		sleepTo(offset)
		return h(ctx, e)
	}
}

func sleepTo(offset time.Duration) {
	now := time.Duration(time.Now().UnixNano())
	next := now.Truncate(time.Millisecond) + offset
	if next <= now {
		next += time.Millisecond
	}
	time.Sleep(next - now)
}

func (w *world) writer(ctx context.Context, actor int) {
	rng := rand.New(rand.NewPCG(w.seed, uint64(actor)))
	a := events.JobAggregate(org, events.JobID(fmt.Sprint("job", actor)))
	var prev *events.Event
	var after uint64
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Duration(30+rng.IntN(600)) * time.Second)
		sleepTo(time.Duration(10*(actor+1)) * time.Microsecond)
		e, err := w.log.Append(ctx, after, follow(w.t, a, prev, waiting(rng.IntN(1000))))
		if err != nil {
			continue
		}
		prev, after = &e, e.Position
	}
}

func (w *world) consumer(ctx context.Context, name string) {
	rng := rand.New(rand.NewPCG(w.seed, uint64(len(name))))
	err := w.log.Consume(ctx, events.Subscription{Name: name, Filters: []string{events.FilterJobs}},
		func(ctx context.Context, e events.Event) error {
			switch rng.IntN(10) {
			case 0:
				return errors.New("not now")
			case 1:
				time.Sleep(40 * time.Second) // longer than Wait
			}
			a := events.LeaseAggregate(org, events.LeaseID(fmt.Sprintf("%s-%s", e.ID, name)))
			_, err := w.log.Append(ctx, 0, follow(w.t, a, nil, events.LeaseTerminating{Reason: name}))
			return err
		})
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) history() string {
	sum := sha256.New()
	n := 0
	err := w.log.scan(w.t.Context(), StreamJobs, []string{events.FilterJobs, events.FilterLeases}, func(m jetstream.Msg) error {
		n++
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, m.Subject(), meta.Timestamp.UnixNano(), string(m.Data()))
		var names []string
		for k := range m.Headers() {
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			fmt.Fprintln(sum, k, m.Headers()[k])
		}
		return nil
	})
	if err != nil || n < 150 {
		w.t.Errorf("%d messages, %v; want at least 150", n, err)
	}
	return fmt.Sprintf("%d messages, %s", n, hex.EncodeToString(sum.Sum(nil)))
}
