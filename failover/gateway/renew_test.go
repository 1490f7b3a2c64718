package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func TestWhatARenewalIsAnswered(t *testing.T) {
	for _, tc := range []struct {
		name    string
		epoch   int
		lease   events.LeaseID
		setup   func(r *rig, l events.LeaseID)
		refusal string
		order   events.Order
		jwt     string
	}{
		{"the current agent gets the whole order", 1, "j1-1-1", func(*rig, events.LeaseID) {}, "", events.OrderStart, ""},
		{"the next one waits", 2, "j1-2-1", func(r *rig, l events.LeaseID) {
			r.notice(1, l, time.Minute)
			r.join(2, r.buy(2, 1), "UB")
		}, "", "", ""},
		{"a replacement that is not needed after all is fenced", 2, "j1-2-1", func(r *rig, l events.LeaseID) {
			r.notice(1, l, time.Minute)
			r.join(2, r.buy(2, 1), "UB")
			r.apply(failover.Withdrawn{JobNoticeWithdrawn: events.JobNoticeWithdrawn{Epoch: 1, Lease: l}})
		}, "fenced", "", ""},
		{"an agent whose trainer died goes on under the new epoch with its own key", 1, "j1-1-1", func(r *rig, l events.LeaseID) {
			r.apply(failover.Exited{Epoch: 1, DoneRequest: events.DoneRequest{Lease: l, Signal: "SIGSEGV"}})
		}, "", "", "jwt j1 2 UA"},
		{"an agent that was replaced is fenced", 1, "j1-1-1", func(r *rig, l events.LeaseID) {
			r.gone(l)
			r.join(2, r.buy(2, 1), "UB")
		}, "fenced", "", ""},
		{"an epoch that never was is fenced", 7, "j1-7-1", func(*rig, events.LeaseID) {}, "fenced", "", ""},
		{"another machine's lease under the current epoch is fenced", 1, "j1-1-9", func(*rig, events.LeaseID) {}, "fenced", "", ""},
		{"the agent of a job that was cancelled is told to end", 1, "j1-1-1", func(r *rig, _ events.LeaseID) {
			r.apply(failover.Cancel{By: "ann"})
		}, "", events.OrderEnd, ""},
		{"the agent of a job that is closed is fenced", 1, "j1-1-1", func(r *rig, l events.LeaseID) {
			r.apply(failover.Cancel{By: "ann"})
			r.gone(l)
		}, "fenced", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, l := placed(t)
			tc.setup(r, l)
			beats := len(r.signals.beats)
			got := r.renew(tc.epoch, events.Heartbeat{Lease: tc.lease, Step: -1, At: t0.Add(100 * time.Hour)})
			if code(got.Refusal) != tc.refusal || got.Order != tc.order || got.JWT != tc.jwt {
				t.Errorf("refusal %v, order %q, jwt %q; want %q, %q, %q", got.Refusal, got.Order, got.JWT, tc.refusal, tc.order, tc.jwt)
			}
			if (got.OrderID != "") != (tc.order != "") {
				t.Errorf("order %q has id %q", got.Order, got.OrderID)
			}
			counts := tc.refusal == "" && tc.jwt == "" || strings.Contains(tc.name, "was replaced") // its last words
			if now := len(r.signals.beats); (now > beats) != counts {
				t.Errorf("%d heartbeats kept, counts: %v", now-beats, counts)
			} else if counts && !r.signals.beats[now-1].At.Equal(r.now) {
				t.Errorf("the heartbeat has the agent's clock: %s", r.signals.beats[now-1].At)
			}
		})
	}
}

