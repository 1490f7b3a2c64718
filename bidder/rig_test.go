package bidder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

// rig is a bidder between a fake seller and a stand-in for failover, on a log in memory.
type rig struct {
	t      *testing.T
	log    *eventstest.Log
	fake   *providertest.Fake
	seller provider.Provider // the fake, or something around it
	clock  func() events.Moment
	cfg    Config
	ctx    context.Context

	mu      sync.Mutex
	changed chan struct{}
	lie     func(events.Offer) events.Offer
	down    bool // the market shows nothing
}

const scale = 10

func newRig(t *testing.T, quotes ...Quote) *rig {
	began := time.Now()
	r := &rig{t: t, log: eventstest.New(time.Second), changed: make(chan struct{}), ctx: t.Context()}
	r.clock = func() events.Moment {
		now := time.Now()
		return events.Moment{Control: now, Market: noon.Add(now.Sub(began) * scale)}
	}
	var offers []events.Offer
	for _, q := range quotes {
		offers = append(offers, q.Offer)
	}
	r.fake = providertest.New(providertest.Config{Seller: "s", Now: r.clock, Offers: offers, Buy: time.Second, Boot: 5 * time.Second, Stop: 3 * time.Second, Visible: 7 * time.Second, EndVisible: 4 * time.Second, Memory: 1000 * time.Hour})
	r.seller = r.fake
	r.cfg = Config{
		Log: r.log, Market: r, Now: r.clock, Timers: events.DefaultTimers(), Mark: "test", Logger: zap.NewNop(), Scale: scale,
		Restart: 10 * time.Second, Acquire: 5 * time.Second,
		Bootstrap: func(_ context.Context, job events.JobID, epoch int, l events.LeaseID) ([]byte, error) {
			return []byte(l), nil
		},
	}
	return r
}

// Offers, Rate and Changed make the rig a Market that is always up to date.
func (r *rig) Offers() []events.Offer {
	r.mu.Lock()
	lie, down := r.lie, r.down
	r.mu.Unlock()
	if down {
		return nil
	}
	offers, _ := r.fake.Offers(context.Background())
	for i := range offers {
		offers[i].TTLS = 60
		if lie != nil {
			offers[i] = lie(offers[i])
		}
	}
	return offers
}

func (r *rig) Rate(p events.Pool, _ time.Duration) (float64, float64) { return 0.1, 10 }

func (r *rig) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *rig) bump(change func()) {
	change()
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// start runs a bidder, a ledger and the seller's clockwork until stop is called.
func (r *rig) start(change ...func(*Config)) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); r.fake.Run(ctx) }()
	cfg := r.cfg
	cfg.Book = ledger.NewBook(r.log, source, time.Now)
	cfg.Sellers = map[string]provider.Provider{"s": r.seller}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	books := ledger.New(ledger.Config{Log: r.log, Book: cfg.Book, Logger: zap.NewNop()})
	for _, run := range []func(context.Context) error{s.Run, books.Run} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := run(ctx); err != nil {
				r.t.Error(err)
			}
		}()
	}
	return func() { cancel(); wg.Wait() }
}

// owner stands in for failover: it answers what leases do with what a job owes.
type owner struct {
	r       *rig
	id      events.JobID
	mu      sync.Mutex
	epoch   int
	next    int // epoch of the machine wanted, 0 for none
	n       int
	notTill time.Time               // nothing is bought before
	held    map[events.LeaseID]bool // open leases
	cur     events.LeaseID
	over    bool
	moves   int
	deaf    bool // does nothing that it is told
}

func (r *rig) submit(id events.JobID, spec events.JobSpec) *owner {
	o := &owner{r: r, id: id, next: 1, n: 1, held: map[events.LeaseID]bool{}}
	o.append(events.JobSubmitted{Spec: spec, By: "test", Market: r.clock().Market})
	return o
}

func (o *owner) owed() []events.Command {
	var out []events.Command
	if o.next > 0 && !o.over {
		out = append(out, events.Command{ID: fmt.Sprintf("acquire-%s-%d-%d", o.id, o.next, o.n), Kind: events.Acquire, Epoch: o.next, N: o.n, Purpose: events.ForStart, NotTill: o.notTill})
	}
	for l := range o.held {
		if o.over || l != o.cur {
			out = append(out, events.Command{ID: "release-" + string(l), Kind: events.Release, Lease: l, Reason: "not needed"})
		}
	}
	return out
}

