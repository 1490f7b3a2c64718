package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
	"github.com/spotferry/spotferry/failover"
)

const (
	worldGrace    = 10 * time.Minute
	worldEvidence = 40 * time.Minute
)

// world is one course: a job, its record, its store and everybody around them.
type world struct {
	t     *testing.T
	seed  uint64
	dir   string
	tally *tallies

	log      *eventstest.Log
	store    *court
	gateways []*Gateway
	books    []*failover.Book
	oracle   *oracle

	wg         sync.WaitGroup
	mu         sync.Mutex
	n          int // actors so far
	leases     int
	collecting atomic.Int32
}

func newWorld(t *testing.T, seed uint64, dir string, tally *tallies) *world {
	w := &world{t: t, seed: seed, dir: dir, tally: tally, log: eventstest.New(0)}
	w.store = &court{Store: mem.New(mem.Config{}), w: w, asked: map[string]int{}}
	w.oracle = newOracle(w)
	faults := w.chance("log")
	var mu sync.Mutex
	w.log.SetFaults(eventstest.Faults{Append: func(events.Event) eventstest.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch n := faults.IntN(100); {
		case n < 2:
			return eventstest.LostAck
		case n < 4:
			return eventstest.LostAsk
		}
		return eventstest.Done
	}})
	for range 2 {
		book := failover.NewBook(w.log, w.moment)
		w.books = append(w.books, book)
		w.gateways = append(w.gateways, New(Config{
			Log: w.log, Book: book, Accounts: &operator{}, Signals: &board{}, Vault: &safe{}, Store: w.store,
			Grant: events.StoreGrant{Kind: "dir", Path: "/store"}, Timers: events.DefaultTimers(), URL: "nats://bus", Now: w.moment,
			Control: func(market time.Time) time.Time { return market }, Push: func(events.JobID, int) {}, Logger: zap.NewNop(), Workers: 2,
			Collection: Collection{Grace: worldGrace, Evidence: worldEvidence, Off: true},
		}))
	}
	keep := []int{0, 1, 2, 4}[seed%4]
	w.must(w.books[0].Submit(t.Context(), job, failover.Submit{
		Attribution: events.Attribution{Org: org}, By: "ann",
		Spec: events.JobSpec{Name: "n", Run: "train", Policy: events.Policy{Budget: 10 * events.Dollar, Checkpoint: events.CheckpointPolicy{Keep: keep}}},
	}))
	return w
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
}

func (w *world) moment() events.Moment {
	now := time.Now()
	return events.Moment{Control: now, Market: now}
}

// chance is a source of its own for each actor, so that none depends on the order of the others.
func (w *world) chance(who string) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, who)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

func (w *world) go_(f func(r *rand.Rand)) {
	w.mu.Lock()
	w.n++
	r := w.chance(fmt.Sprint("actor ", w.n))
	w.mu.Unlock()
	w.wg.Go(func() { f(r) })
}

func (w *world) wait() { w.wg.Wait() }

// within is a time between a tenth of d and d.
func within(r *rand.Rand, d time.Duration) time.Duration {
	return d/10 + time.Duration(r.Int64N(int64(d)))*9/10
}

func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// apply gives an input through one of the two books; a lost answer is asked again.
func (w *world) apply(ctx context.Context, r *rand.Rand, in failover.Input) (failover.Job, error) {
	j, _, err := w.books[r.IntN(2)].Apply(ctx, job, in)
	return j, err
}

// ask puts a request of an agent to one of the gateways.
func ask_[T any](ctx context.Context, w *world, r *rand.Rand, epoch int, v events.Verb, body any) (reply T) {
	b, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(w.gateways[r.IntN(2)].Handle(ctx, events.AgentSubject(job, epoch, v), b), &reply)
	}
	if err != nil {
		w.t.Errorf("seed %d: %s: %v", w.seed, v, err)
	}
	return reply
}

