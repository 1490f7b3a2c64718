package failover

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spotferry/spotferry/events"
)

func (w *world) trouble(s float64, k events.Trouble) []events.Event {
	c := w.job.Current
	return w.in(s, Troubled{events.JobTroubled{Epoch: w.job.Epoch, Lease: c.Lease, Kind: k, Step: 3, Detail: "it says so"}})
}

// elsewhere places the job on its next machine and has it make a step.
func (w *world) elsewhere(s float64, zone string) {
	w.join(s+1, w.buy(s, w.job.NextEpoch, w.job.NextN, zone, events.ForReplace))
	w.start(s+2, w.job.Step()+1)
}

func TestTroubleThatBurnsMoney(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(w *world)
		status  string
		epoch   int
		acquire []string
		release []string
		order   events.Order
	}{
		{"a trainer that ignores its checkpoint pauses the job at once",
			func(w *world) { w.trouble(10, events.TroubleRestoreIgnored) }, "restore-ignored", 1, nil, []string{"release-j1-1-1"}, ""},
		{"so does one that stands still",
			func(w *world) { w.trouble(10, events.TroubleStalled) }, "stalled", 1, nil, []string{"release-j1-1-1"}, ""},
		{"word from an epoch that is over says nothing of the trainer of today",
			func(w *world) {
				w.exit(10, -1, "SIGKILL")
				w.in(11, Troubled{events.JobTroubled{Epoch: 1, Lease: "j1-1-1", Kind: events.TroubleStalled}})
			}, "restoring", 2, nil, nil, events.OrderStart},
		{"but of the machine, if it is the same",
			func(w *world) {
				w.exit(10, -1, "SIGKILL")
				w.in(11, Troubled{events.JobTroubled{Epoch: 1, Lease: "j1-1-1", Kind: events.TroubleGPUFault}})
			}, "draining", 2, []string{"acquire-j1-3-1"}, nil, events.OrderStop},
		{"a machine that is broken is left for another pool, its trainer stopped",
			func(w *world) { w.trouble(10, events.TroubleGPUFault) }, "draining", 1, []string{"acquire-j1-2-1"}, nil, events.OrderStop},
		{"nothing is started again on it",
			func(w *world) { w.trouble(10, events.TroubleHostFault); w.exit(11, 1, "") }, "draining", 1, []string{"acquire-j1-2-1"}, nil, events.OrderStop},
		{"what was complete on it is still committed",
			func(w *world) {
				w.trouble(10, events.TroubleHostFault)
				w.commit(11, 20, false)
				w.join(13, w.buy(12, 2, 1, "b", events.ForReplace))
			},
			"restoring", 2, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"a second one without a commit between pauses the job",
			func(w *world) {
				w.trouble(10, events.TroubleGPUFault)
				w.elsewhere(11, "b")
				w.trouble(20, events.TroubleHostFault)
			}, "host-fault", 2, nil, []string{"release-j1-1-1", "release-j1-2-1"}, ""},
		{"with a commit between it does not",
			func(w *world) {
				w.trouble(10, events.TroubleGPUFault)
				w.elsewhere(11, "b")
				w.commit(15, 30, false)
				w.trouble(20, events.TroubleGPUFault)
			}, "draining", 2, []string{"acquire-j1-3-1"}, []string{"release-j1-1-1"}, events.OrderStop},
		{"a next machine that is broken is no next machine",
			func(w *world) {
				w.notice(10, 130)
				l := w.buy(11, 2, 1, "b", events.ForReplace)
				w.join(12, l)
				w.in(13, Troubled{events.JobTroubled{Epoch: 2, Lease: l, Kind: events.TroubleGPUFault}})
			}, "draining", 1, []string{"acquire-j1-3-1"}, []string{"release-j1-2-1"}, events.OrderStart},
		{"nor is one that the seller takes back already",
			func(w *world) {
				w.notice(10, 130)
				l := w.buy(11, 2, 1, "b", events.ForReplace)
				w.join(12, l)
				w.in(13, Noticed{events.JobNoticed{Epoch: 2, Lease: l, Deadline: at(60).Control}})
			}, "draining", 1, []string{"acquire-j1-3-1"}, []string{"release-j1-2-1"}, events.OrderStart},
		{"a resumed job starts with a clean record",
			func(w *world) {
				w.trouble(10, events.TroubleGPUFault)
				w.elsewhere(11, "b")
				w.trouble(20, events.TroubleGPUFault)
				w.in(30, Resume{By: "ann"})
				w.elsewhere(31, "c")
				w.trouble(40, events.TroubleGPUFault)
			}, "draining", 3, []string{"acquire-j1-4-1"}, []string{"release-j1-1-1", "release-j1-2-1"}, events.OrderStop},
		{"trouble while it saves for a pause changes nothing",
			func(w *world) { w.in(10, Pause{By: "ann"}); w.trouble(11, events.TroubleGPUFault) }, "pausing", 1, nil, nil, events.OrderStop},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			w.is(t, tc.status, tc.epoch, tc.acquire, tc.release, tc.order)
		})
	}
}

