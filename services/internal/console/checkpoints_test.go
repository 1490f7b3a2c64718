package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/failover/gateway"
)

// keeper is whoever has the store; it tells what it was asked.
type keeper struct {
	asked []string
	err   error
}

func (k *keeper) note(format string, args ...any) {
	k.asked = append(k.asked, fmt.Sprintf(format, args...))
}

func (k *keeper) Usage(_ context.Context, job events.JobID) (gateway.Usage, error) {
	k.note("usage %s", job)
	return gateway.Usage{Job: job, Bytes: 7}, k.err
}

func (k *keeper) Contents(_ context.Context, job events.JobID, name string) (gateway.Contents, error) {
	k.note("contents %s %s", job, name)
	return gateway.Contents{Name: name, Dir: hostile}, k.err
}

func (k *keeper) Access(_ context.Context, r gateway.AccessRequest) (gateway.Access, error) {
	k.note("access %s %s %d", r.Job, r.Verb, len(r.Names))
	return gateway.Access{Store: events.StoreGrant{Kind: "dir", Path: "/s"}}, k.err
}

func (k *keeper) Collect(ctx context.Context, r gateway.CollectRequest) (gateway.Collected, error) {
	_, bounded := ctx.Deadline()
	k.note("collect %s dry=%v by=%s reason=%s bounded=%v", r.Job, r.DryRun, r.By, r.Reason, bounded)
	return gateway.Collected{Job: r.Job, Objects: 3}, k.err
}

func TestWhatIsAskedOfTheStore(t *testing.T) {
	k := &keeper{}
	served(t, func(c *Config) { c.Checkpoints = k }, func(t *testing.T, d *desk) {
		q := CheckpointQuery{Job: "tuned", Name: "c1-10", Verb: "get", Names: []events.GrantObject{{Name: "x"}}}
		for v, want := range map[Verb]string{
			GetCheckpointUse: "usage " + string(tuned), GetCheckpoint: "contents " + string(tuned) + " c1-10", GetCheckpointAccess: "access " + string(tuned) + " get 1",
			GetCollectable: "collect " + string(tuned) + " dry=true by= reason= bounded=true",
		} {
			k.asked = nil
			if _, p := ask[map[string]any](d, v, q); p != nil || strings.Join(k.asked, "; ") != want {
				t.Errorf("%s: %v, asked %q", v, p, k.asked)
			}
			if _, p := ask[map[string]any](d, v, CheckpointQuery{Job: "nobody"}); code(p) != "not-found" {
				t.Errorf("%s of no job: %v", v, p)
			}
		}
		k.asked = nil
		if got, p := ask[gateway.Collected](d, DoCollect, CollectRequest{Job: "tuned", Reason: " disk "}); p != nil || got.Objects != 3 ||
			k.asked[0] != "collect "+string(tuned)+" dry=false by=ann reason=disk bounded=true" {
			t.Errorf("%+v, %v, asked %q", got, p, k.asked)
		}
		k.err = &events.Refusal{Code: "invalid", Message: "no", Remedy: "do"}
		if _, p := ask[gateway.Usage](d, GetCheckpointUse, q); code(p) != "invalid" || p.Remedy != "do" {
			t.Errorf("a refusal is told as it is: %v", p)
		}
		k.err = &failover.Refused{What: "gone", Remedy: "ls"}
		if _, p := ask[gateway.Contents](d, GetCheckpoint, q); code(p) != "conflict" || p.Remedy != "ls" {
			t.Errorf("%v", p)
		}
		k.err = errors.New("the store is away")
		if _, p := ask[gateway.Usage](d, GetCheckpointUse, q); code(p) != "internal" {
			t.Errorf("%v", p)
		}
	})
	served(t, nil, func(t *testing.T, d *desk) {
		if _, p := ask[gateway.Usage](d, GetCheckpointUse, CheckpointQuery{Job: "tuned"}); code(p) != "unavailable" || p.Remedy == "" {
			t.Errorf("without a store: %v", p)
		}
		if _, p := ask[gateway.Collected](d, DoCollect, CollectRequest{Job: "tuned", Reason: "x"}); code(p) != "unavailable" {
			t.Errorf("without a store: %v", p)
		}
	})
}

func TestPinningAndDropping(t *testing.T) {
	served(t, nil, func(t *testing.T, d *desk) {
		do := func(v Verb, r CheckpointRequest) ([]Checkpoint, *Problem) {
			r.Job = "tuned"
			return ask[[]Checkpoint](d, v, r)
		}
		list, p := do(DoPin, CheckpointRequest{Names: []string{"c1-10"}, Reason: "best"})
		if p != nil || len(list) != 2 || len(list[0].Pins) != 1 || list[0].Pins[0].By != "ann" || list[0].State() != "newest" || list[0].Why() != "by ann: best" {
			t.Fatalf("%+v, %v", list, p)
		}
		if _, p = do(DoDrop, CheckpointRequest{Names: []string{"c1-10"}, Reason: "room"}); code(p) != "conflict" || !strings.Contains(p.Remedy, "checkpoint unpin") {
			t.Errorf("dropping a pinned one: %v", p)
		}
		if list, p = do(DoPin, CheckpointRequest{Names: []string{"c1-20"}, Holder: "restore-1", ForS: 60, Reason: "copy"}); p != nil || !list[1].Pins[0].Restore || list[1].Why() != "weights: "+hostile+"; being restored by ann" {
			t.Errorf("%+v, %v", list, p)
		}
		if _, p = do(DoUnpin, CheckpointRequest{Names: []string{"c1-10"}, Reason: "done"}); p != nil {
			t.Error(p)
		}
		list, p = do(DoDrop, CheckpointRequest{Names: []string{"c1-10"}, Reason: "copied away"}) // the result of an ended job
		if p != nil || list[0].Dropped == nil || list[0].State() != "dropped" || list[0].Why() != "by ann: copied away" || list[0].Newest {
			t.Errorf("%+v, %v", list, p)
		}
		for name, tc := range map[string]struct {
			v Verb
			r CheckpointRequest
		}{
			"no name":                     {DoPin, CheckpointRequest{}},
			"two pins at once":            {DoPin, CheckpointRequest{Names: []string{"c1-10", "c1-20"}}},
			"a restore without an end":    {DoPin, CheckpointRequest{Names: []string{"c1-20"}, Holder: "r"}},
			"an end without a restore":    {DoPin, CheckpointRequest{Names: []string{"c1-20"}, ForS: 5}},
			"a restore for ever":          {DoPin, CheckpointRequest{Names: []string{"c1-20"}, Holder: "r", ForS: 1e9}},
			"a restore that has an older": {DoPin, CheckpointRequest{Names: []string{"c1-20"}, Holder: "r", ForS: -5}},
		} {
			tc.r.Reason = "x"
			if _, p := do(tc.v, tc.r); code(p) != "invalid" || p.Remedy == "" {
				t.Errorf("%s: %v", name, p)
			}
		}
		evs := d.log.Events(events.FilterJobs)
		if f, ok := evs[len(evs)-1].Fact.(events.JobCheckpointsDropped); !ok || f.By != "ann" || f.Reason != "copied away" {
			t.Errorf("on record: %+v", evs[len(evs)-1].Fact)
		}
	})
}