func (o *owner) append(f events.Fact) {
	a := events.JobAggregate("acme", o.id)
	for {
		evs, err := o.r.log.Read(o.r.ctx, a, 0)
		if err != nil {
			return
		}
		var prev *events.Event
		var after uint64
		if len(evs) > 0 {
			prev, after = &evs[len(evs)-1], evs[len(evs)-1].Position
		}
		e, err := events.Follow(a, prev, f)
		if err != nil {
			o.r.t.Error(err)
			return
		}
		e.Time, e.Attribution, e.Correlation, e.Commands = time.Now(), events.Attribution{Org: "acme", Team: "vision"}, string(o.id), o.owed()
		if _, err = o.r.log.Append(o.r.ctx, after, e); err == nil {
			return
		} else if !errors.Is(err, events.ErrConflict) && !errors.Is(err, events.ErrUnknown) {
			o.r.t.Error(err)
			return
		}
	}
}

// follow reacts to leases until ctx ends.
func (o *owner) follow(ctx context.Context) {
	o.r.log.Consume(ctx, events.Subscription{Name: "owner-" + string(o.id), Filters: []string{events.FilterLeases}}, func(_ context.Context, e events.Event) error {
		l := events.LeaseID(e.Aggregate.ID)
		if l.Job() != o.id {
			return nil
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.deaf {
			return nil
		}
		_, epoch, n, _ := l.Parts()
		switch f := e.Fact.(type) {
		case events.LeaseLaunched:
			if o.held[l] {
				return nil
			}
			o.held[l] = true
			mayMove := o.next == 0 && epoch == o.epoch+1
			if o.over || (epoch != o.next && !mayMove) {
				o.append(events.JobLeased{Epoch: epoch, Lease: l})
				return nil
			}
			if mayMove {
				o.moves++
			}
			o.epoch, o.next, o.n, o.cur = epoch, 0, 1, l
			o.append(events.JobLeased{Epoch: epoch, Lease: l, Instance: f.Instance})
			o.append(events.JobPlaced{Epoch: epoch, Lease: l})
		case events.LeaseDeclined:
			switch {
			case o.over || f.Reason == superseded:
			case f.Reason == "out-of-budget":
				o.end(events.OutOfBudget)
			case epoch == o.next && n >= o.n:
				o.n = n + 1
				o.append(events.JobWaiting{Reason: f.Reason, RetryAt: f.RetryAt})
			}
		case events.LeaseEnded:
			if !o.held[l] {
				return nil
			}
			delete(o.held, l)
			if l == o.cur && !o.over {
				o.next, o.n, o.cur = o.epoch+1, 1, ""
				o.append(events.JobLost{Epoch: epoch, Lease: l, Cause: events.CauseReclaim})
			}
			o.append(events.JobReleased{Lease: l})
			if o.over && len(o.held) == 0 {
				o.append(events.JobClosed{})
			}
		}
		return nil
	})
}

func (o *owner) end(outcome events.Outcome) {
	if o.over {
		return
	}
	o.over = true
	o.append(events.JobEnded{Outcome: outcome})
	if len(o.held) == 0 {
		o.append(events.JobClosed{})
	}
}

func (o *owner) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end(events.Succeeded)
}

func (o *owner) commit(step int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.append(events.JobCommitted{Epoch: o.epoch, Lease: o.cur, Checkpoint: events.Checkpoint{Step: step, Bytes: 1e9}})
}

func (o *owner) current() events.LeaseID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cur
}

// do runs the owner beside what it is given.
func (o *owner) do(fn func()) {
	ctx, cancel := context.WithCancel(o.r.ctx)
	done := make(chan struct{})
	go func() { defer close(done); o.follow(ctx) }()
	fn()
	cancel()
	<-done
}

// eventually waits up to limit of control time for a condition.
func (r *rig) eventually(what string, limit time.Duration, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			r.t.Fatalf("not within %s: %s\n%s", limit, what, r.story())
		}
	}
}