func TestTheRecordCountsWhatTheOldAgentSaysWhenItIsTooLate(t *testing.T) {
	r, l := placed(t)
	r.renew(1, events.Heartbeat{Lease: l, State: "training", Step: 30})
	r.gone(l)
	b := r.buy(2, 1)
	r.join(2, b, "UB")
	if got := r.renew(1, events.Heartbeat{Lease: l, State: "training", Step: 40}); code(got.Refusal) != events.RefusedFenced {
		t.Fatalf("%+v", got)
	}
	r.renew(2, events.Heartbeat{Lease: b, State: "training", Step: 1})
	for _, e := range r.log.Events(events.FilterJobs) {
		if f, ok := e.Fact.(events.JobFailedOver); ok {
			if f.Record.LostSteps != 40 {
				t.Errorf("lost %d steps, want 40", f.Record.LostSteps)
			}
			return
		}
	}
	t.Error("no record")
}

func (r *rig) notice(epoch int, l events.LeaseID, left time.Duration) {
	r.t.Helper()
	if got := request[events.Reply](r, epoch, events.VerbNotice, events.NoticeRequest{Lease: l, Left: left, Action: "terminate", Source: "imds"}); got.Refusal != nil {
		r.t.Fatal(got.Refusal)
	}
}

func TestAStartIsHandedOutOnlyWhenEveryOlderAgentIsCutOff(t *testing.T) {
	r, l := placed(t)
	r.gone(l)
	b := r.buy(2, 1)
	r.join(2, b, "UB")
	r.apply(failover.Exited{Epoch: 2, DoneRequest: events.DoneRequest{Lease: b, Signal: "SIGKILL"}}) // in place, epoch 3
	r.gone(b)
	c := r.buy(4, 1)
	r.join(4, c, "UC")

	r.accounts.down = true
	if got := r.renew(4, events.Heartbeat{Lease: c, Step: -1}); code(got.Refusal) != events.RefusedUnavailable || got.Order != "" {
		t.Fatalf("while nobody can be cut off: %+v", got)
	}
	r.accounts.down, r.accounts.acts = false, nil
	got := r.renew(4, events.Heartbeat{Lease: c, Step: -1})
	if want := []string{"revoke UA", "revoke UB"}; got.Order != events.OrderStart || !slices.Equal(r.accounts.acts, want) {
		t.Errorf("order %q after %v; want start after %v", got.Order, r.accounts.acts, want)
	}
	r.renew(4, events.Heartbeat{Lease: c, Step: -1})
	if len(r.accounts.acts) != 2 {
		t.Errorf("asked again: %v", r.accounts.acts)
	}
	// A gateway that has just started, and has consumed nothing yet, knows as much.
	r.accounts.acts = nil
	fresh := r.config()
	fresh.Book = failover.NewBook(r.log, r.moment)
	r.gateway = New(fresh)
	if got := r.renew(4, events.Heartbeat{Lease: c, Step: -1}); got.Order != events.OrderStart || !slices.Equal(r.accounts.acts, []string{"revoke UA", "revoke UB"}) {
		t.Errorf("after a restart: order %q after %v", got.Order, r.accounts.acts)
	}
}

func TestTheNextAgentIsNotCutOffWithTheOldOnes(t *testing.T) {
	r, l := placed(t)
	r.gone(l)
	b := r.buy(2, 1)
	r.join(2, b, "UB")
	r.notice(2, b, time.Minute)
	r.join(3, r.buy(3, 1), "UC")
	r.accounts.acts = nil
	r.renew(2, events.Heartbeat{Lease: b, Step: -1})
	if want := []string{"revoke UA"}; !slices.Equal(r.accounts.acts, want) {
		t.Errorf("%v, want %v", r.accounts.acts, want)
	}
}

func TestAStartListsWhatToRestoreNewestFirstAndNothingRejected(t *testing.T) {
	r, l := placed(t)
	var all []events.Checkpoint
	for step := range int64(7) {
		c := r.save(l, 1, step+1)
		if got := r.commit(1, c); got != nil {
			t.Fatal(got)
		}
		all = append(all, c.Checkpoint)
	}
	if got := request[events.Reply](r, 1, events.VerbReject, events.RejectRequest{Lease: l, Checkpoint: all[6], Path: "weights", Detail: "bad"}); got.Refusal != nil {
		t.Fatal(got.Refusal)
	}
	got := r.renew(1, events.Heartbeat{Lease: l, Step: -1})
	want := []events.Checkpoint{all[5], all[4], all[3], all[2], all[1]}
	if !slices.Equal(got.Resume, want) {
		t.Errorf("resume %+v, want %+v", got.Resume, want)
	}
}

