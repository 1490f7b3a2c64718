package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
	"github.com/spotferry/spotferry/failover"
)

const (
	org     events.OrgID = "acme"
	tuned   events.JobID = "01jx3kq8zr5v9m2c7t4b6n0d1e" // moved once, and done
	waiting events.JobID = "01jx3kq8zr5v9m2c7t4b6n0d2e"
	leaving events.JobID = "01jx3kr0zr5v9m2c7t4b6n0d3e"

	hostile = "\x1b[2J<script>\u202e\r\nroot"
)

var t0 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// desk is a console with the services' streams behind it.
type desk struct {
	t       *testing.T
	log     *eventstest.Log
	jobs    *failover.Book
	money   *ledger.Book
	cfg     Config
	server  *Server
	air     *air
	seller  *seller
	now     time.Time
	records map[events.LeaseID]*events.Event
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, log: eventstest.New(0), air: &air{}, seller: &seller{}, now: t0, records: map[events.LeaseID]*events.Event{}}
	d.jobs = failover.NewBook(d.log, d.moment)
	d.money = ledger.NewBook(d.log, "/spotferry/test", func() time.Time { return d.now })
	d.cfg = Config{
		Log: d.log, Signals: d.air, Book: d.jobs, Money: d.money, Org: org, Now: d.moment, Version: "1.2.3", Logger: zap.NewNop(),
		Sellers: map[string]provider.Provider{"local": d.seller}, Logs: shelf{},
		Offers: func() []Offer { return []Offer{{Offer: offer("a"), AgeMS: 1500, Hazard: 0.25}, {Offer: offer("b")}} },
		Plan:   func(context.Context, SubmitRequest) (Plan, error) { return Plan{Possible: true, Reason: hostile}, nil },
		Health: func(context.Context) []Check { return []Check{{Name: "bus", OK: true, Detail: "fine"}} },
	}
	return d
}

// moment has market time run 60 times as fast.
func (d *desk) moment() events.Moment {
	return events.Moment{Control: d.now, Market: t0.Add(60 * d.now.Sub(t0))}
}

// serve runs the console inside the bubble while f asks.
func (d *desk) serve(f func()) {
	d.t.Helper()
	d.server = New(d.cfg)
	ctx, cancel := context.WithCancel(d.t.Context())
	done := make(chan error)
	go func() { done <- d.server.Run(ctx) }()
	<-d.server.Ready()
	f()
	cancel()
	if err := <-done; err != nil {
		d.t.Error(err)
	}
}

// served is a test of a console over the lives of three jobs.
func served(t *testing.T, change func(*Config), f func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.live()
		if change != nil {
			change(&d.cfg)
		}
		d.serve(func() { synctest.Wait(); f(t, d) })
	})
}

