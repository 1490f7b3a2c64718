package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// figure is the value of one metric.
func figure(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// collecting is a rig with the metrics of its gateway, whose job has committed these many checkpoints.
func collecting(t *testing.T, commits int) (*rig, events.LeaseID, *prometheus.Registry) {
	r, l := placed(t)
	reg := prometheus.NewRegistry()
	cfg := r.config()
	cfg.Metrics = NewMetrics(reg)
	r.gateway = New(cfg)
	for step := range int64(commits) {
		if got := r.commit(1, r.save(l, 1, step+1)); got != nil {
			t.Fatal(got)
		}
	}
	return r, l, reg
}

func (r *rig) collect(q CollectRequest) Collected {
	r.t.Helper()
	q.Job = job
	got, err := r.gateway.Collect(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func TestARoundDropsFirstAndDeletesLater(t *testing.T) {
	r, _, reg := collecting(t, 5)
	before := len(r.store.Names())
	if got := r.collect(CollectRequest{DryRun: true}); len(got.Dropped) != 2 || got.Objects != 0 || len(r.job().Drops) != 0 {
		t.Errorf("a dry run: %+v, %d dropped", got, len(r.job().Drops))
	}
	if got := r.collect(CollectRequest{By: "ann", Reason: "disk"}); len(got.Dropped) != 2 || got.Objects != 0 || got.Waiting != 2 || !got.NextDue.Equal(r.now.Add(10*time.Minute)) {
		t.Errorf("the first round: %+v", got)
	}
	if d := r.job().Drops[0]; d.By != "ann" || d.Reason != "policy.checkpoint.keep: disk" {
		t.Errorf("on record: %+v", d)
	}
	r.now = r.now.Add(10*time.Minute - 1)
	if got := r.collect(CollectRequest{}); got.Objects != 0 || len(r.store.Names()) != before {
		t.Errorf("before the grace is over: %+v", got)
	}
	r.now = r.now.Add(1)
	if got := r.collect(CollectRequest{DryRun: true}); got.Objects != 2 || len(r.store.Names()) != before {
		t.Errorf("a dry run: %+v", got)
	}
	if got := r.collect(CollectRequest{}); got.Objects != 2 || got.Waiting != 0 || len(r.store.Names()) != before-2 {
		t.Errorf("then: %+v", got)
	}
	if got := r.collect(CollectRequest{}); got.Objects != 0 {
		t.Errorf("and once more: %+v", got)
	}
	if n, b, k := figure(t, reg, "spotferry_checkpoint_deleted_objects_total"), figure(t, reg, "spotferry_checkpoint_store_objects"), figure(t, reg, "spotferry_checkpoint_collection_failures_total"); n != 2 || b != float64(before-2) || k != 0 {
		t.Errorf("%v deleted, %v there, %v failures", n, b, k)
	}
}

func TestAManifestThatCannotBeReadStopsTheDeletion(t *testing.T) {
	r, _, reg := collecting(t, 5)
	r.collect(CollectRequest{})
	r.now = r.now.Add(time.Hour)
	cfg := r.config()
	cfg.Metrics = r.gateway.cfg.Metrics
	r.gateway = New(cfg) // which has read nothing yet
	kept := r.job().Commits[4].Name
	r.store.Edit(checkpoint.Prefix(string(org), string(job))+kept, mem.Flipped(9))
	before := len(r.store.Names())
	if got := r.collect(CollectRequest{}); !strings.Contains(got.Blocked, kept) || got.Objects != 0 || len(r.store.Names()) != before {
		t.Errorf("%+v", got)
	}
	if n := figure(t, reg, "spotferry_checkpoint_collection_failures_total"); n != 1 {
		t.Errorf("%v failures", n)
	}
}

func TestAnEndedJobKeepsItsResultAndNothingElse(t *testing.T) {
	r, l, _ := collecting(t, 5)
	r.save(l, 1, 99) // never committed
	r.apply(failover.Cancel{By: "ann"})
	r.gone(l)
	r.collect(CollectRequest{})
	r.now = r.now.Add(time.Hour)
	r.collect(CollectRequest{})
	result := *r.job().Newest()
	if names := r.store.Names(); len(names) != 2 || result.Step != 5 {
		t.Fatalf("left: %q", names)
	}
	if err := checkpoint.Verify(t.Context(), r.store, string(org), string(job), refOf(result), true); err != nil {
		t.Error(err)
	}
	r.apply(failover.Drop{Names: []string{result.Name}, By: "ann", Reason: "copied away"})
	r.now = r.now.Add(time.Hour)
	if got := r.collect(CollectRequest{}); got.Objects != 2 || len(r.store.Names()) != 0 {
		t.Errorf("%+v, left: %q", got, r.store.Names())
	}
}

// TestRoundsGoOnByThemselves: once nothing is left to do for an ended job, the store is not asked about it any more.
func TestRoundsGoOnByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l, _ := collecting(t, 5)
		lists := 0
		r.store = r.store.Clone(mem.Config{Plan: func(op mem.Op) mem.Fault {
			if op.Verb == mem.List {
				lists++
			}
			return mem.Fault{}
		}})
		start, turns := time.Now(), 0
		cfg := r.config()
		cfg.Now = func() events.Moment {
			return events.Moment{Control: t0.Add(time.Since(start)), Market: t0.Add(time.Since(start))}
		}
		r.book = failover.NewBook(r.log, cfg.Now)
		cfg.Book, cfg.Turn = r.book, func() { turns++ }
		r.gateway = New(cfg)
		r.apply(failover.Cancel{By: "ann"})
		r.gone(l)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.gateway.Run(ctx) }()
		time.Sleep(25 * time.Minute)
		if n := len(r.job().Drops); n != 4 || turns != 2 {
			t.Errorf("%d dropped in %d rounds", n, turns)
		}
		time.Sleep(2 * time.Hour)
		was := lists
		time.Sleep(24 * time.Hour)
		if lists != was || was == 0 {
			t.Errorf("%d lists, then %d", was, lists)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatCheckpointsTake(t *testing.T) {
	r, l, _ := collecting(t, 0)
	one := checkpoint.Chunk{Hash: hashOf("a"), Size: 10}
	r.commit(1, r.forge(l, 1, 1, map[string]int64{objectOf(1, "a").Name: 10}, nil, one))
	r.commit(1, r.forge(l, 1, 2, map[string]int64{objectOf(1, "b").Name: 10}, nil, one, checkpoint.Chunk{Hash: hashOf("b"), Size: 10}, checkpoint.Chunk{Size: 100}))
	u, err := r.gateway.Usage(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	second := u.Checkpoints[1]
	if len(u.Checkpoints) != 2 || second.New != 10 || second.Shared != 10 || second.Stored != 20 || u.Needed != 20 || u.Held != 130 || u.Saved != 110 || u.Objects != 4 || u.Bytes <= 20 {
		t.Errorf("%+v", u)
	}
	c, err := r.gateway.Contents(t.Context(), job, second.Name)
	if err != nil || len(c.Files) != 1 || c.Files[0].Zeros != 100 || c.Files[0].Stored != 20 || c.Files[0].Chunks != 3 || len(c.Objects) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	r.apply(failover.Cancel{By: "ann"})
	r.apply(failover.Drop{Names: []string{second.Name}, By: "ann", Reason: "x"})
	if _, err := r.gateway.Contents(t.Context(), job, second.Name); err == nil {
		t.Error("a dropped one is shown")
	} else if _, refused := failover.IsRefused(err); !refused {
		t.Error(err)
	}
}

func TestTheTenantsKeyIsSealedToWhoeverMayHaveIt(t *testing.T) {
	k := newKeeper(t)
	cfg := k.config()
	key := chunk.NewKey()
	cfg.Keys, cfg.TenantKey = k.curve, func(_ context.Context, o events.OrgID) (chunk.Key, bool, error) { return key, o == org, nil }
	cfg.Grant, cfg.Signer = events.StoreGrant{Kind: "signed", Cache: "/cache"}, &signer{}
	k.gateway = New(cfg)
	secret := k.lease.Job()
	plain := k.request
	plain.SealTo, plain.Proof = "", nil
	if got := requestOf[events.JoinReply](k.rig, secret, 1, events.VerbJoin, plain); code(got.Refusal) != events.RefusedInvalid {
		t.Errorf("an agent that cannot take a key: %+v", got.Refusal)
	}
	got := requestOf[events.JoinReply](k.rig, secret, 1, events.VerbJoin, k.request)
	if got.Refusal != nil || got.Store.Key == nil {
		t.Fatalf("%+v", got)
	}
	open := func(s *events.Sealed) string {
		clear, err := k.own.OpenSecrets(*s)
		if err != nil {
			t.Fatal(err)
		}
		values, err := events.UnpackSecrets(secret, clear)
		if err != nil {
			t.Fatal(err)
		}
		return values[CheckpointKey].Reveal()
	}
	if open(got.Store.Key) != hex.EncodeToString(key[:]) {
		t.Error("another key")
	}
	person, err := k.gateway.Access(t.Context(), AccessRequest{Job: secret, SealTo: k.request.SealTo})
	if err != nil || open(person.Store.Key) != hex.EncodeToString(key[:]) || person.Store.Cache != "" {
		t.Errorf("%+v, %v", person, err)
	}
	if _, err := k.gateway.Access(t.Context(), AccessRequest{Job: secret, SealTo: "nonsense"}); err == nil {
		t.Error("sealed to nonsense")
	}
	for verb, ok := range map[string]bool{"get": true, "head": true, "put": false, "delete": false} {
		q := AccessRequest{Job: job, Verb: verb, Names: []events.GrantObject{{Name: objectOf(7, "a").Name, Size: 1}}}
		if got, err := k.gateway.Access(t.Context(), q); (err == nil) != ok || ok && len(got.Access) != 1 {
			t.Errorf("%s: %+v, %v", verb, got, err)
		}
		q.Names[0].Name = "v1/other/jobs/j1/data/0000000001/" + hashOf("a")
		if _, err := k.gateway.Access(t.Context(), q); err == nil {
			t.Errorf("%s of another organisation's", verb)
		}
	}
	cfg.TenantKey = func(context.Context, events.OrgID) (chunk.Key, bool, error) {
		return chunk.Key{}, false, errors.New("the vault is sealed")
	}
	k.gateway = New(cfg)
	if got := requestOf[events.JoinReply](k.rig, secret, 1, events.VerbJoin, k.request); code(got.Refusal) != events.RefusedUnavailable {
		t.Errorf("without its key no machine begins: %+v", got)
	}
}
