package rehearse

import (
	"math"
	"time"

	"github.com/spotferry/spotferry/events"
)

// began is when every rehearsal of these tests begins.
var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return began.Add(time.Duration(math.Round(s*1000)) * time.Millisecond) }

func lease(epoch int) events.LeaseID { return events.JobID("j").Lease(epoch, 1) }

// steady is the loss of a step in a run that nobody disturbs.
func steady(step int64) float64 { return 3 - float64(step)/100 }

// life is a trainer of one step in 100 ms, from the step after from up to last.
func life(epoch int, start float64, from, last int64, loss func(int64) float64) Life {
	l := Life{Epoch: epoch, Lease: lease(epoch), Placed: at(start), Started: at(start + 0.1), Resumed: from > 0, From: from, First: from + 1}
	if last <= from {
		l.Started, l.First = time.Time{}, -1
	}
	for step := from + 1; step <= last; step++ {
		t := Telling{Lease: l.Lease, At: at(start + float64(step-from)/10), Step: step}
		if loss != nil {
			x := loss(step)
			t.Loss = &x
		}
		l.Told = append(l.Told, t)
	}
	return l
}

func commit(epoch int, step int64, s float64) Commit {
	return Commit{events.JobCommitted{
		Epoch: epoch, Lease: lease(epoch), SaveMS: 20, UploadMS: 5, Checkpoint: events.Checkpoint{Name: string(rune('a'+epoch)) + at(s).String(), Epoch: epoch, Step: step, Bytes: 1000, Files: 2},
	}, at(s)}
}

// good is a run that saw all there is to see: a notice at step 25, on which step
// 25 was saved, and a machine that vanished at step 55, 15 steps after a save.
func good() Run {
	a, b, c := life(1, 0, 0, 30, steady), life(2, 4, 25, 55, steady), life(3, 8, 40, 56, steady)
	return Run{
		Name: "j", Began: began, Ended: at(11), Limit: 5 * time.Minute, Notice: 30 * time.Second, Tolerance: 1e-4, Complete: true, Reached: Sudden,
		Spec:  events.JobSpec{Policy: events.Policy{Checkpoint: events.CheckpointPolicy{Framework: "hf", Signal: "SIGUSR1"}}},
		Lives: []Life{a, b, c}, Look: Look{Dir: "checkpoints", Trainer: at(0), Framework: "hf"},
		Taken: []Taken{{Life: a, Notice: true, At: at(2.4)}, {Life: b, At: at(7)}},
		History: History{
			Commits: []Commit{commit(1, 20, 2.1), commit(1, 25, 2.7), commit(2, 40, 5.6)},
			Noticed: []events.JobNoticed{{Epoch: 1, Lease: lease(1), Seen: at(2.55), SignalMS: 3}},
		},
	}
}
