package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// runs is the life of the job: machine after machine, taken in every way, and its end.
func (w *world) runs(ctx context.Context, r *rand.Rand) {
	lives := 2 + r.IntN(2)
	for n := 0; n < lives; {
		epoch, lease, ok := w.places(ctx, r)
		if !ok {
			return
		}
		for ; n < lives; n++ {
			w.tally.add("epochs", 1)
			agent, kill := context.WithCancel(ctx)
			w.go_(func(r *rand.Rand) { w.agent(agent, r, lease, epoch) })
			rest(ctx, within(r, 90*time.Minute))
			if r.IntN(2) == 0 {
				kill()
			} else { // it does not hear that it is over
				w.go_(func(r *rand.Rand) { rest(ctx, within(r, time.Hour)); kill() })
			}
			if r.IntN(3) > 0 || n == lives-1 {
				n++
				break
			}
			if epoch, ok = w.restarts(ctx, r, lease, epoch); !ok {
				break
			}
		}
		if n < lives {
			w.loses(ctx, r, lease, epoch)
		}
	}
	j, err := w.apply(ctx, r, failover.Cancel{By: "ann"})
	w.must(nil, err)
	if j.Newest() != nil {
		w.tally.add("jobs ended with a result", 1)
	}
	for _, l := range j.Open {
		_, err := w.apply(ctx, r, failover.Gone{Event: w.leaseEvent(l, events.LeaseEnded{EndedBy: "us"})})
		w.must(nil, err)
	}
	rest(ctx, within(r, 40*time.Minute))
}

func (w *world) leaseEvent(l events.LeaseID, f events.Fact) events.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases++
	return events.Event{ID: events.EventID(fmt.Sprintf("%s-%d", l, w.leases)), Aggregate: events.LeaseAggregate(org, l), Time: time.Now(), Fact: f}
}

// places buys a machine and waits until it has the job. Should the one before
// turn out to be alive after all, it is taken for good.
func (w *world) places(ctx context.Context, r *rand.Rand) (int, events.LeaseID, bool) {
	for {
		j, err := w.books[0].Job(ctx, job)
		w.must(nil, err)
		epoch, lease := j.NextEpoch, job.Lease(j.NextEpoch, j.NextN)
		_, err = w.apply(ctx, r, failover.Bought{
			Lease:    lease,
			Intent:   w.leaseEvent(lease, events.LeaseIntended{Job: job, Epoch: epoch, N: j.NextN, Purpose: events.ForReplace}),
			Launched: w.leaseEvent(lease, events.LeaseLaunched{Instance: events.InstanceID("i-" + lease), Price: events.DollarPerHour, BootBy: time.Now().Add(24 * time.Hour)}),
		})
		w.must(nil, err)
		if !rest(ctx, within(r, 5*time.Minute)) {
			return 0, "", false
		}
		got := ask_[events.JoinReply](ctx, w, r, epoch, events.VerbJoin, events.JoinRequest{Lease: lease, Key: "U" + string(lease)})
		j, err = w.books[0].Job(ctx, job)
		w.must(nil, err)
		switch {
		case got.Refusal == nil && j.Current != nil && j.Current.Lease == lease:
			return epoch, lease, true
		case j.Current == nil:
			w.t.Errorf("seed %d: epoch %d has not got the job: %v", w.seed, epoch, got.Refusal)
			return 0, "", false
		}
		_, err = w.apply(ctx, r, failover.Gone{Event: w.leaseEvent(j.Current.Lease, events.LeaseEnded{EndedBy: "seller"})})
		w.must(nil, err)
	}
}

// restarts has the trainer die on its machine, which goes on under a new epoch.
func (w *world) restarts(ctx context.Context, r *rand.Rand, lease events.LeaseID, epoch int) (int, bool) {
	_, err := w.apply(ctx, r, failover.Exited{Epoch: epoch, DoneRequest: events.DoneRequest{Lease: lease, Code: -1, Signal: "SIGKILL"}})
	w.must(nil, err)
	for range 20 {
		j, err := w.apply(ctx, r, failover.Tick{})
		w.must(nil, err)
		if j.Epoch > epoch && j.Current != nil {
			return j.Epoch, true
		}
		if !rest(ctx, time.Minute) {
			return 0, false
		}
	}
	return 0, false
}

// loses has the machine gone, or silent.
func (w *world) loses(ctx context.Context, r *rand.Rand, lease events.LeaseID, epoch int) {
	if r.IntN(2) == 0 {
		_, err := w.apply(ctx, r, failover.Gone{Event: w.leaseEvent(lease, events.LeaseEnded{EndedBy: "seller"})})
		w.must(nil, err)
		return
	}
	_, err := w.apply(ctx, r, failover.Silent{Epoch: epoch, Heard: failover.Heard{At: time.Now()}})
	w.must(nil, err)
}

