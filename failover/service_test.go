package failover

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

// air carries heartbeats to whoever watches.
type air struct {
	mu     sync.Mutex
	handle func(events.JobID, int, events.Heartbeat)
	kept   map[int]events.Heartbeat // by epoch: what the bus keeps
	lines  []events.LogBatch
}

// keep makes hb what the bus has of an epoch.
func (a *air) keep(epoch int, hb events.Heartbeat) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = map[int]events.Heartbeat{epoch: hb}
}

// print adds output to what the bus has.
func (a *air) print(lines ...events.LogBatch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, lines...)
}

// tell brings a heartbeat to a watcher.
func (a *air) tell(job events.JobID, epoch int, hb events.Heartbeat) {
	a.mu.Lock()
	handle := a.handle
	a.mu.Unlock()
	handle(job, epoch, hb)
}

func (a *air) Signal(_ context.Context, _ events.OrgID, _ events.JobID, epoch int) (events.Heartbeat, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hb, ok := a.kept[epoch]
	return hb, ok, nil
}

func (a *air) ReadLog(_ context.Context, _ events.OrgID, _ events.JobID, epoch int, _ time.Time, _ int) ([]events.LogBatch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []events.LogBatch
	for _, b := range a.lines {
		if b.Epoch == epoch {
			out = append(out, b)
		}
	}
	return out, nil
}

