package failover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

// waste buys a machine for the next epoch and has it end at once. Machines boot within 30 s.
func (w *world) waste(s float64, zone, by string) {
	w.ended(s+1, w.buy(s, w.job.NextEpoch, w.job.NextN, zone, events.ForReplace), by, 0)
}

func TestNothingIsBoughtInALoop(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(w *world)
		status  string
		acquire []string
		notTill float64 // of it; 0: at once
	}{
		{"a machine that ends at boot has the next one wait",
			func(w *world) { w.waste(11, "b", "machine") }, WaitAfterLoss, []string{"acquire-j1-2-2"}, 12.25},
		{"the second one longer",
			func(w *world) { w.waste(11, "b", "machine"); w.waste(13, "c", "fault") }, WaitAfterLoss, []string{"acquire-j1-2-3"}, 14.5},
		{"the third pauses the job",
			func(w *world) { w.waste(11, "b", "machine"); w.waste(13, "c", "fault"); w.waste(16, "b", "") }, "host-fault", nil, 0},
		{"one that does not boot in time counts",
			func(w *world) {
				w.waste(11, "b", "machine")
				w.waste(13, "c", "machine")
				w.buy(20, 2, 3, "b", events.ForReplace)
				w.in(51, Tick{})
			}, "host-fault", nil, 0},
		{"so does one that ends after it was placed",
			func(w *world) {
				w.waste(11, "b", "machine")
				w.waste(13, "c", "machine")
				w.join(21, w.buy(20, 2, 3, "b", events.ForReplace))
				w.ended(22, "j1-2-3", "machine", 0)
			}, "host-fault", nil, 0},
		{"and one that falls silent, but once",
			func(w *world) {
				w.waste(11, "b", "machine")
				w.join(21, w.buy(20, 2, 2, "b", events.ForReplace))
				w.in(22, Silent{Epoch: 2})
				w.ended(23, "j1-2-2", "machine", 0)
			}, WaitAfterLoss, []string{"acquire-j1-3-1"}, 22.5},
		{"a first step ends the row",
			func(w *world) {
				w.waste(11, "b", "machine")
				w.waste(13, "c", "machine")
				w.elsewhere(20, "b")
				w.ended(30, "j1-2-3", "machine", 0)
			}, "acquiring", []string{"acquire-j1-3-1"}, 0},
		{"so does a commit of a trainer that tells no steps",
			func(w *world) {
				w.waste(11, "b", "machine")
				w.waste(13, "c", "machine")
				w.join(21, w.buy(20, 2, 3, "b", events.ForReplace))
				w.commit(22, 30, false)
				w.ended(30, "j1-2-3", "machine", 0)
			}, WaitAfterLoss, []string{"acquire-j1-3-1"}, 30.25},
		{"what the seller takes at boot is replaced at once",
			func(w *world) { w.waste(11, "b", "seller") }, "acquiring", []string{"acquire-j1-2-2"}, 0},
		{"and never pauses the job, but the next one waits ever longer, at most as long as a machine may boot",
			func(w *world) {
				for i := range 12 {
					w.waste(11+float64(60*i), "b", "seller")
				}
			}, WaitAfterLoss, []string{"acquire-j1-2-13"}, 11 + 660 + 1 + 30},
		{"a person's resumption begins anew",
			func(w *world) {
				for i := range 3 {
					w.waste(11+float64(5*i), "b", "machine")
				}
				w.in(40, Resume{By: "ann"})
				w.waste(41, "b", "machine")
			}, WaitAfterLoss, []string{"acquire-j1-2-5"}, 42.25},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			w.ended(10, "j1-1-1", "seller", 12)
			tc.do(w)
			if got := w.job.Status(); got != tc.status {
				t.Errorf("status %q, want %q", got, tc.status)
			}
			if got := owes(w.job, events.Acquire); !slices.Equal(got, tc.acquire) {
				t.Fatalf("acquires %v, want %v", got, tc.acquire)
			}
			if len(tc.acquire) == 0 {
				return
			}
			var till time.Time
			if tc.notTill > 0 {
				till = at(tc.notTill).Control
			}
			if got := Owed(w.job)[0].NotTill; !got.Equal(till) {
				t.Errorf("not till %v, want %v", got.Sub(t0), tc.notTill)
			}
		})
	}
}

