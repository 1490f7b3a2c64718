package tracing

import (
	"context"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
	"github.com/spotferry/spotferry/failover"
)

const (
	org events.OrgID = "acme"
	job events.JobID = "01jx3kq8zr5v9m2c7t4b6n0d1e"
)

var t0 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// life is a job played on a log of its own.
type life struct {
	t   *testing.T
	log *eventstest.Log
	job *failover.Book
	now time.Time
	at  map[events.LeaseID]*events.Event
}

func newLife(t *testing.T) *life {
	l := &life{t: t, log: eventstest.New(0), now: t0, at: map[events.LeaseID]*events.Event{}}
	l.job = failover.NewBook(l.log, func() events.Moment { return events.Moment{Control: l.now, Market: l.now} })
	return l
}

func (l *life) after(d time.Duration, in failover.Input) {
	l.t.Helper()
	l.now = l.now.Add(d)
	var err error
	if s, ok := in.(failover.Submit); ok {
		_, err = l.job.Submit(context.Background(), job, s)
	} else {
		_, _, err = l.job.Apply(context.Background(), job, in)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) lease(id events.LeaseID, f events.Fact) events.Event {
	l.t.Helper()
	prev, position := l.at[id], uint64(0)
	if prev != nil {
		position = prev.Position
	}
	e, err := events.Follow(events.LeaseAggregate(org, id), prev, f)
	if err == nil {
		e.Time = l.now
		if prev != nil {
			e.Trace = prev.Trace
		} else if owed := events.Owed(l.newest(), events.Acquire); len(owed) > 0 {
			e.Trace = owed[0].Trace // as the bidder does
		}
		e, err = l.log.Append(context.Background(), position, e)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.at[id] = &e
	return e
}

func (l *life) newest() (e events.Event) {
	for _, e = range l.log.Events(events.FilterJobs) {
		continue
	}
	return e
}

func pool(zone string) events.Pool {
	return events.Pool{Seller: "local", Region: "north", Zone: zone, InstanceType: "v100.1", Capacity: events.Spot, Gang: 1}
}

// buy has lease n of an epoch bought, the n-1 before it refused.
func (l *life) buy(epoch, n int) events.LeaseID {
	l.t.Helper()
	for i := 1; ; i++ {
		id := job.Lease(epoch, i)
		l.now = l.now.Add(20 * time.Millisecond)
		intent := l.lease(id, events.LeaseIntended{Job: job, Epoch: epoch, N: i, Purpose: events.ForReplace, Offer: events.Offer{Pool: pool("b"), Price: events.DollarPerHour}})
		l.now = l.now.Add(300 * time.Millisecond)
		if i < n {
			l.lease(id, events.LeaseRefused{Kind: "no_capacity", Code: "InsufficientInstanceCapacity"})
			continue
		}
		launched := l.lease(id, events.LeaseLaunched{Instance: "i-1", Price: events.DollarPerHour, BootBy: l.now.Add(time.Hour), TookMS: 250})
		l.after(0, failover.Bought{Lease: id, Intent: intent, Launched: launched})
		l.after(4*time.Second, failover.Joined{JobJoined: events.JobJoined{Epoch: epoch, Lease: id, Key: "U"}})
		return id
	}
}

func (l *life) steps(d time.Duration, epoch int, id events.LeaseID, from int64) {
	l.after(d, failover.Stepped{JobStarted: events.JobStarted{Epoch: epoch, Lease: id, From: from, Step: from + 1, Before: 20,
		Clock: events.AgentClock{SetupMS: 900, ImageMS: 300, InputsMS: 200, RestoreMS: 400}}})
}

// moved is a job that was given notice, saved, and went on elsewhere after a refusal.
func moved(t *testing.T) *life {
	l := newLife(t)
	l.after(0, failover.Submit{By: "ann", Attribution: events.Attribution{Org: org}, Spec: events.JobSpec{Name: "tuned", Run: "train", Policy: events.Policy{Budget: events.Dollar}}})
	a := l.buy(1, 1)
	l.steps(2*time.Second, 1, a, 0)
	l.notice(a)
	l.commit(a)
	b := l.buy(2, 2)
	l.steps(2*time.Second, 2, b, 10)
	return l
}

func (l *life) notice(a events.LeaseID) {
	_, epoch, _, _ := a.Parts()
	l.after(30*time.Second, failover.Noticed{JobNoticed: events.JobNoticed{
		Epoch: epoch, Lease: a, Action: "terminate", Source: "imds", Seen: l.now.Add(30*time.Second - 40*time.Millisecond), Deadline: l.now.Add(2*time.Minute + 30*time.Second),
	}})
}

func (l *life) commit(a events.LeaseID) {
	l.after(3*time.Second, failover.Committed{JobCommitted: events.JobCommitted{
		Epoch: 1, Lease: a, Final: true, SaveMS: 1500, UploadMS: 800, Checkpoint: events.Checkpoint{Name: "c1-10", Epoch: 1, Step: 10, Digest: "ab", Bytes: 5, Files: 1},
	}})
}

// record is the newest failover and every event.
func (l *life) record() (events.Failover, []events.Event) {
	l.t.Helper()
	evs := append(l.log.Events(events.FilterJobs), l.log.Events(events.FilterLeases)...)
	var r events.Failover
	for _, e := range evs {
		if f, ok := e.Fact.(events.JobFailedOver); ok {
			r = f.Record
		}
	}
	if r.N == 0 {
		l.t.Fatal("the job has not failed over")
	}
	return r, evs
}
