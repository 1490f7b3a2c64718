package failover

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/events"
)

// started has the job make its first step on its machine of an epoch.
func (d *duty) started(epoch int, l events.LeaseID) {
	d.t.Helper()
	d.apply(Stepped{events.JobStarted{Epoch: epoch, Lease: l, Step: 1}})
}

func TestWhatTheBusKeepsIsKnownAfterARestart(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		l := d.buy(1, 1, time.Minute)
		d.join(1, l)
		d.started(1, l)
		// Another process, now dead, took this heartbeat; this one never saw it.
		d.air.keep(1, events.Heartbeat{Lease: l, Step: 41, At: time.Now()})
		d.lease(l, events.LeaseEnded{EndedBy: "seller"})
		if f, _, ok := newest[events.JobLost](d); !ok || f.LastStep != 41 || f.LastSeen.IsZero() {
			d.t.Errorf("%+v", f)
		}
	})
}

func TestNobodyIsGivenUpOnTheWordOfAMemory(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		l := d.buy(1, 1, time.Minute)
		d.join(1, l)
		d.started(1, l)
		// The feed of heartbeats stands still here, but the bus has them.
		for range 30 {
			d.air.keep(1, events.Heartbeat{Lease: l, Step: 5, At: time.Now()})
			time.Sleep(5 * time.Second)
		}
		if _, _, ok := newest[events.JobLost](d); ok {
			d.t.Error("given up although the bus heard it")
		}
	})
}

func TestLastWordsAreTakenAHeartbeatAfterTheLoss(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		l := d.buy(1, 1, time.Minute)
		d.join(1, l)
		d.started(1, l)
		d.beat(1, 7)
		d.air.keep(1, events.Heartbeat{Lease: l, Step: 7, At: time.Now(), GPUs: []events.GPUSample{{Name: "V100", TempC: 91}}})
		d.air.print(
			events.LogBatch{Epoch: 1, First: 1, Lines: []events.LogLine{{Text: "one"}, {Text: "two"}}},
			events.LogBatch{Epoch: 2, First: 1, Lines: []events.LogLine{{Text: "of another epoch"}}},
		)
		d.lease(l, events.LeaseEnded{EndedBy: "fault"})
		if _, _, ok := newest[events.JobLastWords](d); ok {
			d.t.Error("taken before the last lines could arrive")
		}
		d.air.print(events.LogBatch{Epoch: 1, First: 2, Lines: []events.LogLine{{Text: "two"}, {Text: "Xid 79"}}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		f, _, ok := newest[events.JobLastWords](d)
		if !ok || f.Epoch != 1 || f.Lease != l || f.Heartbeat == nil || f.Heartbeat.GPUs[0].TempC != 91 {
			d.t.Fatalf("%+v", f)
		}
		if len(f.Lines) != 3 || f.Lines[2].Text != "Xid 79" {
			d.t.Errorf("lines %+v", f.Lines)
		}
		n := d.job().Sequence
		time.Sleep(time.Minute)
		if d.job().Sequence != n {
			d.t.Error("the job goes on writing")
		}
	})
}

func TestMoneyTakesUpWhatItPaused(t *testing.T) {
	paused := spec
	paused.Policy.OnBudget = "pause"
	onDuty(t, paused, func(d *duty) {
		l := d.buy(1, 1, time.Minute)
		d.join(1, l)
		d.started(1, l)
		d.apply(Declined{Event: events.Event{ID: "j1-1-2-1", Aggregate: events.LeaseAggregate("acme", "j1-1-2"),
			Fact: events.LeaseDeclined{Job: "j1", Epoch: 1, N: 2, Reason: "out-of-budget", Detail: "nothing left"}}})
		if got := d.job().Status(); got != "pausing" {
			d.t.Fatal(got)
		}
		d.money(events.BudgetSet{Job: "j1", Limit: 20 * events.Dollar, By: "ann"}) // while it still saves
		for range 4 {
			d.beat(1, 9)
			time.Sleep(time.Second)
		}
		d.apply(Exited{Epoch: 1, DoneRequest: events.DoneRequest{Lease: l, Code: 143, OrderID: "stop-j1-1"}})
		time.Sleep(time.Minute)
		synctest.Wait()
		f, _, ok := newest[events.JobResumed](d)
		if j := d.job(); !ok || f.By != ByBudget || j.Phase != Acquiring {
			d.t.Errorf("%+v, %s", f, j.Status())
		}
		d.money(events.BudgetSet{Job: "j9", Limit: events.Dollar}) // of no job
	})
}

func TestMoneyLeavesAPersonsPauseAlone(t *testing.T) {
	onDuty(t, spec, func(d *duty) {
		d.apply(Pause{By: "ann"})
		d.money(events.BudgetSet{Job: "j1", Limit: 20 * events.Dollar, By: "ann"})
		time.Sleep(time.Minute)
		if got := d.job().Status(); got != "paused" {
			d.t.Error(got)
		}
	})
}

// money appends to the organisation's money.
func (d *duty) money(f events.Fact) {
	d.t.Helper()
	agg := events.MoneyAggregate("acme")
	evs, err := d.log.Read(d.t.Context(), agg, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	var prev *events.Event
	after := uint64(0)
	if n := len(evs); n > 0 {
		prev, after = &evs[n-1], evs[n-1].Position
	}
	e, err := events.Follow(agg, prev, f)
	if err == nil {
		_, err = d.log.Append(d.t.Context(), after, e)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	synctest.Wait()
}

func TestReplicasDoEverythingOnce(t *testing.T) {
	stalls := spec
	stalls.Policy.OnBudget = "pause"
	onDutyWith(t, 3, stalls, func(d *duty) {
		l := d.buy(1, 1, time.Minute)
		d.join(1, l)
		d.started(1, l)
		time.Sleep(2 * time.Minute) // silent: every replica sees it at the same instant
		synctest.Wait()
		b := d.buy(2, 1, time.Minute)
		d.join(2, b)
		d.started(2, b)
		d.lease(l, events.LeaseEnded{EndedBy: "seller"})
		d.apply(Declined{Event: events.Event{ID: "j1-2-2-1", Aggregate: events.LeaseAggregate("acme", "j1-2-2"),
			Fact: events.LeaseDeclined{Job: "j1", Epoch: 2, N: 2, Reason: "out-of-budget"}}})
		time.Sleep(5 * time.Minute) // nobody answers: the pause is enforced
		d.money(events.BudgetSet{Job: "j1", Limit: 20 * events.Dollar})
		time.Sleep(time.Minute)
		synctest.Wait()
		counts := map[string]int{}
		for _, e := range d.log.Events(events.FilterJobs) {
			row, _ := events.TypeOf(e.Fact)
			counts[row.Event]++
		}
		for event, want := range map[string]int{
			"lost": 2, "last-words": 2, "failed-over": 1, "failover-refined": 1, "released": 1, "pausing": 1, "paused": 1, "resumed": 1, "heard": 0,
		} {
			if counts[event] != want {
				d.t.Errorf("%d times job.%s, want %d", counts[event], event, want)
			}
		}
	})
}