// story is what happened, for a failure's message.
func (r *rig) story() string {
	out := ""
	for _, i := range r.fake.Live() {
		out += fmt.Sprintf("alive: %s %s\n", i.Token, i.Instance)
	}
	for _, filter := range []string{events.FilterJobs, events.FilterLeases, events.FilterMoney} {
		for _, e := range r.log.Events(filter) {
			row, _ := events.TypeOf(e.Fact)
			text := ""
			switch f := e.Fact.(type) {
			case events.LeaseIntended:
				text = f.Offer.Pool.String() + " " + f.Decision.Rule
			case events.LeaseDeclined:
				text = f.Reason + ": " + f.Detail
			case events.LeaseRefused:
				text = f.Kind + ": " + f.Detail
			case events.LeaseTerminating:
				text = f.Reason
			case events.LeaseEnded:
				text = f.EndedBy
			case events.MoneySettled:
				text = fmt.Sprint(f.Lease, " ", f.Amount, " overrun ", f.Overrun)
			case events.MoneyReleased:
				text = fmt.Sprint(f.Lease, " ", f.Reason)
			case events.MoneyReserved:
				text = fmt.Sprint(f.Lease, " ", f.Amount, " until ", f.PaidTill.Format(time.TimeOnly))
			case events.MoneyExtended:
				text = fmt.Sprint(f.Lease, " +", f.Amount, " until ", f.PaidTill.Format(time.TimeOnly))
			}
			out += fmt.Sprintf("%s %-22s %s %s %s\n", e.Time.Format("15:04:05.000"), row.Family+"."+row.Event, e.Aggregate.ID, text, owedText(e))
		}
	}
	return out
}

func owedText(e events.Event) string {
	s := ""
	for _, c := range e.Commands {
		s += "[" + c.ID + "]"
	}
	return s
}

// books folds the money; it fails the test if anything was committed beyond a limit in force then.
func (r *rig) books() *ledger.State {
	r.t.Helper()
	s := &ledger.State{}
	for _, e := range r.log.Events(events.FilterMoney) {
		if err := s.Apply(e); err != nil {
			r.t.Fatal(err)
		}
		for _, a := range s.Jobs() {
			if a.Set && commits(e, a.Job) && a.Spent-a.Overrun+a.Reserved > a.Limit {
				r.t.Fatalf("after %s job %s has spent %s and reserved %s of %s\n%s", e.ID, a.Job, a.Spent, a.Reserved, a.Limit, r.story())
			}
		}
	}
	return s
}

// commits says whether an event sets money of a job aside.
func commits(e events.Event, job events.JobID) bool {
	switch f := e.Fact.(type) {
	case events.MoneyReserved:
		return f.Job == job
	case events.MoneyExtended:
		return f.Job == job
	}
	return false
}

// audit checks what must hold once everything has ended: nothing lives, nothing is reserved,
// and the ledger equals the seller's meter to the micro-dollar.
func (r *rig) audit() *ledger.State {
	r.t.Helper()
	s := r.books()
	var spent, reserved events.MicroUSD
	for _, a := range s.Jobs() {
		spent += a.Spent
		reserved += a.Reserved
	}
	if live := r.fake.Live(); len(live) > 0 || reserved != 0 {
		r.t.Errorf("%d machines live, %s reserved\n%s", len(live), reserved, r.story())
	}
	if meter := r.fake.MeterTotal(); meter != spent {
		r.t.Errorf("ledger has %s, the seller's meter %s\n%s", spent, meter, r.story())
	}
	if n := r.fake.ForeignKills(); n > 0 {
		r.t.Errorf("%d foreign machines ended", n)
	}
	return s
}

// closed says whether a job is closed and everything of it ended and settled.
func (r *rig) closed(ids ...events.JobID) func() bool {
	return func() bool {
		if len(r.fake.Live()) > 0 {
			return false
		}
		for _, id := range ids {
			evs, _ := r.log.Read(r.ctx, events.JobAggregate("acme", id), 0)
			if _, ok := evs[len(evs)-1].Fact.(events.JobClosed); !ok {
				return false
			}
		}
		s := r.books()
		return !slices.ContainsFunc(s.Jobs(), func(a ledger.Account) bool { return a.Reserved != 0 })
	}
}

// facts returns the lease facts of one type, oldest first.
func facts[F any](r *rig) []F {
	var out []F
	for _, e := range r.log.Events(events.FilterLeases) {
		if f, ok := e.Fact.(F); ok {
			out = append(out, f)
		}
	}
	return out
}

// crashAt ends a service at the n-th time it reaches a point. It returns the hook and whether it was reached.
func crashAt(point string, nth int, cancel func()) (func(string), func() bool) {
	var mu sync.Mutex
	seen := 0
	return func(p string) {
			mu.Lock()
			hit := p == point && func() bool { seen++; return seen == nth }()
			dead := seen >= nth && point != ""
			mu.Unlock()
			if hit {
				cancel()
			}
			if dead {
				runtime.Goexit() // a dead process does nothing more, wherever its goroutines stand
			}
		}, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen >= nth
		}
}

func anyGPU() events.JobSpec {
	s := situation().Spec
	s.Policy.Deadline = time.Time{}
	return s
}