func TestATroubleLeavesRemedyAndCheckpoint(t *testing.T) {
	w := running()
	out := w.trouble(10, events.TroubleRestoreIgnored)
	if len(out) != 2 {
		t.Fatalf("%+v", out)
	}
	f := out[1].Fact.(events.JobPaused)
	if f.Reason != events.PauseRestoreIgnored || f.Detail != "it says so" || f.Remedy == "" || f.Checkpoint == nil || f.Checkpoint.Step != 10 || f.By != "" {
		t.Errorf("%+v", f)
	}
	// A crash between the two appends is made good by whatever comes next.
	half := Replay(w.log[:len(w.log)-1])
	if len(owes(half, events.Acquire)) > 0 {
		t.Error("a machine is sought between trouble and pause")
	}
	if again, evs := Step(half, at(11), Tick{}); again.Status() != "restore-ignored" || len(evs) != 1 {
		t.Errorf("%s after %+v", again.Status(), evs)
	}
}

func TestNothingBelowWhatWasRestoredBecomesNewest(t *testing.T) {
	w := running()
	w.ended(10, "j1-1-1", "seller", 12)
	w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
	if out := w.commit(13, 3, false); len(out) > 0 || w.job.Step() != 10 {
		t.Errorf("step 3 after restoring step 10: %+v", out)
	}
	if w.commit(14, 11, false); w.job.Step() != 11 {
		t.Errorf("newest is %d", w.job.Step())
	}
}

func TestThePolicyOnExits(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   events.Policy
		do       func(w *world)
		status   string
		restarts int
	}{
		{"nobody said: the same code twice without progress is the end", events.Policy{},
			func(w *world) { w.crash(10, 3); w.crash(12, 3) }, "failed", 1},
		{"a code to restart on is no crash", events.Policy{RestartOnExit: []int{3}},
			func(w *world) { w.crash(10, 3); w.crash(12, 3); w.crash(14, 3) }, "restoring", 0},
		{"another code is", events.Policy{RestartOnExit: []int{3}},
			func(w *world) { w.crash(10, 4); w.crash(12, 3); w.crash(14, 4) }, "failed", 1},
		{"so many restarts, whatever the code", events.Policy{MaxRestarts: 2},
			func(w *world) { w.crash(10, 3); w.crash(12, 3) }, "restoring", 2},
		{"and no more, whatever the progress", events.Policy{MaxRestarts: 2},
			func(w *world) { w.crash(10, 3); w.crash(12, 4); w.commit(13, 50, false); w.crash(14, 5) }, "failed", 2},
		{"none at all", events.Policy{MaxRestarts: -1}, func(w *world) { w.crash(10, 3) }, "failed", 0},
		{"death by signal is not the trainer's doing", events.Policy{MaxRestarts: -1},
			func(w *world) { w.exit(10, -1, "SIGKILL") }, "restoring", 0},
		{"nor is an exit under notice", events.Policy{MaxRestarts: -1},
			func(w *world) { w.notice(10, 130); w.exit(11, 3, "") }, "draining", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			w.job.Spec.Policy.RestartOnExit, w.job.Spec.Policy.MaxRestarts = tc.policy.RestartOnExit, tc.policy.MaxRestarts
			tc.do(w)
			if w.job.Status() != tc.status || w.job.Restarts != tc.restarts {
				t.Errorf("%s after %d restarts, want %s after %d: %s", w.job.Status(), w.job.Restarts, tc.status, tc.restarts, w.job.Reason)
			}
		})
	}
}

