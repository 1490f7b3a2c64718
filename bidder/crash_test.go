package bidder

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

var crashPoints = []string{
	CrashBeforeIntent, CrashReserved, CrashAfterIntent, CrashAfterCall, CrashBeforeRecord,
	CrashBeforeAdopt, CrashBeforeTerminate, CrashNoConfirm, CrashConfirmed,
}

// runCrashing runs services one after the other; each dies at its point, the last lives on. It returns its stop.
func (r *rig) runCrashing(points []string) (stop func(), reached func() []bool) {
	var hits []func() bool
	var stopLast func()
	next := make(chan struct{})
	var start func(i int)
	start = func(i int) {
		if i == len(points) {
			stopLast = r.start()
			close(next)
			return
		}
		dying := make(chan struct{})
		hook, hit := crashAt(points[i], 1, func() { close(dying) })
		hits = append(hits, hit)
		stopThis := r.start(func(c *Config) { c.Crash = hook })
		go func() {
			select {
			case <-dying:
			case <-time.After(3 * time.Hour):
			}
			stopThis()
			time.Sleep(5 * time.Second)
			start(i + 1)
		}()
	}
	start(0)
	return func() { <-next; stopLast() }, func() []bool {
		var out []bool
		for _, h := range hits {
			out = append(out, h())
		}
		return out
	}
}

func testCrashes(t *testing.T, points []string) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8), quote("a1", events.OnDemand, 3))
		r.fake.Foreign(pool("a1", events.Spot), "someone", map[string]string{"env": "other"}, true)
		// The first launch makes two machines, so that the reaper has work.
		r.fake.Script("launch", providertest.Fault{Mode: providertest.Duplicate})
		stop, reached := r.runCrashing(points)
		o := r.submit("job", anyGPU())
		o.do(func() {
			r.eventually("a machine", 2*time.Hour, func() bool { return o.current() != "" })
			time.Sleep(10 * time.Minute)
			o.finish()
			r.eventually("closed", 2*time.Hour, r.closed("job"))
		})
		stop()
		r.audit()
		for i, hit := range reached() {
			if !hit {
				t.Errorf("crash point %s was never reached", points[i])
			}
		}
	})
}

func TestACrashAtAnyPointLeavesNoOrphanAndAnExactLedger(t *testing.T) {
	for _, point := range crashPoints {
		t.Run(point, func(t *testing.T) { testCrashes(t, []string{point}) })
	}
}

func TestCrashesAtAnyTwoPointsDoNotEither(t *testing.T) {
	for i, first := range crashPoints {
		for j, second := range crashPoints {
			// A later point's work is done when it is reached, and an intent is written once.
			if j < i || (i == j && first == CrashAfterIntent) || testing.Short() && (i+j)%4 > 0 {
				continue
			}
			t.Run(first+" then "+second, func(t *testing.T) { testCrashes(t, []string{first, second}) })
		}
	}
}

// Thirty-two jobs of one organisation, services that die at random, a bus that
// loses answers, a seller that misbehaves: no budget is ever exceeded, and in the end nothing
// is left and every cent is accounted.
func TestAStormOfCrashesLeaksNothingAndOverspendsNothing(t *testing.T) {
	for seed := range uint64(2) {
		if testing.Short() && seed > 0 {
			break
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

func storm(t *testing.T, seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 7))
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return random.IntN(n) }
	r := newRig(t, quote("a1", events.Spot, 1), quote("b1", events.Spot, 0.8), quote("c1", events.Spot, 0.9), quote("a1", events.OnDemand, 3))
	calm := false
	r.log.SetFaults(eventstest.Faults{
		Append: func(events.Event) eventstest.Fate {
			if calm {
				return eventstest.Done
			}
			return []eventstest.Fate{0, 0, 0, 0, 0, 0, 0, 0, eventstest.LostAck, eventstest.LostAsk}[draw(10)]
		},
		Copies: func(string, events.Event) int { return draw(6) / 5 },
	})
	var script []providertest.Fault
	for range 60 {
		script = append(script, []providertest.Fault{
			{}, {}, {Mode: providertest.Fail, Kind: provider.NoCapacity}, {Mode: providertest.Lost}, {Mode: providertest.FailAfter, Kind: provider.Quota},
			{Mode: providertest.Duplicate}, {Mode: providertest.Throttle, For: time.Second}, {Mode: providertest.Slow, For: 20 * time.Second},
		}[draw(8)])
	}
	r.fake.Script("launch", script...)
	r.fake.Script("list", append(providertest.Times(5, providertest.Fault{Mode: providertest.Partial}), providertest.Times(5, providertest.Fault{Mode: providertest.Fail, Kind: provider.Transient})...)...)

	var ids []events.JobID
	var owners []*owner
	for i := range 32 {
		spec := anyGPU()
		spec.Policy.Budget = events.MicroUSD(3+draw(20)) * events.Dollar
		spec.Policy.Work = events.Work{}
		id := events.JobID(fmt.Sprintf("job%02d", i))
		ids, owners = append(ids, id), append(owners, r.submit(id, spec))
	}
	var nest func(i int)
	nest = func(i int) {
		if i < len(owners) {
			owners[i].do(func() { nest(i + 1) })
			return
		}
		steady := r.start() // one replica lives through it all
		for range 12 {
			point, dying := crashPoints[draw(len(crashPoints))], make(chan struct{})
			hook, _ := crashAt(point, 1+draw(4), func() { close(dying) })
			stop := r.start(func(c *Config) { c.Crash = hook })
			select {
			case <-dying:
			case <-time.After(2 * time.Minute):
			}
			for _, i := range r.fake.Live() {
				if draw(8) == 0 {
					r.fake.Kill(i.Instance, "seller")
				}
			}
			stop()
			r.books()
		}
		mu.Lock()
		calm = true
		mu.Unlock()
		for _, o := range owners {
			o.finish()
		}
		r.eventually("closed", 15*time.Minute, r.closed(ids...))
		time.Sleep(30 * time.Minute) // whatever turns up late
		steady()
	}
	nest(0)
	r.audit()
	for _, m := range []providertest.Mode{providertest.Lost, providertest.FailAfter, providertest.Duplicate, providertest.Partial, providertest.Slow} {
		if r.fake.Faults(m) == 0 {
			t.Errorf("fault %d never happened", m)
		}
	}
	if n := len(r.fake.Invoice()); n < 32 {
		t.Errorf("only %d machines were bought", n)
	}
}
