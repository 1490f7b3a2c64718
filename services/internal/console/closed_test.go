package console

import (
	"testing"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

func TestAJobIsClosedOnlyWhenItsLastMachineIsCharged(t *testing.T) {
	var money []events.Event
	post := func(f events.Fact) *ledger.State {
		var prev *events.Event
		if n := len(money); n > 0 {
			prev = &money[n-1]
		}
		e, err := events.Follow(events.MoneyAggregate("acme"), prev, f)
		if err != nil {
			t.Fatal(err)
		}
		money = append(money, e)
		s, err := ledger.Fold(money)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	r := &jobRecord{job: failover.Job{ID: "j1", Outcome: events.Succeeded, Closed: true}}
	if v := r.view(post(events.MoneyReserved{Job: "j1", Lease: "j1-1-1", Amount: 3 * events.Dollar})); v.Closed {
		t.Error("closed while a lease is not settled")
	}
	v := r.view(post(events.MoneySettled{Job: "j1", Lease: "j1-1-1", Amount: events.Dollar, Segments: []events.Segment{{N: 1, Category: "compute", Amount: events.Dollar}}}))
	if !v.Closed || v.Spent != events.Dollar {
		t.Errorf("settled, but closed %v with %s spent", v.Closed, v.Spent)
	}
}
