package agent_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

// TestWhateverHappens has everything happen to an agent in a random order, and
// then looks at what the gateway and the trainer saw.
func TestWhateverHappens(t *testing.T) {
	// Each of the last three once had it ask for one commit for ever.
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 12, 149, 187} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world, _ *events.JoinReply) {
				r := rand.New(rand.NewPCG(seed, 0))
				w.trainer.SaveTime = time.Duration(r.IntN(3000)) * time.Millisecond
				w.trainer.Keep = r.IntN(3)
				w.boot()
				for n := range 40 {
					w.happen(r, n)
					w.sleep(time.Duration(r.IntN(25_000)) * time.Millisecond)
				}
				w.heal()
				before := w.trainer.Last()
				w.sleep(2 * time.Minute)
				w.check(before)
			})
		})
	}
}

func (w *world) happen(r *rand.Rand, n int) {
	unavailable := &events.Refusal{Code: events.RefusedUnavailable}
	switch r.IntN(14) {
	case 0:
		w.gw.Cut(true)
	case 1, 2:
		w.gw.Cut(false)
	case 3:
		w.gw.Refuse(events.VerbRenew, unavailable)
	case 4:
		w.gw.Refuse(events.VerbRenew, nil)
	case 5:
		w.gw.Refuse(events.VerbCommit, unavailable)
	case 6:
		w.gw.Refuse(events.VerbCommit, nil)
	case 7:
		w.seller.Warn(time.Duration(r.IntN(60)) * time.Second)
	case 8:
		w.seller.Withdraw()
	case 9:
		w.seller.Fail(errors.New("refused"))
		w.gw.Lose(events.Verb([]string{"commit", "notice", "renew"}[r.IntN(3)]), 1+r.IntN(2))
	case 10:
		w.gw.Order(events.OrderSave, fmt.Sprintf("save-%d", n))
	case 11:
		w.slept.Add(int64(time.Duration(r.IntN(90)) * time.Second))
	case 12:
		delay, fail := time.Duration(r.IntN(8))*time.Second, r.IntN(3) == 0
		w.faults(func(op mem.Op) mem.Fault {
			f := mem.Fault{Delay: delay}
			if fail {
				f.After = errors.New("answer lost")
			}
			return f
		})
	case 13:
		w.faults(func(mem.Op) mem.Fault { return mem.Fault{} })
	}
}

func (w *world) heal() {
	w.gw.Cut(false)
	w.gw.Refuse(events.VerbRenew, nil)
	w.gw.Refuse(events.VerbCommit, nil)
	w.seller.Fail(nil)
	w.seller.Withdraw()
	w.faults(func(mem.Op) mem.Fault { return mem.Fault{} })
}

func (w *world) check(before int64) {
	w.t.Helper()
	rec := w.gw.Record()
	hold := w.cfg.Bootstrap.Timers.Hold
	for i, at := range rec.CommitAt {
		held := slices.ContainsFunc(rec.BeatAt, func(b time.Duration) bool { return b <= at && at-b < hold })
		if !held {
			w.t.Errorf("commit of step %d without a renewal in the %v before", rec.Commits[i].Checkpoint.Step, hold)
		}
	}
	for i := 1; i < len(rec.Commits); i++ {
		if a, b := rec.Commits[i-1].Checkpoint.Step, rec.Commits[i].Checkpoint.Step; b < a {
			w.t.Errorf("step %d committed after step %d", b, a)
		}
	}
	log := w.trainer.Log()
	for i, s := range log {
		if s.Step != int64(i)+1 {
			w.t.Fatalf("the trainer's log has step %d in place %d: it was started again", s.Step, i)
		}
	}
	if !w.running() || w.over() || len(rec.Dones) > 0 {
		w.t.Errorf("not training on: %+v, %v", rec.Dones, w.err)
	}
	if last := w.lastCommit(); last.Checkpoint.Step < before || last.Final && last.OrderID == "" {
		w.t.Errorf("two minutes after all is well, last commit %+v, step %d then", last, before)
	}
	for _, id := range slices.Compact(orderIDs(rec)) {
		if n := len(w.answers(id)); n > 1+2 { // lost answers are repeated
			w.t.Errorf("order %s was answered %d times", id, n)
		}
	}
}

func orderIDs(rec agenttest.Record) (ids []string) {
	for _, c := range rec.Commits {
		if c.OrderID != "" {
			ids = append(ids, c.OrderID)
		}
	}
	return ids
}
