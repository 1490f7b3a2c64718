package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func (r *rig) trouble(epoch int, l events.LeaseID, k events.Trouble) *events.Refusal {
	r.t.Helper()
	return request[events.Reply](r, epoch, events.VerbTrouble, events.TroubleRequest{Lease: l, Kind: k, Step: 3, Detail: "because"}).Refusal
}

func TestWhatATroubleComesTo(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(r *rig, l events.LeaseID) *events.Refusal
		want   string // the refusal
		status string
	}{
		{"a stall pauses the job", func(r *rig, l events.LeaseID) *events.Refusal { return r.trouble(1, l, events.TroubleStalled) }, "", "stalled"},
		{"told twice it is fenced: nothing of it is wanted any more", func(r *rig, l events.LeaseID) *events.Refusal {
			r.trouble(1, l, events.TroubleStalled)
			return r.trouble(1, l, events.TroubleStalled)
		}, "fenced", "stalled"},
		{"a fault moves it", func(r *rig, l events.LeaseID) *events.Refusal { return r.trouble(1, l, events.TroubleGPUFault) }, "", "draining"},
		{"a fault told under an epoch that ended on the same machine counts", func(r *rig, l events.LeaseID) *events.Refusal {
			r.apply(failover.Exited{Epoch: 1, DoneRequest: events.DoneRequest{Lease: l, Signal: "SIGKILL"}})
			return r.trouble(1, l, events.TroubleHostFault)
		}, "", "draining"},
		{"a fault of a machine that waits gives it up", func(r *rig, l events.LeaseID) *events.Refusal {
			r.notice(1, l, time.Minute)
			b := r.buy(2, 1)
			r.join(2, b, "UB")
			got := r.trouble(2, b, events.TroubleGPUFault)
			if r.job().Next != nil {
				r.t.Error("it is kept")
			}
			return got
		}, "", "draining"},
		{"a trouble nobody knows is invalid", func(r *rig, l events.LeaseID) *events.Refusal { return r.trouble(1, l, "bored") }, "invalid", "starting"},
		{"a stranger is fenced", func(r *rig, l events.LeaseID) *events.Refusal {
			return r.trouble(1, job.Lease(1, 7), events.TroubleGPUFault)
		}, "fenced", "starting"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, l := placed(t)
			got := tc.do(r, l)
			if code(got) != tc.want || r.job().Status() != tc.status {
				t.Errorf("%v, %s; want %q, %s", got, r.job().Status(), tc.want, tc.status)
			}
		})
	}
}

func TestWhatATroubleSaysIsBounded(t *testing.T) {
	r, l := placed(t)
	lines := slices.Repeat([]string{strings.Repeat("é", 9999) + "\xff"}, 500)
	request[events.Reply](r, 1, events.VerbTrouble, events.TroubleRequest{Lease: l, Kind: events.TroubleStalled,
		Detail: strings.Repeat("x", 99999), Remedy: strings.Repeat("y", 99999), Lines: lines})
	for _, e := range r.log.Events(events.FilterJobs) {
		f, ok := e.Fact.(events.JobTroubled)
		if !ok {
			continue
		}
		if len(f.Detail) > maxText || len(f.Remedy) > maxText || len(f.Evidence) > maxEvidence {
			t.Errorf("%d, %d, %d lines", len(f.Detail), len(f.Remedy), len(f.Evidence))
		}
		for _, line := range f.Evidence {
			if len(line) > maxLine || !utf8.ValidString(line) {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
		return
	}
	t.Error("no trouble recorded")
}

func TestANoticeOfAMachineThatWaitsIsTaken(t *testing.T) {
	r, l := placed(t)
	r.notice(1, l, time.Minute)
	b := r.buy(2, 1)
	r.join(2, b, "UB")
	if got := request[events.Reply](r, 2, events.VerbNotice, events.NoticeRequest{Lease: b, Left: time.Minute}); got.Refusal != nil {
		t.Fatal(got.Refusal)
	}
	if j := r.job(); j.Next != nil || len(failover.Owed(j)) != 3 {
		t.Errorf("next %+v, owes %+v; want another machine sought and this one given back", j.Next, failover.Owed(j))
	}
}

func TestANoticeUnderAnEpochThatEndedOnTheSameMachineIsTaken(t *testing.T) {
	r, l := placed(t)
	r.apply(failover.Exited{Epoch: 1, DoneRequest: events.DoneRequest{Lease: l, Signal: "SIGKILL"}})
	if got := request[events.Reply](r, 1, events.VerbNotice, events.NoticeRequest{Lease: l, Left: time.Minute}); got.Refusal != nil || r.job().Notice == nil {
		t.Errorf("%v, notice %+v", got.Refusal, r.job().Notice)
	}
}

func TestAnAgentThatComesBackTooLateIsWrittenDown(t *testing.T) {
	r, l := placed(t)
	r.renew(1, events.Heartbeat{Lease: l, State: "training", Step: 5})
	r.apply(failover.Silent{Epoch: 1, Heard: failover.Heard{Step: 5, At: t0}})
	b := r.buy(2, 1)
	r.join(2, b, "UB")
	for range 2 {
		if got := r.renew(1, events.Heartbeat{Lease: l, State: "training", Step: 9}); code(got.Refusal) != "fenced" {
			t.Fatalf("%+v", got)
		}
	}
	heard := 0
	for _, e := range r.log.Events(events.FilterJobs) {
		if f, ok := e.Fact.(events.JobHeard); ok && f.Epoch == 1 {
			heard++
		}
	}
	if heard != 1 {
		t.Errorf("written down %d times", heard)
	}
	if hb := r.signals.newest[1]; hb.Step != 9 {
		t.Errorf("its last step is %d", hb.Step)
	}
}

func TestWhatIsPaidIsKnownBeforeTheMoneyHasBeenReplayed(t *testing.T) {
	r, l := placed(t)
	e := r.inMoney(nil, events.MoneyReserved{Job: job, Lease: l, PaidTill: t0.Add(-time.Hour)})
	r.inMoney(e, events.MoneyExtended{Job: job, Lease: l, PaidTill: t0.Add(time.Hour)})
	// Nothing runs that would follow the money.
	if got := r.renew(1, events.Heartbeat{Lease: l, Step: -1}).PaidFor; got != time.Minute {
		t.Errorf("paid for %s, want 1m", got)
	}
}

func TestTheAccountOfAClosedJobIsDroppedOnceWhateverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := placed(t)
		r.apply(failover.Cancel{By: "ann"})
		r.gone(l)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			g := New(r.config())
			go func() { done <- g.Run(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		drops := 0
		for _, a := range r.accounts.acts {
			if a == "drop j1" {
				drops++
			}
		}
		if drops != 1 {
			t.Errorf("dropped %d times", drops)
		}
	})
}

func TestAHeartbeatIsBounded(t *testing.T) {
	r, l := placed(t)
	gpus := slices.Repeat([]events.GPUSample{{Name: strings.Repeat("g", 9999)}}, 999)
	r.renew(1, events.Heartbeat{Lease: l, Step: -1, GPUs: gpus, Clock: events.AgentClock{ImageMS: 1 << 62, InputsMS: 7}})
	hb := r.signals.newest[1]
	if len(hb.GPUs) != maxGPUs || len(hb.GPUs[0].Name) > maxWord || hb.Clock.ImageMS != maxSpan.Milliseconds() || hb.Clock.InputsMS != 7 {
		t.Errorf("%d GPUs, clock %+v", len(hb.GPUs), hb.Clock)
	}
}