func TestAPauseAfterARowOfMachinesSaysWhatWasSeen(t *testing.T) {
	w := newWorld() // never placed
	for i, zone := range []string{"a", "b", "c"} {
		w.ended(float64(5*i)+2, w.buy(float64(5*i)+1, 1, i+1, zone, events.ForStart), "machine", 0)
	}
	waits, pauses := facts[events.JobWaiting](w.log), facts[events.JobPaused](w.log)
	if len(waits) != 2 || waits[1].Reason != WaitAfterLoss || !strings.Contains(waits[1].Detail, "ended itself") || !waits[1].RetryAt.Equal(at(7.5).Control) {
		t.Errorf("waits %+v", waits)
	}
	if len(pauses) != 1 || pauses[0].Reason != events.PauseHostFault || strings.Count(pauses[0].Detail, "the machine ended itself") != 3 || pauses[0].Remedy == "" {
		t.Fatalf("pauses %+v", pauses)
	}
	for _, e := range w.log {
		for _, c := range e.Commands {
			if c.Kind == events.Acquire && w.job.Step() == 0 && len(c.Avoid) != c.N-1 {
				t.Errorf("%s avoids %v", c.ID, c.Avoid)
			}
		}
	}
	for i := range w.log { // whatever was appended before a crash
		j := Replay(w.log[:i+1])
		if after, _ := Step(j, at(100), Tick{}); j.exhausted() && after.Status() != "host-fault" {
			t.Errorf("after event %d: %s", i, after.Status())
		}
		if last := w.log[i]; len(owes(j, events.Acquire)) > 0 && j.Streak.Faults > 0 && !last.Time.Before(Owed(j)[0].NotTill) {
			t.Errorf("event %d leaves a purchase owed at once", i)
		}
	}
}

func TestAJobThatComputesIsNotPausedForMachinesThatItWouldLike(t *testing.T) {
	w := running()
	w.in(10, Migrate{By: "ann"})
	for i := range 5 {
		w.waste(float64(20*i)+11, "b", "machine")
		w.commit(float64(20*i)+13, int64(20+i), false)
	}
	if w.job.Phase == Paused || w.job.Current == nil {
		t.Fatalf("%s", w.job.Status())
	}
	if till := Owed(w.job)[0].NotTill; !till.Equal(at(92 + 4).Control) {
		t.Errorf("the next is bought at %v", till.Sub(t0))
	}
	w.ended(200, "j1-1-1", "seller", 30)
	if got := owes(w.job, events.Acquire); len(got) != 1 {
		t.Errorf("%s, owes %v: what failed while it computed is no reason to pause it", w.job.Status(), got)
	}
}

func TestMachinesThatDieBeforeAnyCommitPauseTheJobInTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name   string
		commit bool
		want   string
	}{{"without a commit", false, "host-fault"}, {"with commits between", true, "acquiring"}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			w.ended(10, "j1-1-1", "machine", 12)
			for i := range maxBarren + 2 {
				if w.job.Phase == Paused {
					break
				}
				s := float64(20 * (i + 1))
				w.elsewhere(s, "b")
				if tc.commit {
					w.commit(s+5, w.job.Step()+5, false)
				}
				w.ended(s+10, w.job.Current.Lease, "machine", 12)
			}
			if w.job.Status() != tc.want {
				t.Errorf("%s after %d machines, want %s", w.job.Status(), len(w.job.Leases), tc.want)
			}
		})
	}
}