func (a *air) WatchSignals(ctx context.Context, handle func(events.JobID, int, events.Heartbeat)) error {
	a.mu.Lock()
	a.handle = handle
	a.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// duty is a Service in a bubble with the job j1 of one organisation.
type duty struct {
	t       *testing.T
	log     *eventstest.Log
	air     *air
	book    *Book
	began   time.Time
	healthy atomic.Pointer[time.Time]
	last    map[events.LeaseID]*events.Event
}

func (d *duty) moment() events.Moment {
	now := time.Now()
	return events.Moment{Control: now, Market: t0.Add(60 * now.Sub(d.began))}
}

// well says that the control plane's own connection is up from now on.
func (d *duty) well() {
	now := time.Now()
	d.healthy.Store(&now)
}

// onDuty runs f beside a Service.
func onDuty(t *testing.T, spec events.JobSpec, f func(d *duty)) {
	t.Helper()
	onDutyWith(t, 1, spec, f)
}

// onDutyWith runs f beside replicas that share nothing but the log.
func onDutyWith(t *testing.T, replicas int, spec events.JobSpec, f func(d *duty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &duty{t: t, log: eventstest.New(time.Second), air: &air{}, began: time.Now(), last: map[events.LeaseID]*events.Event{}}
		d.well()
		d.book = NewBook(d.log, d.moment)
		if _, err := d.book.Submit(t.Context(), "j1", Submit{Attribution: attribution(), Spec: spec, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for i := range replicas {
			book := d.book
			if i > 0 {
				book = NewBook(d.log, d.moment)
			}
			s := New(Config{
				Log: d.log, Signals: d.air, Logs: d.air, Book: book, Timers: events.DefaultTimers(), Now: d.moment, Logger: zap.NewNop(),
				Healthy: func() time.Time { return *d.healthy.Load() },
			})
			go func() { done <- s.Run(ctx) }()
		}
		synctest.Wait()
		f(d)
		cancel()
		for range replicas {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// lease appends to a lease's own record.
func (d *duty) lease(l events.LeaseID, facts ...events.Fact) {
	d.t.Helper()
	for _, f := range facts {
		d.append(l, f)
	}
	synctest.Wait()
}

func (d *duty) append(l events.LeaseID, f events.Fact) {
	d.t.Helper()
	e, err := events.Follow(events.LeaseAggregate("acme", l), d.last[l], f)
	if err != nil {
		d.t.Fatal(err)
	}
	e.Time = time.Now()
	after := uint64(0)
	if d.last[l] != nil {
		after = d.last[l].Position
	}
	if e, err = d.log.Append(d.t.Context(), after, e); err != nil {
		d.t.Fatal(err)
	}
	d.last[l] = &e
}

func (d *duty) buy(epoch, n int, boot time.Duration) events.LeaseID {
	d.t.Helper()
	l := events.JobID("j1").Lease(epoch, n)
	d.lease(l, events.LeaseIntended{Job: "j1", Epoch: epoch, N: n, Purpose: events.ForReplace, Offer: events.Offer{Pool: pool("a", events.Spot)}},
		events.LeaseLaunched{Instance: events.InstanceID("i-" + l), Price: events.DollarPerHour, BootBy: time.Now().Add(boot)})
	return l
}

func (d *duty) apply(in Input) {
	d.t.Helper()
	if _, _, err := d.book.Apply(d.t.Context(), "j1", in); err != nil {
		d.t.Fatal(err)
	}
	synctest.Wait()
}

func (d *duty) join(epoch int, l events.LeaseID) {
	d.t.Helper()
	d.apply(Joined{events.JobJoined{Epoch: epoch, Lease: l, Key: "U" + string(l)}})
}

func (d *duty) beat(epoch int, step int64) {
	d.air.tell("j1", epoch, events.Heartbeat{Step: step, At: time.Now()})
}

func (d *duty) job() Job {
	d.t.Helper()
	j, err := d.book.Job(d.t.Context(), "j1")
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

// newest returns the job's newest fact of type F and when it was recorded.
func newest[F any](d *duty) (f F, at time.Duration, ok bool) {
	for _, e := range d.log.Events(events.FilterJobs) {
		if x, is := e.Fact.(F); is {
			f, at, ok = x, e.Time.Sub(d.began), true
		}
	}
	return f, at, ok
}

func TestSilenceIsJudgedOnlyAfterHealthyTime(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		l := d.buy(1, 1, time.Hour)
		d.join(1, l)
		d.beat(1, 7)
		for range 20 { // our own connection flaps for five minutes: nothing can be said of the agent
			time.Sleep(15 * time.Second)
			d.well()
		}
		if f, at, ok := newest[events.JobLost](d); ok {
			t.Fatalf("given up after %s: %+v", at, f)
		}
		time.Sleep(34 * time.Second)
		if _, at, ok := newest[events.JobLost](d); ok {
			t.Fatalf("given up after %s of health", at-300*time.Second)
		}
		time.Sleep(5 * time.Second)
		f, _, ok := newest[events.JobLost](d)
		if !ok || f.Cause != events.CauseSilent || f.LastStep != 7 || !f.LastSeen.Equal(d.began) {
			t.Errorf("lost %v: %+v; want silent at step 7, last seen at the start", ok, f)
		}
		if got := owes(d.job(), events.Acquire); len(got) != 1 {
			t.Errorf("a silent machine is not replaced: owes %v", got)
		}
		d.beat(1, 9)
		time.Sleep(5 * time.Second)
		if _, _, ok := newest[events.JobHeard](d); !ok || d.job().Status() != "starting" {
			t.Errorf("back, but the job is %s", d.job().Status())
		}
	})
}

func TestAMachineThatSpeaksIsNotGivenUp(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		d.join(1, d.buy(1, 1, time.Hour))
		for i := range int64(100) {
			d.beat(1, i)
			time.Sleep(30 * time.Second)
		}
		if f, at, ok := newest[events.JobLost](d); ok {
			t.Errorf("given up after %s: %+v", at, f)
		}
	})
}

func TestHeartbeatsOfTheNextMachineDoNotHideTheSilenceOfTheCurrentOne(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		l := d.buy(1, 1, time.Hour)
		d.join(1, l)
		d.apply(Noticed{events.JobNoticed{Epoch: 1, Lease: l, Seen: time.Now(), Deadline: time.Now().Add(10 * time.Minute)}})
		d.join(2, d.buy(2, 1, time.Hour))
		for range 10 {
			d.beat(2, 0)
			time.Sleep(5 * time.Second)
		}
		if j := d.job(); j.Epoch != 2 {
			t.Errorf("epoch %d: the job still waits for the last save of a machine that is silent", j.Epoch)
		}
		if f, _, ok := newest[events.JobLost](d); !ok || f.Epoch != 1 || f.Cause != events.CauseSilent {
			t.Errorf("lost %v: %+v", ok, f)
		}
	})
}

func TestALateHeartbeatDoesNotMakeAMachineOlder(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		d.join(1, d.buy(1, 1, time.Hour))
		old := time.Now()
		time.Sleep(34 * time.Second)
		d.beat(1, 5)
		d.air.tell("j1", 1, events.Heartbeat{Step: 1, At: old})
		time.Sleep(30 * time.Second)
		if _, at, ok := newest[events.JobLost](d); ok {
			t.Errorf("given up after %s", at)
		}
	})
}

func TestAMachineThatDoesNotBootIsGivenUpAtItsDeadline(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		l := d.buy(1, 1, 10*time.Minute)
		time.Sleep(9 * time.Minute)
		if j := d.job(); j.Next == nil {
			t.Fatal("given up too soon")
		}
		time.Sleep(time.Minute + 3*time.Second)
		f, at, ok := newest[events.JobLost](d)
		if !ok || f.Lease != l || f.Cause != events.CauseHostFault || at > 10*time.Minute+3*time.Second {
			t.Errorf("after %s: %v %+v", at, ok, f)
		}
		j := d.job()
		if a, r := owes(j, events.Acquire), owes(j, events.Release); fmt.Sprint(a, r) != "[acquire-j1-1-2] [release-j1-1-1]" {
			t.Errorf("owes %v %v", a, r)
		}
	})
}

