package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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
	org events.OrgID = "acme"
	job events.JobID = "j1"
)

var t0 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// rig is a gateway over a log in memory, with a clock that stands still until it is moved.
type rig struct {
	t        *testing.T
	log      *eventstest.Log
	book     *failover.Book
	accounts *operator
	signals  *board
	store    *mem.Store
	gateway  *Gateway
	now      time.Time
	pushed   []string
	leases   int
	onStat   func() // before the store is asked about an object
	blind    bool   // it is not to be
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, log: eventstest.New(0), accounts: &operator{}, signals: &board{}, now: t0}
	r.store = mem.New(mem.Config{Plan: func(op mem.Op) (f mem.Fault) {
		if op.Verb == mem.Stat && r.onStat != nil {
			r.onStat()
		}
		if op.Verb == mem.Stat && r.blind {
			f.Before = errors.New("nobody was to look")
		}
		return f
	}})
	r.book = failover.NewBook(r.log, r.moment)
	r.gateway = New(r.config())
	if _, err := r.book.Submit(t.Context(), job, failover.Submit{
		Attribution: events.Attribution{Org: org}, By: "ann",
		Spec: events.JobSpec{Name: "n", Run: "train", Policy: events.Policy{Budget: 10 * events.Dollar}},
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) config() Config {
	return Config{
		Log: r.log, Book: r.book, Accounts: r.accounts, Signals: r.signals, Vault: &safe{}, Store: r.store,
		Grant: events.StoreGrant{Kind: "dir", Path: "/store"}, Timers: events.DefaultTimers(), URL: "nats://bus", Now: r.moment,
		Control: func(market time.Time) time.Time { return t0.Add(market.Sub(t0) / 60) },
		Push:    func(job events.JobID, epoch int) { r.pushed = append(r.pushed, fmt.Sprint(job, " ", epoch)) },
		Logger:  zap.NewNop(),
	}
}

// moment has market time run 60 times as fast.
func (r *rig) moment() events.Moment {
	return events.Moment{Control: r.now, Market: t0.Add(60 * r.now.Sub(t0))}
}

func (r *rig) apply(in failover.Input) failover.Job {
	r.t.Helper()
	j, _, err := r.book.Apply(r.t.Context(), job, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

func (r *rig) leaseEvent(l events.LeaseID, f events.Fact) events.Event {
	r.leases++
	return events.Event{ID: events.EventID(fmt.Sprintf("%s-%d", l, r.leases)), Aggregate: events.LeaseAggregate(org, l), Time: r.now, Fact: f}
}

// buy launches the lease of an epoch.
func (r *rig) buy(epoch, n int) events.LeaseID {
	r.t.Helper()
	l := job.Lease(epoch, n)
	r.apply(failover.Bought{
		Lease:    l,
		Intent:   r.leaseEvent(l, events.LeaseIntended{Job: job, Epoch: epoch, N: n, Purpose: events.ForReplace}),
		Launched: r.leaseEvent(l, events.LeaseLaunched{Instance: events.InstanceID("i-" + l), Price: events.DollarPerHour, BootBy: r.now.Add(time.Hour)}),
	})
	return l
}

func (r *rig) gone(l events.LeaseID) {
	r.t.Helper()
	r.apply(failover.Gone{Event: r.leaseEvent(l, events.LeaseEnded{EndedBy: "seller"})})
}

// placed is a rig whose job runs on its first machine, in epoch 1.
func placed(t *testing.T) (*rig, events.LeaseID) {
	t.Helper()
	r := newRig(t)
	l := r.buy(1, 1)
	if got := r.join(1, l, "UA"); got.Refusal != nil {
		t.Fatal(got.Refusal)
	}
	return r, l
}

// request sends one request as an agent of an epoch does.
func request[T any](r *rig, epoch int, v events.Verb, body any) (reply T) {
	r.t.Helper()
	return requestOf[T](r, job, epoch, v, body)
}

func requestOf[T any](r *rig, job events.JobID, epoch int, v events.Verb, body any) (reply T) {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.gateway.Handle(r.t.Context(), events.AgentSubject(job, epoch, v), b)
	if err := json.Unmarshal(out, &reply); err != nil {
		r.t.Fatalf("%s was answered %q: %v", v, out, err)
	}
	return reply
}

func (r *rig) join(epoch int, l events.LeaseID, key string) events.JoinReply {
	return request[events.JoinReply](r, epoch, events.VerbJoin, events.JoinRequest{Lease: l, Key: key})
}

func (r *rig) renew(epoch int, hb events.Heartbeat) events.RenewReply {
	return request[events.RenewReply](r, epoch, events.VerbRenew, hb)
}

func code(r *events.Refusal) string {
	if r == nil {
		return ""
	}
	return r.Code
}

func (r *rig) job() failover.Job {
	r.t.Helper()
	j, err := r.book.Job(r.t.Context(), job)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// save uploads a checkpoint of one small file and returns the request to commit it.
func (r *rig) save(l events.LeaseID, epoch int, step int64) events.CommitRequest {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weights"), fmt.Append(nil, epoch, step), 0o600); err != nil {
		r.t.Fatal(err)
	}
	e, err := checkpoint.New(checkpoint.Config{Store: r.store, Tenant: string(org), Job: string(job), Now: func() time.Time { return t0 }})
	if err != nil {
		r.t.Fatal(err)
	}
	ref, err := e.Upload(r.t.Context(), checkpoint.SaveRequest{Dir: dir, As: "c", Epoch: epoch, Step: step})
	if err != nil {
		r.t.Fatal(err)
	}
	return events.CommitRequest{Lease: l, SaveMS: 5, UploadMS: 7, Checkpoint: events.Checkpoint{
		Name: ref.Name, Epoch: epoch, Step: step, Digest: ref.Digest, Bytes: ref.Bytes, Files: ref.Files,
	}}
}

func (r *rig) commit(epoch int, c events.CommitRequest) *events.Refusal {
	r.t.Helper()
	return request[events.Reply](r, epoch, events.VerbCommit, c).Refusal
}

// operator remembers what was asked of it, in order.
type operator struct {
	mu     sync.Mutex
	acts   []string
	minted int // bootstrap tokens
	down   bool
}

func (o *operator) did(format string, args ...any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return errors.New("the system account does not answer")
	}
	o.acts = append(o.acts, fmt.Sprintf(format, args...))
	return nil
}

func (o *operator) AddJob(_ context.Context, j events.JobID) error { return o.did("add %s", j) }

func (o *operator) DropJob(_ context.Context, j events.JobID) error { return o.did("drop %s", j) }

func (o *operator) Revoke(_ context.Context, j events.JobID, key string) error {
	return o.did("revoke %s", key)
}

func (o *operator) User(j events.JobID, epoch int, key string) (string, error) {
	return fmt.Sprintf("jwt %s %d %s", j, epoch, key), nil
}

func (o *operator) Bootstrap(j events.JobID, epoch int, l events.LeaseID) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.minted++
	return fmt.Sprintf("token %d of %s", o.minted, l), nil
}

// board keeps heartbeats and output.
type board struct {
	beats  []events.Heartbeat
	newest map[int]events.Heartbeat // by epoch
	lines  []events.LogBatch
}

func (b *board) PutSignal(_ context.Context, _ events.OrgID, _ events.JobID, epoch int, hb events.Heartbeat) error {
	b.beats = append(b.beats, hb)
	if b.newest == nil {
		b.newest = map[int]events.Heartbeat{}
	}
	b.newest[epoch] = hb
	return nil
}

func (b *board) Signal(_ context.Context, _ events.OrgID, _ events.JobID, epoch int) (events.Heartbeat, bool, error) {
	hb, ok := b.newest[epoch]
	return hb, ok, nil
}

func (b *board) AppendLog(_ context.Context, _ events.OrgID, _ events.JobID, l events.LogBatch) error {
	b.lines = append(b.lines, l)
	return nil
}

// signer signs whatever it is asked to, and remembers it.
type signer struct {
	signed []signature
	fail   bool
}

type signature struct {
	verb checkpoint.Verb
	name string
	size int64
	life time.Duration
}

func (s *signer) Sign(_ context.Context, verb checkpoint.Verb, name string, size int64, life time.Duration) (checkpoint.Access, error) {
	if s.fail {
		return checkpoint.Access{}, errors.New("the key is gone")
	}
	s.signed = append(s.signed, signature{verb, name, size, life})
	return checkpoint.Access{Method: "GET", URL: "https://store/" + name, Until: t0.Add(life)}, nil
}

// safe is a vault in memory.
type safe struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (s *safe) Keep(_ context.Context, key string, value []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.kept[key]; ok {
		return have, nil
	}
	if s.kept == nil {
		s.kept = map[string][]byte{}
	}
	s.kept[key] = value
	return value, nil
}
