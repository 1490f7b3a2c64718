package rehearse

import (
	"encoding/json"
	"testing"

	"github.com/spotferry/spotferry/events"
)

func TestAHistoryIsFoldedFromTheConsolesEvents(t *testing.T) {
	t.Parallel()
	var h History
	take := func(s float64, kind string, f events.Fact) {
		t.Helper()
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Take(Happened{Time: at(s), Type: kind, Fact: b}); err != nil {
			t.Fatal(err)
		}
	}
	old := events.Checkpoint{Name: "a", Epoch: 1, Step: 20}
	take(0, "job.submitted", events.JobSubmitted{})
	take(0.1, "job.waiting", events.JobWaiting{Detail: "no machine"})
	if h.Waiting != "no machine" {
		t.Error(h.Waiting)
	}
	take(1, "job.placed", events.JobPlaced{Epoch: 1, Lease: lease(1)})
	take(2, "job.started", events.JobStarted{Epoch: 1, Step: 1, Clock: events.AgentClock{SetupMS: 5}})
	take(3, "job.committed", events.JobCommitted{Epoch: 1, Checkpoint: old})
	take(3.5, "job.committed", events.JobCommitted{Epoch: 1, Checkpoint: old, Final: true}) // once more, as the last
	take(4, "lease.ended", events.LeaseEnded{})
	take(5, "job.placed", events.JobPlaced{Epoch: 2, Lease: lease(2), Resume: &events.Checkpoint{Step: 30}})
	if l := h.Lives[1]; !l.Resumed || l.From != 30 || l.First != -1 || !l.Started.IsZero() {
		t.Errorf("before its first step: %+v", l)
	}
	take(6, "job.started", events.JobStarted{Epoch: 2, From: 20, Step: 21}) // the newer checkpoint was bad
	if l := h.Lives[1]; l.From != 20 || l.First != 21 || !l.Started.Equal(at(6)) {
		t.Errorf("after it: %+v", l)
	}
	if len(h.Commits) != 1 || h.Waiting != "" || h.Over() || h.Lives[0].Clock.SetupMS != 5 {
		t.Errorf("%+v", h)
	}
	take(7, "job.ended", events.JobEnded{Outcome: events.Failed})
	if !h.Over() {
		t.Error("it has ended")
	}
	if err := h.Take(Happened{Type: "job.placed", Fact: []byte(`{"epoch": "x"}`)}); err == nil {
		t.Error("nonsense was taken")
	}
}