// court is the store: it takes its time, loses answers, and calls the oracle
// when something takes effect.
type court struct {
	*mem.Store
	w     *world
	mu    sync.Mutex
	asked map[string]int
}

var errLost = errors.New("the answer was lost")

// delay passes before an operation's effect. It is drawn by name and count, so that it does not
// depend on which goroutine comes first.
func (c *court) delay(ctx context.Context, verb, name string) (*rand.Rand, error) {
	c.mu.Lock()
	key := verb + " " + name
	c.asked[key]++
	r := c.w.chance(fmt.Sprint(key, c.asked[key]))
	c.mu.Unlock()
	d := time.Duration(r.Int64N(int64(2 * time.Second)))
	switch n := r.IntN(100); {
	case n < 3:
		d = time.Duration(r.Int64N(int64(4 * time.Minute)))
	case verb == "delete" && n < 10: // sent, and on its way for long
		d = time.Duration(r.Int64N(int64(time.Hour)))
		c.w.tally.add("deletions that were late", 1)
	}
	if verb == "delete" && n90(r) { // it arrives although nobody waits for it any more
		time.Sleep(d)
		return r, nil
	}
	if !rest(ctx, d) {
		return r, ctx.Err()
	}
	return r, nil
}

func n90(r *rand.Rand) bool { return r.IntN(100) < 90 }

func lost(r *rand.Rand) bool { return r.IntN(100) < 2 }

func (c *court) Put(ctx context.Context, name string, from io.Reader, size int64) error {
	r, err := c.delay(ctx, "put", name)
	if err != nil {
		return err
	}
	err = c.Store.Put(context.WithoutCancel(ctx), name, from, size)
	if err == nil && lost(r) {
		return errLost
	}
	return err
}

func (c *court) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if _, err := c.delay(ctx, "get", name); err != nil {
		return nil, err
	}
	return c.Store.Get(ctx, name)
}

func (c *court) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if _, err := c.delay(ctx, "get", name); err != nil {
		return nil, err
	}
	return c.Store.Range(ctx, name, off, n)
}

func (c *court) Stat(ctx context.Context, name string) (int64, error) {
	r, err := c.delay(ctx, "stat", name)
	if err != nil {
		return 0, err
	}
	n, err := c.Store.Stat(ctx, name)
	if err == nil && lost(r) {
		return 0, errLost
	}
	return n, err
}

func (c *court) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	before, err := c.Store.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	r, err := c.delay(ctx, "list", prefix)
	if err != nil {
		return nil, err
	}
	if r.IntN(3) == 0 {
		return before, nil // late
	}
	return c.Store.List(ctx, prefix)
}

func (c *court) Delete(ctx context.Context, name string) error {
	r, err := c.delay(ctx, "delete", name)
	if err != nil {
		return err
	}
	c.w.oracle.deletes(name)
	err = c.Store.Delete(context.WithoutCancel(ctx), name)
	if err == nil && lost(r) {
		return errLost
	}
	return err
}

// tree is what a trainer writes: a few files, each with one of few contents, so that what
// was there before comes back.
type tree struct {
	dir   string
	large bool // one of the files is an object of its own
	files [4]int
}

func (t *tree) change(r *rand.Rand) error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	for i := range t.files {
		if t.files[i] == 0 || r.IntN(3) > 0 {
			t.files[i] = 1 + r.IntN(3)
		}
		name := filepath.Join(t.dir, fmt.Sprint("f", i))
		if i == 3 && r.IntN(3) == 0 { // a file that is not always there
			if err := os.RemoveAll(name); err != nil {
				return err
			}
			continue
		}
		size := 200 + i
		if t.large && i == 0 {
			size = 1 << 20
		}
		if err := os.WriteFile(name, slices.Repeat([]byte{byte(16*i + t.files[i])}, size), 0o600); err != nil {
			return err
		}
	}
	return nil
}
