package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func TestWhatMayBeCommitted(t *testing.T) {
	for _, tc := range []struct {
		name  string
		epoch int
		do    func(r *rig, l events.LeaseID) events.CommitRequest
		want  string
	}{
		{"a checkpoint that is whole", 1, func(r *rig, l events.LeaseID) events.CommitRequest { return r.save(l, 1, 10) }, ""},
		{"the same again, when an answer got lost", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			c := r.save(l, 1, 10)
			r.commit(1, c)
			return c
		}, ""},
		{"another of the same step", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			r.commit(1, r.save(l, 1, 10))
			return r.save(l, 1, 10)
		}, ""},
		{"one with an object missing is invalid", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			c := r.save(l, 1, 10)
			for _, n := range r.store.Names() {
				if strings.Contains(n, "/data/") {
					_ = r.store.Delete(context.Background(), n)
				}
			}
			return c
		}, "invalid"},
		{"one whose manifest is bent is invalid", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			c := r.save(l, 1, 10)
			for _, n := range r.store.Names() {
				if strings.HasSuffix(n, ".manifest") {
					r.store.Edit(n, mem.Flipped(99))
				}
			}
			return c
		}, "invalid"},
		{"one that claims other sizes than its manifest is invalid", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			c := r.save(l, 1, 10)
			c.Checkpoint.Bytes++
			return c
		}, "invalid"},
		{"one with a name of its own is invalid", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			c := r.save(l, 1, 10)
			c.Checkpoint.Name = "../../other/" + c.Checkpoint.Name
			return c
		}, "invalid"},
		{"an older step of this epoch is stale", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			r.commit(1, r.save(l, 1, 11))
			return r.save(l, 1, 10)
		}, "stale"},
		{"a checkpoint of another epoch than the subject's is invalid", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			return r.save(l, 2, 10)
		}, "invalid"},
		{"a lower step than the one that was restored is stale", 2, func(r *rig, l events.LeaseID) events.CommitRequest {
			r.commit(1, r.save(l, 1, 11))
			r.gone(l)
			b := r.buy(2, 1)
			r.join(2, b, "UB")
			return r.save(b, 2, 5)
		}, "stale"},
		{"it is new where the newest did not restore and an older one did", 2, func(r *rig, l events.LeaseID) events.CommitRequest {
			r.commit(1, r.save(l, 1, 3))
			bad := r.save(l, 1, 11)
			r.commit(1, bad)
			r.gone(l)
			b := r.buy(2, 1)
			r.join(2, b, "UB")
			request[events.Reply](r, 2, events.VerbReject, events.RejectRequest{Lease: b, Checkpoint: bad.Checkpoint})
			return r.save(b, 2, 5)
		}, ""},
		{"the commit of a machine that was replaced is fenced", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			c := r.save(l, 1, 10)
			r.gone(l)
			r.join(2, r.buy(2, 1), "UB")
			return c
		}, "fenced"},
		{"so is one of a machine that only waits", 2, func(r *rig, l events.LeaseID) events.CommitRequest {
			r.notice(1, l, time.Minute)
			b := r.buy(2, 1)
			r.join(2, b, "UB")
			return r.save(b, 2, 10)
		}, "fenced"},
		{"so is one of a job that has ended", 1, func(r *rig, l events.LeaseID) events.CommitRequest {
			r.apply(failover.Cancel{By: "ann"})
			return r.save(l, 1, 10)
		}, "fenced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, l := placed(t)
			c := tc.do(r, l)
			got := r.commit(tc.epoch, c)
			if code(got) != tc.want {
				t.Fatalf("%v, want %q", got, tc.want)
			}
			times := 0
			for _, x := range r.job().Commits {
				if x.Name == c.Checkpoint.Name {
					times++
				}
			}
			if want := map[bool]int{true: 1, false: 0}[tc.want == ""]; times != want {
				t.Errorf("committed %d times, want %d", times, want)
			}
		})
	}
}

func TestAStoreThatCannotBeAskedRefusesNoCheckpoint(t *testing.T) {
	r := newRig(t)
	broken := false
	r.store = mem.New(mem.Config{Plan: func(op mem.Op) (f mem.Fault) {
		if broken && op.Verb == mem.Stat {
			f.Before = errors.New("connection reset")
		}
		return f
	}})
	r.gateway = New(r.config())
	l := r.buy(1, 1)
	r.join(1, l, "UA")
	c := r.save(l, 1, 10)
	broken = true
	if got := r.commit(1, c); code(got) != events.RefusedUnavailable {
		t.Fatalf("%v, want unavailable: invalid would have the agent drop it", got)
	}
	broken = false
	if got := r.commit(1, c); got != nil {
		t.Error(got)
	}
}

func TestACommitThatLosesTheRaceAgainstTheNextEpochIsFenced(t *testing.T) {
	r := newRig(t)
	var before func()
	r.store = mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
		if op.Verb == mem.Stat && before != nil {
			do := before
			before = nil
			do()
		}
		return mem.Fault{}
	}})
	r.gateway = New(r.config())
	l := r.buy(1, 1)
	r.join(1, l, "UA")
	c := r.save(l, 1, 10)
	before = func() { // while the checkpoint is verified
		r.gone(l)
		r.join(2, r.buy(2, 1), "UB")
	}
	if got := r.commit(1, c); code(got) != events.RefusedFenced {
		t.Fatalf("%v, want fenced", got)
	}
	if n := len(r.job().Commits); n > 0 {
		t.Errorf("%d commits stand", n)
	}
}

