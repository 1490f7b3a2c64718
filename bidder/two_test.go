package bidder

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// slowLog takes a random time on the way to the log and on the way back, so that
// whatever can happen between two steps of a service does happen.
type slowLog struct {
	events.Log
	mu     sync.Mutex
	random *rand.Rand
}

func (l *slowLog) dawdle() {
	l.mu.Lock()
	d := time.Duration(l.random.IntN(4)*l.random.IntN(100)) * time.Millisecond
	l.mu.Unlock()
	time.Sleep(d)
}

func (l *slowLog) Append(ctx context.Context, after uint64, e events.Event) (events.Event, error) {
	l.dawdle()
	defer l.dawdle()
	return l.Log.Append(ctx, after, e)
}

func (l *slowLog) Read(ctx context.Context, a events.Aggregate, after uint64) ([]events.Event, error) {
	l.dawdle()
	defer l.dawdle()
	return l.Log.Read(ctx, a, after)
}

// startSlow starts a replica whose bus is slow in its own way.
func (r *rig) startSlow(seed, replica uint64) (stop func()) {
	return r.start(func(c *Config) {
		c.Log = &slowLog{Log: r.log, random: rand.New(rand.NewPCG(seed, replica))}
		c.Book = ledger.NewBook(c.Log, source, time.Now)
		c.Takeover = 2 * time.Second // they get into each other's way all the time
	})
}

// TestTwoBiddersAtOneJobActOnce: both drive every job, through a slow bus and a
// seller that loses answers. A lease id is one purchase: one intent, one reservation,
// one machine; and a job that wants one machine is never left with two.
func TestTwoBiddersAtOneJobActOnce(t *testing.T) {
	possible := []providertest.Fault{
		{}, {}, {Mode: providertest.Lost}, {Mode: providertest.Fail, Kind: provider.NoCapacity}, {Mode: providertest.FailAfter, Kind: provider.Transient},
		{Mode: providertest.Slow, For: 20 * time.Second}, {Mode: providertest.Fail, Kind: provider.UnknownOutcome},
	}
	seeds(t, 12, func(t *testing.T, seed uint64, random *rand.Rand) {
		var faults []providertest.Fault
		for range random.IntN(9) {
			faults = append(faults, possible[random.IntN(len(possible))])
		}
		bubble(t, func(t *testing.T) {
			r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8), quote("a1", events.OnDemand, 3))
			r.fake.Script("launch", faults...)
			one, other := r.startSlow(seed, 0), r.startSlow(seed, 1)
			var wg sync.WaitGroup
			for _, id := range []events.JobID{"a", "b", "c"} {
				o := r.submit(id, anyGPU())
				wg.Add(1)
				go func() {
					defer wg.Done()
					o.do(func() {
						r.eventually("a machine", time.Hour, func() bool { return o.current() != "" })
						time.Sleep(3 * time.Minute)
						o.finish()
						r.eventually("closed", time.Hour, r.closed(id))
					})
				}()
			}
			wg.Wait()
			one()
			other()
			r.audit()
			r.once()
		})
	})
}

// seeds runs a test with n random courses, some of them when it has to be quick.
func seeds(t *testing.T, n uint64, run func(t *testing.T, seed uint64, random *rand.Rand)) {
	if testing.Short() {
		n /= 4
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { run(t, seed, rand.New(rand.NewPCG(seed, 99))) })
	}
}

// once checks that no lease was bought, reserved for or charged twice.
func (r *rig) once() {
	r.t.Helper()
	seen := map[string]int{}
	for _, filter := range []string{events.FilterLeases, events.FilterMoney} {
		for _, e := range r.log.Events(filter) {
			switch f := e.Fact.(type) {
			case events.LeaseIntended, events.LeaseLaunched, events.LeaseEnded:
				seen[fmt.Sprintf("%T of %s", f, e.Aggregate.ID)]++
			case events.MoneyReserved:
				seen[fmt.Sprintf("%T of %s", f, f.Lease)]++
			case events.MoneySettled:
				seen[fmt.Sprintf("%T of %s", f, f.Lease)]++
			}
		}
	}
	for _, m := range r.fake.Invoice() {
		seen["machine of "+m.Token]++
	}
	for what, n := range seen {
		if n > 1 {
			r.t.Errorf("%d times %s\n%s", n, what, r.story())
		}
	}
}