func TestTheFirstStepOfAnEpoch(t *testing.T) {
	type beat = events.Heartbeat
	every := events.DefaultTimers().Heartbeat.Milliseconds()
	for _, tc := range []struct {
		name  string
		beats []beat
		want  int64 // first step recorded, -1 none
	}{
		{"is the first one told beyond the restored", []beat{{State: "restoring", Step: -1}, {State: "training", Step: 5, From: 5}, {State: "training", Step: 7, From: 5}}, 7},
		{"is not the restored one told again", []beat{{State: "training", Step: 5, From: 5}, {State: "training", Step: 5, From: 5}, {State: "training", Step: 5, From: 5}, {State: "training", Step: 5, From: 5}}, -1},
		{"of a trainer that tells no steps is after two heartbeats in training, whoever heard the one before", []beat{{State: "training", Step: -1, TrainingMS: 2 * every}}, 0},
		{"of such a trainer is not sooner", []beat{{State: "setup", Step: -1}, {State: "training", Step: -1}, {State: "training", Step: -1, TrainingMS: 10}, {State: "training", Step: -1, TrainingMS: 2*every - 1}, {State: "exited", Step: -1, TrainingMS: 2 * every}}, -1},
		{"is recorded once", []beat{{State: "training", Step: 1}, {State: "training", Step: 2}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, l := placed(t)
			for _, hb := range tc.beats {
				hb.Lease = l
				hb.Clock.RestoreMS = 1 << 62
				if got := r.renew(1, hb); got.Refusal != nil || got.Order != events.OrderStart {
					t.Fatalf("%+v", got)
				}
			}
			var steps []int64
			for _, e := range r.log.Events(events.FilterJobs) {
				if f, ok := e.Fact.(events.JobStarted); ok {
					steps = append(steps, f.Step)
					if f.Clock.RestoreMS > maxSpan.Milliseconds() {
						t.Errorf("restored in %d ms", f.Clock.RestoreMS)
					}
				}
			}
			if tc.want < 0 && len(steps) > 0 || tc.want >= 0 && !slices.Equal(steps, []int64{tc.want}) {
				t.Errorf("started at %v, want %d", steps, tc.want)
			}
		})
	}
}

// inMoney appends a fact to the organisation's money.
func (r *rig) inMoney(prev *events.Event, f events.Fact) *events.Event {
	r.t.Helper()
	e, err := events.Follow(events.MoneyAggregate(org), prev, f)
	if err != nil {
		r.t.Fatal(err)
	}
	after := uint64(0)
	if prev != nil {
		after = prev.Position
	}
	if e, err = r.log.Append(r.t.Context(), after, e); err != nil {
		r.t.Fatal(err)
	}
	return &e
}