// Whatever goes wrong before first steps, an hour of it costs a bounded number of
// machines, which boot within half a minute here.
func TestAnHourOfTroubleAtBootBuysFewMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := running()
		w.ended(10, "j1-1-1", "seller", 12)
		now, bought, faults := 11.0, 0, 0
		for now < 3600 {
			if len(owes(w.job, events.Acquire)) == 0 {
				break
			}
			if till := Owed(w.job)[0].NotTill; !till.IsZero() {
				now = max(now, till.Sub(t0).Seconds())
			}
			l := w.buy(now, w.job.NextEpoch, w.job.NextN, "b", events.ForReplace)
			now += 0.1
			how := rapid.SampledFrom([]string{"seller", "seller", "seller", "seller", "seller", "seller", "machine", "boot", "placed"}).Draw(t, "how")
			switch bought++; how {
			case "boot":
				now += 30
				w.in(now, Tick{})
			case "placed":
				w.join(now, l)
				w.ended(now, l, "fault", 0)
			default:
				w.ended(now, l, how, 0)
			}
			if how != "seller" {
				faults++
			}
		}
		if faults > maxEarly || bought > 10+3600/30 {
			t.Fatalf("%d machines bought, %d failed by themselves", bought, faults)
		}
		if (faults == maxEarly) != (w.job.Status() == "host-fault") {
			t.Fatalf("%s after %d faults", w.job.Status(), faults)
		}
	})
}

// killed has the trainer die so often that its machine is left.
func (w *world) killed(s float64, memory bool) {
	for i := range maxRestarts + 1 {
		w.in(s+float64(i), Exited{Epoch: w.job.Epoch, DoneRequest: events.DoneRequest{
			Lease: w.job.Current.Lease, Code: -1, Signal: "SIGKILL", LastStep: 15, OutOfMemory: memory}})
	}
}

func TestATrainerThatIsKilledOnEveryMachinePausesTheJob(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(w *world)
		status  string
		acquire []string
	}{
		{"the first machine is left", func(w *world) { w.killed(10, false) }, "draining", []string{"acquire-j1-5-1"}},
		{"the second pauses the job", func(w *world) { w.killed(10, false); w.elsewhere(20, "b"); w.killed(30, false) }, "host-fault", nil},
		{"a commit between, on the second, and it goes on",
			func(w *world) {
				w.killed(10, false)
				w.elsewhere(20, "b")
				w.commit(29, 30, false)
				w.killed(30, false)
			}, "draining", []string{"acquire-j1-9-1"}},
		{"a machine whose GPU failed before counts",
			func(w *world) { w.trouble(10, events.TroubleGPUFault); w.elsewhere(20, "b"); w.killed(30, false) }, "host-fault", nil},
		{"one machine counts once",
			func(w *world) { w.killed(10, false); w.trouble(20, events.TroubleGPUFault) }, "draining", []string{"acquire-j1-5-1"}},
		{"under notice nobody is to blame",
			func(w *world) {
				w.killed(10, false)
				w.elsewhere(20, "b")
				w.notice(25, 145)
				w.killed(30, false)
			}, "draining", []string{"acquire-j1-6-1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			if got := owes(w.job, events.Acquire); w.job.Status() != tc.status || !slices.Equal(got, tc.acquire) {
				t.Errorf("%s, acquires %v; want %s, %v", w.job.Status(), got, tc.status, tc.acquire)
			}
		})
	}
	w := running()
	w.killed(10, true)
	w.elsewhere(20, "b")
	w.killed(30, true)
	f := facts[events.JobPaused](w.log)
	if len(f) != 1 || !strings.Contains(f[0].Detail, "SIGKILL for memory") || !strings.Contains(f[0].Remedy, "resources.memory") {
		t.Errorf("%+v", f)
	}
	for _, e := range w.log[len(w.log)-2:] {
		if slices.ContainsFunc(e.Commands, func(c events.Command) bool { return c.Kind == events.Acquire }) {
			t.Errorf("%T leaves a purchase owed", e.Fact)
		}
	}
}