func TestADeadlineStopsAJobAtItsMarketTime(t *testing.T) {
	deadline, duration := spec, spec
	deadline.Policy.Deadline = t0.Add(10 * time.Hour) // ten minutes of control time
	duration.Policy.Deadline, duration.Policy.MaxDurationS = time.Time{}, 36_000
	for name, s := range map[string]events.JobSpec{"deadline": deadline, "max_duration": duration} {
		t.Run(name, func(t *testing.T) {
			onDuty(t, s, func(d *duty) {
				d.join(1, d.buy(1, 1, time.Hour))
				for range 130 {
					d.beat(1, 5)
					time.Sleep(5 * time.Second)
				}
				_, at, ok := newest[events.JobStopping](d)
				if !ok || at < 10*time.Minute || at > 10*time.Minute+3*time.Second {
					t.Errorf("stopping %v after %s, want 10m", ok, at)
				}
				for range 12 {
					d.beat(1, 5)
					time.Sleep(5 * time.Second)
				}
				f, at, ok := newest[events.JobEnded](d)
				if !ok || f.Outcome != events.MissedDeadline || at > 11*time.Minute+5*time.Second {
					t.Errorf("after %s: %v %+v", at, ok, f)
				}
			})
		})
	}
}

func TestLeasesDeliveredTwiceOrAgainLaterChangeNothing(t *testing.T) {
	run := func(copies int) (facts []events.Fact) {
		onDuty(t, spec, func(d *duty) {
			d.log.SetFaults(eventstest.Faults{Copies: func(string, events.Event) int { return copies }})
			d.lease("j1-1-1", events.LeaseDeclined{Job: "j1", Epoch: 1, N: 1, Reason: "waiting-for-capacity"})
			l := d.buy(1, 2, time.Hour)
			d.join(1, l)
			d.lease(l, events.LeaseEnded{EndedBy: "seller"})
			d.join(2, d.buy(2, 1, time.Hour))
			d.apply(Cancel{By: "ann"})
			d.lease("j1-2-1", events.LeaseTerminating{}, events.LeaseEnded{EndedBy: "us"})
			if copies > 0 {
				d.log.Redeliver("failover") // as after a consumer that was deleted and made anew
				time.Sleep(10 * time.Second)
			}
			for _, e := range d.log.Events(events.FilterJobs) {
				facts = append(facts, e.Fact)
			}
		})
		return facts
	}
	once, often := run(0), run(2)
	if !reflect.DeepEqual(once, often) {
		t.Errorf("often: %s\nonce:  %s", names(often), names(once))
	}
	closed, ok := once[len(once)-1].(events.JobClosed)
	if !ok || closed.Leases != 2 {
		t.Errorf("the end is %+v; want closed with 2 leases", once[len(once)-1])
	}
}

func TestAPurchaseThatIsHeardOfAfterItsEndIsNotWaitedFor(t *testing.T) {
	d := &duty{t: t, log: eventstest.New(0), began: time.Now(), last: map[events.LeaseID]*events.Event{}}
	d.book = NewBook(d.log, d.moment)
	s := New(Config{Log: d.log, Book: d.book, Timers: events.DefaultTimers(), Now: d.moment, Logger: zap.NewNop()})
	if _, err := d.book.Submit(t.Context(), "j1", Submit{Attribution: attribution(), Spec: spec}); err != nil {
		t.Fatal(err)
	}
	var launched events.Event
	for _, f := range []events.Fact{events.LeaseIntended{Job: "j1", Epoch: 1, N: 1}, events.LeaseLaunched{Instance: "i"}, events.LeaseEnded{EndedBy: "fault"}} {
		d.append("j1-1-1", f)
		if _, ok := f.(events.LeaseLaunched); ok {
			launched = *d.last["j1-1-1"]
		}
	}
	for _, e := range []events.Event{*d.last["j1-1-1"], launched, launched, *d.last["j1-1-1"]} {
		if err := s.lease(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	j := d.job()
	if len(j.Open) > 0 || j.Next != nil || fmt.Sprint(owes(j, events.Acquire)) != "[acquire-j1-1-2]" {
		t.Errorf("open %v, next %v, owes %v", j.Open, j.Next, owes(j, events.Acquire))
	}
}

func TestLeasesOfNoJobAreLeftAlone(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		d.lease("machine", events.LeaseEnded{})
		d.lease("j9-1-1", events.LeaseIntended{Job: "j9", Epoch: 1, N: 1}, events.LeaseLaunched{}, events.LeaseEnded{})
		d.lease("j1-1-1", events.LeaseLaunched{Instance: "i"}) // without an intent
		time.Sleep(10 * time.Second)
		if j := d.job(); j.Sequence != 1 {
			t.Errorf("the job moved to sequence %d", j.Sequence)
		}
	})
}