// agent restores what it is told to and then saves, until it is killed or fenced.
func (w *world) agent(ctx context.Context, r *rand.Rand, lease events.LeaseID, epoch int) {
	e := w.engine()
	from, ok := w.restores(ctx, r, e, lease, epoch)
	if !ok {
		return
	}
	t := tree{dir: fmt.Sprintf("%s/%d-%d", w.dir, epoch, r.Uint32()), large: w.seed%8 == 0}
	began, step := false, from
	for rest(ctx, within(r, 12*time.Minute)) {
		step += 1 + r.Int64N(5)
		if !began {
			hb := events.Heartbeat{Lease: lease, State: "training", Step: step, From: from}
			began = ask_[events.RenewReply](ctx, w, r, epoch, events.VerbRenew, hb).Refusal == nil
		}
		if r.IntN(12) == 0 { // killed and begun anew in the same epoch
			e = w.engine()
			if j, err := w.books[0].Job(ctx, job); err == nil && j.Newest() != nil {
				if err := e.Adopt(ctx, refOf(*j.Newest())); err != nil {
					continue
				}
			}
		}
		if err := t.change(r); err != nil {
			w.t.Error(err)
			return
		}
		if !w.saves(ctx, r, e, t, lease, epoch, step) {
			return
		}
	}
}

func (w *world) engine() *checkpoint.Engine {
	e, err := checkpoint.New(checkpoint.Config{Store: w.store, Tenant: string(org), Job: string(job), Now: time.Now, Workers: 2, ChunkSize: 1 << 20, Compress: checkpoint.CompressOff})
	w.must(nil, err)
	return e
}

// restores tries what the order lists, and returns the step that was restored.
func (w *world) restores(ctx context.Context, r *rand.Rand, e *checkpoint.Engine, lease events.LeaseID, epoch int) (int64, bool) {
	for rest(ctx, time.Second+within(r, time.Minute)) {
		got := ask_[events.RenewReply](ctx, w, r, epoch, events.VerbRenew, events.Heartbeat{Lease: lease, State: "restoring", Step: -1})
		if got.Refusal != nil || got.Epoch != 0 {
			if got.Epoch != 0 || got.Refusal.Code == events.RefusedFenced {
				return 0, false
			}
			continue
		}
		if got.Order != events.OrderStart {
			continue
		}
		for i, c := range got.Resume {
			if i < len(got.Resume)-1 && r.IntN(8) == 0 { // it did not restore, it says, and sometimes nobody hears that
				if r.IntN(3) > 0 {
					ask_[events.Reply](ctx, w, r, epoch, events.VerbReject, events.RejectRequest{Lease: lease, Checkpoint: c, Path: "x", Detail: "bad"})
				}
				w.tally.add("restores that began at an older checkpoint", 1)
				continue
			}
			if !w.whole(ctx, e, c, func() bool { return w.oracle.has(epoch) }, fmt.Sprintf("the agent of epoch %d", epoch)) {
				return 0, false
			}
			w.tally.add("restores by machines", 1)
			return c.Step, e.Adopt(ctx, refOf(c)) == nil
		}
		return 0, true
	}
	return 0, false
}

// whole reads all of a checkpoint, and says whether it is whole. That it is not is wrong if still says so.
func (w *world) whole(ctx context.Context, e *checkpoint.Engine, c events.Checkpoint, still func() bool, who string) bool {
	for {
		err := e.Verify(ctx, refOf(c), true)
		_, bad := errors.AsType[*checkpoint.Rejection](err)
		switch {
		case err == nil:
			return true
		case bad && still():
			w.t.Errorf("seed %d, %s: %s cannot restore %s: %v", w.seed, w.oracle.clock(), who, c.Name, err)
			return false
		case bad || ctx.Err() != nil:
			return false
		}
	}
}

// saves uploads and commits. It returns false when the agent is fenced.
func (w *world) saves(ctx context.Context, r *rand.Rand, e *checkpoint.Engine, t tree, lease events.LeaseID, epoch int, step int64) bool {
	var ref checkpoint.Ref
	var err error
	for range 3 {
		if ref, err = e.Upload(ctx, checkpoint.SaveRequest{Dir: t.dir, As: "c", Epoch: epoch, Step: step}); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return ctx.Err() == nil
	}
	if r.IntN(8) == 0 {
		w.tally.add("saves that never were committed", 1)
		return true
	}
	c := events.CommitRequest{Lease: lease, Checkpoint: events.Checkpoint{Name: ref.Name, Epoch: epoch, Step: step, Digest: ref.Digest, Bytes: ref.Bytes, Files: ref.Files}}
	for rest(ctx, within(r, time.Second)) {
		got := ask_[events.Reply](ctx, w, r, epoch, events.VerbCommit, c).Refusal
		if r.IntN(8) == 0 {
			w.tally.add("commits whose answer was lost", 1)
			if r.IntN(2) == 0 {
				return true // and it goes on with the next
			}
			continue
		}
		switch code(got) {
		case "":
			w.tally.add("commits", 1)
			w.oracle.committed(c.Checkpoint)
			return true
		case events.RefusedFenced:
			w.tally.add("fenced commits", 1)
			return r.IntN(3) > 0 // a zombie that does not believe it
		case events.RefusedInvalid:
			if w.oracle.has(epoch) {
				w.t.Errorf("seed %d, %s: epoch %d may not commit %s: %v", w.seed, w.oracle.clock(), epoch, ref.Name, got)
			}
			return true
		case events.RefusedStale:
			return true
		}
	}
	return false
}