// at moves the clock and does one thing to a job.
func (d *desk) at(s int, job events.JobID, in failover.Input) {
	d.t.Helper()
	d.now = t0.Add(time.Duration(s) * time.Second)
	var err error
	if sub, ok := in.(failover.Submit); ok {
		_, err = d.jobs.Submit(d.t.Context(), job, sub)
	} else {
		_, _, err = d.jobs.Apply(d.t.Context(), job, in)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) lease(l events.LeaseID, f events.Fact) events.Event {
	d.t.Helper()
	prev, after := d.records[l], uint64(0)
	if prev != nil {
		after = prev.Position
	}
	e, err := events.Follow(events.LeaseAggregate(org, l), prev, f)
	if err == nil {
		e.Time = d.now
		e, err = d.log.Append(d.t.Context(), after, e)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.records[l] = &e
	return e
}

func (d *desk) buy(s int, job events.JobID, epoch int, zone string) events.LeaseID {
	d.t.Helper()
	d.now = t0.Add(time.Duration(s) * time.Second)
	l := job.Lease(epoch, 1)
	d.pay(events.MoneyReserved{Job: job, Lease: l, Amount: 500_000, PaidTill: d.moment().Market.Add(time.Hour)})
	intent := d.lease(l, events.LeaseIntended{Job: job, Epoch: epoch, N: 1, Purpose: events.ForReplace, Offer: offer(zone), Reserved: 500_000, Decision: events.Decision{Rule: "uniform-progress"}})
	launched := d.lease(l, events.LeaseLaunched{Instance: events.InstanceID("i-" + zone), Price: events.DollarPerHour, Started: d.moment().Market, BootBy: d.now.Add(time.Hour)})
	d.at(s, job, failover.Bought{Lease: l, Intent: intent, Launched: launched})
	d.at(s+1, job, failover.Joined{JobJoined: events.JobJoined{Epoch: epoch, Lease: l, Key: "U" + zone}})
	return l
}

func (d *desk) end(s int, l events.LeaseID, by string) {
	d.t.Helper()
	d.now = t0.Add(time.Duration(s) * time.Second)
	f := events.LeaseEnded{Instance: "i", Started: t0, Ended: t0.Add(time.Hour), EndedBy: by, Pool: offer("a").Pool}
	e := d.lease(l, f)
	d.at(s, l.Job(), failover.Gone{Event: e, Heard: failover.Heard{Step: 25, At: d.now}})
	d.pay(events.MoneySettled{Job: l.Job(), Lease: l, Pool: f.Pool, Amount: 250_000, Cause: e.ID, OnDemand: 900_000, Segments: []events.Segment{
		{N: 1, Category: "compute", From: t0, To: t0.Add(15 * time.Minute), Use: 250_000, Billed: events.DollarPerHour, Amount: 250_000},
	}})
}

func (d *desk) pay(f events.Fact) {
	d.t.Helper()
	if _, err := d.money.Append(d.t.Context(), org, func(*ledger.State) (*ledger.Draft, error) { return &ledger.Draft{Fact: f}, nil }); err != nil {
		d.t.Fatal(err)
	}
}

func offer(zone string) events.Offer {
	return events.Offer{
		Pool:    events.Pool{Seller: "local", Region: "north", Zone: "north-" + zone, InstanceType: "v100.1", Capacity: events.Spot, Gang: 1},
		GPU:     events.GPU{Vendor: "nvidia", Model: "V100", Count: 1, MemoryMiB: 16384},
		Country: "DE", Price: events.DollarPerHour, Terms: events.Terms{GrainS: 60}, Market: t0, Seen: t0, TTLS: 60,
	}
}

func checkpointAt(epoch int, step int64) events.Checkpoint {
	return events.Checkpoint{Name: fmt.Sprintf("c%d-%d", epoch, step), Epoch: epoch, Step: step, Digest: "ab", Bytes: 5_000_000, Files: 3}
}

func submit(name string) failover.Submit {
	return failover.Submit{By: "ann", Attribution: events.Attribution{Org: org, Team: "ml", Labels: map[string]string{"ticket": "42"}}, Spec: events.JobSpec{
		Name: name, Run: "train", Policy: events.Policy{Budget: 10 * events.Dollar, Work: events.Work{Steps: 40}},
	}}
}

// live plays the lives of three jobs.
func (d *desk) live() {
	d.at(0, tuned, submit("tuned"))
	d.pay(events.BudgetSet{Job: tuned, Limit: 10 * events.Dollar, By: "ann"})
	a := d.buy(1, tuned, 1, "a")
	d.at(3, tuned, failover.Stepped{JobStarted: events.JobStarted{Epoch: 1, Lease: a, Step: 1}})
	d.at(4, tuned, failover.Committed{JobCommitted: events.JobCommitted{Epoch: 1, Lease: a, Checkpoint: checkpointAt(1, 10), SaveMS: 20, UploadMS: 30}})
	d.at(5, tuned, failover.Committed{JobCommitted: events.JobCommitted{Epoch: 1, Lease: a, Checkpoint: checkpointAt(1, 20)}})
	d.at(6, tuned, failover.Noticed{JobNoticed: events.JobNoticed{Epoch: 1, Lease: a, Action: hostile, Source: "imds", Seen: d.now, Deadline: d.now.Add(time.Minute)}})
	d.at(7, tuned, failover.Withdrawn{JobNoticeWithdrawn: events.JobNoticeWithdrawn{Epoch: 1, Lease: a}})
	d.end(10, a, "seller")
	b := d.buy(11, tuned, 2, "b")
	d.at(13, tuned, failover.Rejected{JobCheckpointRejected: events.JobCheckpointRejected{Epoch: 2, Lease: b, Checkpoint: checkpointAt(1, 20), Path: "weights", Detail: hostile}})
	d.at(14, tuned, failover.Stepped{JobStarted: events.JobStarted{Epoch: 2, Lease: b, From: 10, Step: 11}})
	d.at(20, tuned, failover.Exited{Epoch: 2, DoneRequest: events.DoneRequest{Lease: b}})
	d.end(22, b, "us")

	d.at(30, waiting, submit("twin"))
	d.decline(31, waiting, 1)

	d.at(40, leaving, submit("twin"))
	l := d.buy(41, leaving, 1, "c")
	d.at(43, leaving, failover.Noticed{JobNoticed: events.JobNoticed{Epoch: 1, Lease: l, Seen: d.now, Deadline: d.now.Add(2 * time.Minute)}})
	d.decline(44, leaving, 2)
	d.seller.list = provider.Listing{Complete: true, Instances: []provider.Instance{
		{ID: "i-c", Token: string(l), Pool: offer("c").Pool, State: provider.Running, Prices: []events.PriceFrom{{From: t0, Price: events.DollarPerHour}}},
		{ID: "i-b", Token: string(b), State: provider.Gone},
		{ID: "i-a", Token: string(a), Pool: offer("a").Pool, State: provider.Running},
		{ID: "i-lost", Token: hostile, State: provider.Running},
	}}
}

func (d *desk) decline(s int, job events.JobID, epoch int) {
	d.t.Helper()
	d.now = t0.Add(time.Duration(s) * time.Second)
	e := d.lease(job.Lease(epoch, 1), events.LeaseDeclined{Job: job, Epoch: epoch, N: 1, Reason: "waiting-for-capacity", Detail: "nobody has one " + hostile, RetryAt: d.now.Add(time.Minute)})
	d.at(s, job, failover.Declined{Event: e})
}

// ask asks as ann.
func ask[T any](d *desk, v Verb, body any) (T, *Problem) {
	d.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		d.t.Fatal(err)
	}
	var a answer[T]
	out := d.server.Handle(d.t.Context(), Subject(Admin, "ann", v), b)
	if err := json.Unmarshal(out, &a); err != nil {
		d.t.Fatalf("%s was answered %q: %v", v, out, err)
	}
	return a.Value, a.Problem
}

func code(p *Problem) string {
	if p == nil {
		return ""
	}
	return p.Code
}

type air struct {
	handle func(events.JobID, int, events.Heartbeat)
}

func (a *air) WatchSignals(ctx context.Context, handle func(events.JobID, int, events.Heartbeat)) error {
	a.handle = handle
	<-ctx.Done()
	return ctx.Err()
}

// shelf holds one line of output.
type shelf struct{}

func (shelf) ReadLog(_ context.Context, _ events.OrgID, job events.JobID, epoch int, _ time.Time, _ int) ([]events.LogBatch, error) {
	if job != tuned {
		return nil, nil
	}
	return []events.LogBatch{{Epoch: max(epoch, 1), First: 1, Lines: []events.LogLine{{At: t0, Stream: "stdout", Text: hostile}}}}, nil
}

// seller lists what it is given and meters half a dollar each.
type seller struct {
	list provider.Listing
	down bool
}

func (*seller) Offers(context.Context) ([]events.Offer, error) { return nil, nil }

func (*seller) Launch(context.Context, provider.LaunchSpec, string) (provider.Instance, error) {
	return provider.Instance{}, errors.New("not in this test")
}

func (*seller) Terminate(context.Context, events.InstanceID) error { return nil }

func (s *seller) List(context.Context) (provider.Listing, error) {
	if s.down {
		return provider.Listing{}, errors.New("503 " + hostile)
	}
	return s.list, nil
}

func (*seller) Metered(context.Context, events.InstanceID) (provider.Reading, error) {
	return provider.Reading{Amount: 500_000}, nil
}
