package agent_test

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestAnOrderIsTakenUpOnce(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(50 * time.Second)
		at := w.trainer.Last()
		w.gw.Order(events.OrderSave, "save-1")
		w.sleep(time.Minute) // it is repeated with every heartbeat
		answers := w.answers("save-1")
		if len(answers) != 1 || !answers[0].Final || answers[0].Checkpoint.Step <= at {
			t.Errorf("answers %+v", answers)
		}
		w.gw.Order(events.OrderStart, "start-1") // as before the save
		w.sleep(10 * time.Second)
		w.equal("restarts", w.restarts(), 0)
		w.gw.Order(events.OrderSave, "save-2")
		w.sleep(10 * time.Second)
		w.equal("answers", len(w.answers("save-2")), 1)
	})
}

func TestTheOrderThatFollowsANoticeIsTheSameSave(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(50 * time.Second)
		w.seller.Warn(time.Minute)
		w.until("a final commit", func() bool { return w.lastCommit().Final })
		step := w.lastCommit().Checkpoint.Step
		w.gw.Order(events.OrderSave, "save-1")
		w.sleep(3 * time.Second)
		if c := w.lastCommit(); c.OrderID != "save-1" || c.Checkpoint.Step != step || !c.Final {
			t.Errorf("last commit %+v, saved step %d", c, step)
		}
	})
}

func TestStopSavesStopsAndReports(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(50 * time.Second)
		at := w.trainer.Last()
		w.gw.Order(events.OrderStop, "stop-1")
		w.until("it is reported", func() bool { return len(w.gw.Record().Dones) > 0 })
		d := w.gw.Record().Dones[0]
		if d.OrderID != "stop-1" || d.LastStep <= at {
			t.Errorf("reported %+v", d)
		}
		if w.running() {
			t.Error("the trainer lives")
		}
		w.equal("the last commit is of the last step", w.lastCommit().Checkpoint.Step, w.trainer.Last())
		w.sleep(time.Minute)
		w.equal("reports", len(w.gw.Record().Dones), 1)
		if w.over() {
			t.Error("the agent does not stay")
		}
	})
}

func TestStopWithoutASignalShipsWhatTheTrainerSavesWhenTold(t *testing.T) {
	inWorld(t, func(w *world, j *events.JoinReply) {
		j.Spec.Policy.Checkpoint.Signal = ""
		w.boot()
		w.sleep(50 * time.Second)
		w.gw.Order(events.OrderStop, "stop-1")
		w.until("it is reported", func() bool { return len(w.gw.Record().Dones) > 0 })
		c := w.lastCommit()
		if c.Checkpoint.Step != w.trainer.Last() || !c.Final || c.OrderID != "stop-1" {
			t.Errorf("last commit %+v, last step %d", c, w.trainer.Last())
		}
	})
}

func TestEndKillsAtOnce(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.boot()
		w.sleep(50 * time.Second)
		before := len(w.commits())
		w.gw.Order(events.OrderEnd, "end-1")
		w.sleep(time.Second)
		if w.running() {
			t.Error("the trainer lives")
		}
		w.sleep(10 * time.Second)
		d := w.gw.Record().Dones
		if len(d) != 1 || d[0].OrderID != "end-1" || d[0].Signal != "SIGKILL" {
			t.Errorf("reported %+v", d)
		}
		w.equal("commits", len(w.commits()), before)
	})
}

func TestOrdersAtOddTimes(t *testing.T) {
	for name, order := range map[string]events.Order{"stop": events.OrderStop, "end": events.OrderEnd} {
		t.Run(name+" before the start", func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				w.start()
				w.gw.Order(order, "x-1")
				w.sleep(10 * time.Second)
				d := w.gw.Record().Dones
				if len(d) != 1 || d[0].OrderID != "x-1" || len(w.machine.Started()) != 0 {
					t.Errorf("reported %+v", d)
				}
			})
		})
		t.Run(name+" while restoring", func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				good := seed(w.t, w.store, 100)
				w.faults(noAnswer)
				w.start()
				w.gw.Order(events.OrderStart, "start-1", good)
				w.sleep(10 * time.Second)
				w.gw.Order(order, "x-1")
				w.sleep(20 * time.Second)
				d := w.gw.Record().Dones
				if len(d) != 1 || d[0].OrderID != "x-1" || len(w.machine.Started()) != 0 {
					t.Errorf("reported %+v", d)
				}
			})
		})
	}
	t.Run("stop after the trainer's end is answered", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.trainer.Steps = 10
			w.boot()
			w.sleep(30 * time.Second)
			w.gw.Order(events.OrderStop, "stop-1")
			w.sleep(10 * time.Second)
			d := w.gw.Record().Dones
			if len(d) != 2 || d[1].OrderID != "stop-1" || d[1].Code != 0 {
				t.Errorf("reported %+v", d)
			}
		})
	})
	t.Run("stop during a notice is one save", func(t *testing.T) {
		inWorld(t, func(w *world, _ *events.JoinReply) {
			w.boot()
			w.sleep(50 * time.Second)
			w.seller.Warn(time.Minute)
			w.sleep(500 * time.Millisecond)
			w.gw.Order(events.OrderStop, "stop-1")
			w.until("it is reported", func() bool { return len(w.gw.Record().Dones) > 0 })
			w.equal("order", w.gw.Record().Dones[0].OrderID, "stop-1")
			if !w.lastCommit().Final || w.running() {
				t.Errorf("last commit %+v", w.lastCommit())
			}
		})
	})
}