// meddles pins, unpins and drops, rightly or not.
func (w *world) meddles(ctx context.Context, r *rand.Rand) {
	for rest(ctx, within(r, 25*time.Minute)) {
		j, err := w.books[r.IntN(2)].Job(ctx, job)
		if err != nil || len(j.Commits) == 0 {
			continue
		}
		name := j.Commits[r.IntN(len(j.Commits))].Name
		if r.IntN(3) == 0 { // the oldest that is kept: the next to go
			if kept := j.Kept(); len(kept) > 0 {
				name = kept[0].Name
			}
		}
		var in failover.Input
		switch r.IntN(4) {
		case 0, 1:
			in = failover.Pin{Name: name, By: "ann", Reason: "best"}
		case 2:
			in = failover.Unpin{Name: name, By: "ann", Reason: "no more"}
		default:
			in = failover.Drop{Names: []string{name}, By: "ann", Reason: "room"}
		}
		_, evs, err := w.books[r.IntN(2)].Apply(ctx, job, in)
		_, refused := failover.IsRefused(err)
		switch _, drop := in.(failover.Drop); {
		case refused && drop:
			w.tally.add("drops refused", 1)
		case len(evs) > 0 && drop:
			w.tally.add("checkpoints dropped by people", 1)
		case len(evs) > 0:
			w.tally.add("pins", 1)
		case err != nil && !refused && ctx.Err() == nil:
			w.t.Errorf("seed %d: %v", w.seed, err)
		}
	}
}

// reads restores as people do, under a pin, or without one within the grace.
func (w *world) reads(ctx context.Context, r *rand.Rand) {
	e := w.engine()
	for n := 0; rest(ctx, within(r, 30*time.Minute)); n++ {
		j, err := w.books[r.IntN(2)].Job(ctx, job)
		if err != nil || len(j.Kept()) == 0 {
			continue
		}
		kept := j.Kept()
		c := kept[r.IntN(1+r.IntN(len(kept)))] // the older the likelier
		if r.IntN(2) == 0 {
			if w.whole(ctx, e, c, func() bool { return w.oracle.readable(c.Name) }, "a reader without a pin") {
				w.tally.add("reads within the grace", 1)
			}
			continue
		}
		holder, until := fmt.Sprint("restore-", n), time.Now().Add(2*time.Hour)
		if _, err := w.apply(ctx, r, failover.Pin{Name: c.Name, Holder: holder, By: "bob", Reason: "to look at", Until: until}); err != nil {
			continue
		}
		rest(ctx, within(r, time.Hour))
		if w.whole(ctx, e, c, func() bool { return time.Now().Before(until) }, "a reader with a pin") {
			w.tally.add("restores by people", 1)
		}
		if _, err := w.apply(ctx, r, failover.Unpin{Name: c.Name, Holder: holder, By: "bob"}); err != nil && ctx.Err() == nil {
			w.t.Errorf("seed %d: %v", w.seed, err)
		}
	}
}

// collects is one gateway's rounds.
func (w *world) collects(ctx context.Context, r *rand.Rand, i int) {
	for rest(ctx, within(r, 12*time.Minute)) {
		w.round(ctx, w.gateways[i])
	}
}

func (w *world) round(ctx context.Context, g *Gateway) Collected {
	if w.collecting.Add(1) > 1 {
		w.tally.add("rounds by two at once", 1)
	}
	defer w.collecting.Add(-1)
	got, err := g.Collect(ctx, CollectRequest{Job: job})
	if err != nil && ctx.Err() == nil && !errors.Is(err, errLost) && !strings.Contains(err.Error(), errLost.Error()) {
		w.t.Errorf("seed %d: collecting: %v", w.seed, err)
	}
	if got.Blocked != "" && ctx.Err() == nil {
		w.t.Errorf("seed %d, %s: nothing is collected: %s", w.seed, w.oracle.clock(), got.Blocked)
	}
	w.tally.add("objects deleted", got.Objects)
	return got
}

// settles has everything over: what is left in the store is what is kept, and that is whole.
func (w *world) settles(ctx context.Context) {
	var left []string
	for range 12 {
		time.Sleep(worldEvidence / 4)
		w.round(ctx, w.gateways[0])
		if left = w.oracle.unneeded(); len(left) == 0 {
			break
		}
	}
	if len(left) > 0 {
		w.t.Errorf("seed %d: left in the store although nothing needs it: %q", w.seed, left)
	}
	w.oracle.final()
}