func TestARejectionCountsOnlyForWhatWasCommitted(t *testing.T) {
	r, l := placed(t)
	c := r.save(l, 1, 10)
	r.commit(1, c)
	reject := func(c events.Checkpoint) *events.Refusal {
		return request[events.Reply](r, 1, events.VerbReject, events.RejectRequest{Lease: l, Checkpoint: c, Path: "p", Detail: strings.Repeat("é", 1<<15)}).Refusal
	}
	if got := reject(events.Checkpoint{Name: "made up"}); got != nil {
		t.Error(got)
	}
	if n := len(r.job().Rejected); n != 0 {
		t.Errorf("%d made-up checkpoints are rejected", n)
	}
	lie := c.Checkpoint
	lie.Step = 999
	for range 2 {
		if got := reject(lie); got != nil {
			t.Error(got)
		}
	}
	var seen []events.JobCheckpointRejected
	for _, e := range r.log.Events(events.FilterJobs) {
		if f, ok := e.Fact.(events.JobCheckpointRejected); ok {
			seen = append(seen, f)
		}
	}
	if len(seen) != 1 || seen[0].Checkpoint != c.Checkpoint || len(seen[0].Detail) > maxText || strings.Contains(seen[0].Detail, "\ufffd") {
		t.Errorf("recorded %+v", seen)
	}
	if got := request[events.Reply](r, 2, events.VerbReject, events.RejectRequest{Lease: l, Checkpoint: c.Checkpoint}); code(got.Refusal) != events.RefusedFenced {
		t.Errorf("from another epoch: %v", got.Refusal)
	}
}

func TestHowTheTrainerEndedIsForItsOwnEpochToSay(t *testing.T) {
	r, l := placed(t)
	done := events.DoneRequest{Lease: l, Code: 0, Reason: strings.Repeat("x", 1<<16)}
	if got := request[events.Reply](r, 2, events.VerbDone, done); code(got.Refusal) != events.RefusedFenced {
		t.Errorf("from another epoch: %v", got.Refusal)
	}
	if got := request[events.Reply](r, 1, events.VerbDone, done); got.Refusal != nil || r.job().Outcome != events.Succeeded {
		t.Errorf("%v; outcome %q", got.Refusal, r.job().Outcome)
	}
	if got := request[events.Reply](r, 1, events.VerbDone, done); got.Refusal != nil {
		t.Errorf("the same again: %v", got.Refusal)
	}
}

func TestOutputOfAnEpochThatIsOverIsStillKept(t *testing.T) {
	r, l := placed(t)
	r.gone(l)
	r.join(2, r.buy(2, 1), "UB")
	cold := r.config()
	cold.Book = failover.NewBook(r.log, r.moment) // a gateway that has just started
	r.gateway = New(cold)
	say := func(epoch int) string {
		b := events.LogBatch{Epoch: 99, First: 1, Lines: []events.LogLine{{Text: "\x1b[31mhello"}}}
		return code(request[events.Reply](r, epoch, events.VerbLog, b).Refusal)
	}
	if got := say(1); got != "" {
		t.Errorf("the last lines of epoch 1: %q", got)
	}
	if n := len(r.signals.lines); n != 1 || r.signals.lines[0].Epoch != 1 || r.signals.lines[0].Lines[0].Text != "\x1b[31mhello" {
		t.Errorf("kept %+v", r.signals.lines)
	}
	if got := say(9); got != events.RefusedFenced {
		t.Errorf("an epoch that never was: %q", got)
	}
	b := r.gateway.Handle(t.Context(), events.AgentSubject("nobody", 1, events.VerbLog), []byte("{}"))
	var reply events.Reply
	if json.Unmarshal(b, &reply) != nil || code(reply.Refusal) != events.RefusedFenced {
		t.Errorf("a job that never was: %s", b)
	}
}

func TestAGrantIsForWhoeverBelongsToTheJob(t *testing.T) {
	r, l := placed(t)
	type grant struct {
		events.StoreGrant
		Refusal *events.Refusal `json:"refusal"`
	}
	if got := request[grant](r, 1, events.VerbGrant, map[string]any{"lease": l}); got.Refusal != nil || got.Tenant != string(org) {
		t.Errorf("%+v", got)
	}
	if got := request[grant](r, 3, events.VerbGrant, map[string]any{"lease": l}); code(got.Refusal) != events.RefusedFenced || got.Path != "" {
		t.Errorf("a stranger: %+v", got)
	}
}

// FuzzGarbage: whatever the bytes and the subject, there is one answer in JSON.
func FuzzGarbage(f *testing.F) {
	for _, v := range []events.Verb{events.VerbJoin, events.VerbRenew, events.VerbNotice, events.VerbCommit, events.VerbGrant, events.VerbReject, events.VerbDone, events.VerbLog, "dance"} {
		for _, body := range []string{"", "null", "[]", "{", `{"lease":"j1-1-1"}`, `{"lease":"j1-1-1","key":"U","step":-9e18,"left":-1}`, `{"lease":7}`, `{"lease":"j1-1-1","checkpoint":{"name":"\u0000","epoch":1,"digest":"x"}}`} {
			f.Add(string(events.AgentSubject(job, 1, v)), []byte(body))
		}
	}
	for _, s := range []string{"", "agent", "agent.j1.0.join", "agent.j1.-1.join", "agent.j1.1", "agent..1.join", "agent.j1.99999999999999999999.join", "agent.j1.1.join.more", "agent.j1.01.renew"} {
		f.Add(s, []byte("{}"))
	}
	f.Fuzz(func(t *testing.T, subject string, body []byte) {
		r, _ := placed(t)
		out := r.gateway.Handle(t.Context(), subject, body)
		var reply struct {
			Refusal *events.Refusal `json:"refusal"`
		}
		if err := json.Unmarshal(out, &reply); err != nil {
			t.Fatalf("answered %q: %v", out, err)
		}
	})
}