// running calls f while the gateway consumes.
func running(t *testing.T, f func(t *testing.T, r *rig, l events.LeaseID)) {
	synctest.Test(t, func(t *testing.T) {
		r, l := placed(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.gateway.Run(ctx) }()
		synctest.Wait()
		f(t, r, l)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestARenewalSaysHowLongTheMachineIsPaidFor(t *testing.T) {
	running(t, func(t *testing.T, r *rig, l events.LeaseID) {
		paid := func() time.Duration {
			synctest.Wait()
			return r.renew(1, events.Heartbeat{Lease: l, Step: -1}).PaidFor
		}
		if got := paid(); got != 0 {
			t.Errorf("nobody said, and it is %s", got)
		}
		e := r.inMoney(nil, events.MoneyReserved{Job: job, Lease: l, PaidTill: t0.Add(time.Hour)})
		if got := paid(); got != time.Minute {
			t.Errorf("an hour of the market is %s, want 1m", got)
		}
		r.now = t0.Add(30 * time.Second)
		if got := paid(); got != 30*time.Second {
			t.Errorf("half of it later it is %s, want 30s", got)
		}
		e = r.inMoney(e, events.MoneyExtended{Job: job, Lease: l, PaidTill: t0.Add(2 * time.Hour)})
		if got := paid(); got != 90*time.Second {
			t.Errorf("extended it is %s, want 1m30s", got)
		}
		r.now = t0.Add(time.Hour)
		if got := paid(); got != time.Millisecond {
			t.Errorf("past its end it is %s; 0 would mean unlimited", got)
		}
		r.inMoney(e, events.MoneySettled{Job: job, Lease: l})
		if got := paid(); got != 0 {
			t.Errorf("settled it is %s", got)
		}
	})
}

func TestAnOrderIsPushedWhenItIsNew(t *testing.T) {
	running(t, func(t *testing.T, r *rig, l events.LeaseID) {
		check := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(r.pushed, want) {
				t.Errorf("%s: pushed %q, want %q", when, r.pushed, want)
			}
			r.pushed = nil
		}
		check("placed", "j1 1")
		r.commit(1, r.save(l, 1, 1))
		check("a commit changes no order")
		r.apply(failover.Exited{Epoch: 1, DoneRequest: events.DoneRequest{Lease: l, Signal: "SIGKILL"}})
		check("restarted in place, under the old subject too", "j1 2", "j1 1")
		r.apply(failover.Cancel{By: "ann"})
		check("cancelled", "j1 2")
		r.gone(l)
		check("closed")
		if !slices.Contains(r.accounts.acts, "drop j1") {
			t.Errorf("the account of a closed job stays: %v", r.accounts.acts)
		}
		if len(r.gateway.jobs) > 0 {
			t.Errorf("a closed job is remembered: %v", r.gateway.jobs)
		}
	})
}

func TestNoticeBounds(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   events.NoticeRequest
		want string
	}{
		{"two minutes are a notice", events.NoticeRequest{Left: 2 * time.Minute, Ago: time.Second}, ""},
		{"no time left is a notice", events.NoticeRequest{}, ""},
		{"an hour is a notice", events.NoticeRequest{Left: time.Hour, Ago: time.Hour}, ""},
		{"a deadline in the past is none", events.NoticeRequest{Left: -1}, "invalid"},
		{"a day is none", events.NoticeRequest{Left: 24 * time.Hour}, "invalid"},
		{"a first sight in the future is none", events.NoticeRequest{Left: time.Minute, Ago: -1}, "invalid"},
		{"a first sight yesterday is none", events.NoticeRequest{Left: time.Minute, Ago: 24 * time.Hour}, "invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, l := placed(t)
			tc.in.Lease, tc.in.Action, tc.in.SignalMS = l, strings.Repeat("x", 9999), -5
			if got := request[events.Reply](r, 1, events.VerbNotice, tc.in); code(got.Refusal) != tc.want {
				t.Fatalf("%v, want %q", got.Refusal, tc.want)
			}
			n := r.job().Notice
			if (n != nil) != (tc.want == "") {
				t.Fatalf("notice %+v", n)
			}
			if n == nil {
				return
			}
			if !n.Deadline.Equal(t0.Add(tc.in.Left)) || !n.Seen.Equal(t0.Add(-tc.in.Ago)) {
				t.Errorf("seen %s, deadline %s", n.Seen, n.Deadline)
			}
			request[events.Reply](r, 1, events.VerbNotice, events.NoticeRequest{Lease: l, Withdrawn: true})
			if r.job().Notice != nil {
				t.Error("it was withdrawn and stands")
			}
		})
	}
}