func (w *world) crash(s float64, code int) {
	w.exit(s, code, "")
	if !w.job.Over() {
		w.in(s+0.5, Tick{})
		if w.job.Current.Started.IsZero() && w.job.Phase == Running {
			w.start(s+1, w.job.Step()+1)
		}
	}
}

func TestATrainerThatIsAlwaysStartedAgainWaitsEverLonger(t *testing.T) {
	w := running()
	w.job.Spec.Policy.RestartOnExit = []int{3}
	now := 10.0
	for range maxRestarts {
		w.exit(now, 3, "")
	}
	epoch := w.job.Epoch
	for _, pause := range []float64{1, 2, 4} {
		w.exit(now, 3, "")
		if w.in(now+pause-0.1, Tick{}); w.job.Epoch != epoch {
			t.Fatalf("started again before %v s", pause)
		}
		if len(owes(w.job, events.Acquire)) > 0 {
			t.Fatal("a machine is sought for it")
		}
		now += pause
		if w.in(now, Tick{}); w.job.Epoch != epoch+1 {
			t.Fatalf("not started again after %v s", pause)
		}
		epoch++
	}
	if w.commit(now, 99, false); w.job.Current.restartPause() != 0 {
		t.Error("it still waits after a commit")
	}
}

func TestLastWordsAreKeptOncePerEpochLeftInTrouble(t *testing.T) {
	w := running()
	w.ended(10, "j1-1-1", "seller", 12)
	if u := w.job.Unspoken; len(u) != 1 || u[0].Epoch != 1 || u[0].Lease != "j1-1-1" {
		t.Fatalf("unspoken %+v", u)
	}
	long := events.LogLine{Stream: "stdout", Text: strings.Repeat("é", 5000) + "\xff"}
	lines := slices.Repeat([]events.LogLine{{Text: "early"}, long}, 150)
	words := LastWords{events.JobLastWords{Epoch: 1, Lease: "j1-1-1", Lines: lines}}
	out := w.in(15, words)
	if len(out) != 1 {
		t.Fatalf("%d events", len(out))
	}
	size := 0
	got := out[0].Fact.(events.JobLastWords).Lines
	for _, l := range got {
		size += len(l.Text)
		if !utf8.ValidString(l.Text) || len(l.Text) > lineBytes {
			t.Errorf("a line of %d bytes, valid %v", len(l.Text), utf8.ValidString(l.Text))
		}
	}
	if size > lastBytes || len(got) > lastLines || len(got) == 0 {
		t.Errorf("%d lines of %d bytes", len(got), size)
	}
	if lines[1].Text != long.Text {
		t.Error("the caller's lines were cut")
	}
	for _, again := range []Input{words, LastWords{events.JobLastWords{Epoch: 2, Lease: "j1-2-1"}}} {
		if out := w.in(16, again); len(out) > 0 {
			t.Errorf("kept again: %+v", out)
		}
	}
}

func TestWhoseLastWordsAreKept(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(w *world)
		want int
	}{
		{"a machine that was taken after its notice", func(w *world) { w.notice(10, 40); w.elsewhere(11, "b"); w.in(41, Tick{}); w.in(42, Tick{}) }, 1},
		{"a trainer that was killed", func(w *world) { w.exit(10, -1, "SIGKILL") }, 1},
		{"a job that failed", func(w *world) {
			w.in(10, Exited{Epoch: 1, DoneRequest: events.DoneRequest{Lease: "j1-1-1", Unrestorable: true}})
		}, 1},
		{"a stalled job", func(w *world) { w.trouble(10, events.TroubleStalled) }, 1},
		{"not a job that has succeeded", func(w *world) { w.exit(10, 0, "") }, 0},
		{"not one that was cancelled", func(w *world) { w.in(10, Cancel{By: "ann"}) }, 0},
		{"not a machine that was left for a cheaper one", func(w *world) {
			w.join(12, w.buy(11, 2, 1, "b", events.ForCheaper))
			w.commit(13, 20, true)
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			if len(w.job.Unspoken) != tc.want {
				t.Errorf("%+v, want %d", w.job.Unspoken, tc.want)
			}
		})
	}
}
