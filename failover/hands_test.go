package failover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestWhatPeopleDoToAJob(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(w *world)
		status  string
		epoch   int
		acquire []string
		release []string
		order   events.Order
	}{
		{"a pause saves and stops first",
			func(w *world) { w.in(10, Pause{By: "ann"}) }, "pausing", 1, nil, nil, events.OrderStop},
		{"and gives the machine back when the trainer has stopped, whatever its exit code",
			func(w *world) { w.in(10, Pause{By: "ann"}); w.commit(11, 20, true); w.stopped(12, 143) },
			"paused", 1, nil, []string{"release-j1-1-1"}, ""},
		{"a trainer that stops in good order is not taken for one that has finished",
			func(w *world) { w.in(10, Pause{By: "ann"}); w.stopped(12, 0) }, "paused", 1, nil, []string{"release-j1-1-1"}, ""},
		{"one that finishes meanwhile has finished",
			func(w *world) { w.in(10, Pause{By: "ann"}); w.exit(12, 0, "") }, "succeeded", 1, nil, []string{"release-j1-1-1"}, events.OrderEnd},
		{"a trainer that does not stop is not waited for",
			func(w *world) { w.in(10, Pause{By: "ann"}); w.in(80, Tick{}) }, "paused", 1, nil, []string{"release-j1-1-1"}, ""},
		{"a machine lost while it saves pauses the job",
			func(w *world) { w.in(10, Pause{By: "ann"}); w.ended(11, "j1-1-1", "seller", 17) }, "paused", 1, nil, nil, ""},
		{"with no machine the pause is at once, and what is on its way goes back",
			func(w *world) {
				w.ended(10, "j1-1-1", "seller", 17)
				w.buy(11, 2, 1, "b", events.ForReplace)
				w.in(12, Pause{By: "ann"})
			}, "paused", 1, nil, []string{"release-j1-2-1"}, ""},
		{"a machine bought for a paused job goes straight back",
			func(w *world) { w.paused(10); w.buy(20, 2, 1, "b", events.ForReplace) },
			"paused", 1, nil, []string{"release-j1-1-1", "release-j1-2-1"}, ""},
		{"a resumed job seeks a machine, and may have the same again",
			func(w *world) { w.paused(10); w.in(20, Resume{By: "bob"}) }, "acquiring", 1, []string{"acquire-j1-2-1"}, []string{"release-j1-1-1"}, ""},
		{"and goes on from its newest checkpoint",
			func(w *world) {
				w.paused(10)
				w.in(20, Resume{By: "bob"})
				w.join(22, w.buy(21, 2, 1, "a", events.ForReplace))
			}, "restoring", 2, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"a paused job can be cancelled",
			func(w *world) { w.paused(10); w.in(20, Cancel{By: "ann"}) }, "cancelled", 1, nil, []string{"release-j1-1-1"}, ""},
		{"so can one that still saves",
			func(w *world) { w.in(10, Pause{By: "ann"}); w.in(11, Cancel{By: "ann"}) }, "cancelled", 1, nil, []string{"release-j1-1-1"}, events.OrderEnd},
		{"a paused job misses its deadline",
			func(w *world) { w.paused(10); w.in(6001, Tick{}) }, "missed-deadline", 1, nil, []string{"release-j1-1-1"}, ""},
		{"the money's end pauses a job that wants that",
			func(w *world) { w.job.Spec.Policy.OnBudget = "pause"; w.decline(10, 1, 2, "out-of-budget") },
			"pausing", 1, nil, nil, events.OrderStop},
		{"with its status saying so",
			func(w *world) {
				w.job.Spec.Policy.OnBudget = "pause"
				w.decline(10, 1, 2, "out-of-budget")
				w.stopped(11, 143)
			}, "paused-by-budget", 1, nil, []string{"release-j1-1-1"}, ""},
		{"and money takes it up again",
			func(w *world) {
				w.job.Spec.Policy.OnBudget = "pause"
				w.decline(10, 1, 2, "out-of-budget")
				w.stopped(11, 143)
				w.in(12, Resume{By: ByBudget})
			}, "acquiring", 1, []string{"acquire-j1-2-1"}, []string{"release-j1-1-1"}, ""},
		{"money does not take up what a person paused",
			func(w *world) { w.paused(10); w.in(20, Resume{By: ByBudget}) }, "paused", 1, nil, []string{"release-j1-1-1"}, ""},

		{"a migration seeks a machine while the job computes",
			func(w *world) { w.in(10, Migrate{By: "ann"}) }, "running", 1, []string{"acquire-j1-2-1"}, nil, events.OrderStart},
		{"saves when it is ready",
			func(w *world) { w.in(10, Migrate{By: "ann"}); w.join(12, w.buy(11, 2, 1, "b", events.ForReplace)) },
			"draining", 1, nil, nil, events.OrderSave},
		{"and moves after the save",
			func(w *world) {
				w.in(10, Migrate{By: "ann"})
				w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
				w.commit(13, 20, true)
			}, "restoring", 2, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"the next machine's loss seeks another",
			func(w *world) {
				w.in(10, Migrate{By: "ann"})
				w.buy(11, 2, 1, "b", events.ForReplace)
				w.ended(12, "j1-2-1", "seller", 0)
			}, "running", 1, []string{"acquire-j1-2-2"}, nil, events.OrderStart},
		{"a trainer that dies meanwhile restarts in place, and the move is still wanted",
			func(w *world) { w.in(10, Migrate{By: "ann"}); w.exit(11, -1, "SIGKILL"); w.start(12, 11) },
			"running", 2, []string{"acquire-j1-3-1"}, nil, events.OrderStart},
		{"a migration that cannot be paid is dropped, and the job goes on",
			func(w *world) { w.in(10, Migrate{By: "ann"}); w.decline(11, 2, 1, "out-of-budget") },
			"running", 1, nil, nil, events.OrderStart},
		{"a migration with nothing to buy waits while the job computes",
			func(w *world) { w.in(10, Migrate{By: "ann"}); w.decline(11, 2, 1, "waiting-for-capacity") },
			"running", 1, []string{"acquire-j1-2-2"}, nil, events.OrderStart},

		{"a drill has the agent save and seeks a replacement at once",
			func(w *world) { w.in(10, Drill{By: "ann"}) }, "draining", 1, []string{"acquire-j1-2-1"}, nil, events.OrderSave},
		{"and is placed when saved",
			func(w *world) {
				w.in(10, Drill{By: "ann"})
				w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
				w.commit(13, 20, true)
			}, "restoring", 2, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"the machine is taken at the end of its notice, saved or not, replaced or not",
			func(w *world) { w.in(10, Drill{By: "ann"}); w.in(131, Tick{}) },
			"acquiring", 1, []string{"acquire-j1-2-1"}, []string{"release-j1-1-1"}, ""},
		{"a drill that cannot be paid is dropped",
			func(w *world) { w.in(10, Drill{By: "ann"}); w.decline(11, 2, 1, "out-of-budget") },
			"running", 1, nil, nil, events.OrderStart},
		{"a seller cannot withdraw a drill",
			func(w *world) {
				w.in(10, Drill{By: "ann"})
				w.in(11, Withdrawn{events.JobNoticeWithdrawn{Epoch: 1, Lease: "j1-1-1"}})
			}, "draining", 1, []string{"acquire-j1-2-1"}, nil, events.OrderSave},
		{"without notice the machine is given back under its agent, and nothing is sought yet",
			func(w *world) { w.in(10, Drill{By: "ann", NoNotice: true}) }, "running", 1, nil, []string{"release-j1-1-1"}, events.OrderStart},
		{"until it is found gone",
			func(w *world) { w.in(10, Drill{By: "ann", NoNotice: true}); w.ended(14, "j1-1-1", "us", 17) },
			"acquiring", 1, []string{"acquire-j1-2-1"}, nil, ""},
		{"or silent",
			func(w *world) {
				w.in(10, Drill{By: "ann", NoNotice: true})
				w.in(50, Silent{Epoch: 1, Heard: Heard{Step: 17, At: at(11).Control}})
			}, "draining", 1, []string{"acquire-j1-2-1"}, []string{"release-j1-1-1"}, events.OrderStart},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			w.is(t, tc.status, tc.epoch, tc.acquire, tc.release, tc.order)
		})
	}
}

func (w *world) is(t *testing.T, status string, epoch int, acquire, release []string, o events.Order) {
	t.Helper()
	if got := w.job.Status(); got != status {
		t.Errorf("status %q, want %q", got, status)
	}
	if w.job.Epoch != epoch {
		t.Errorf("epoch %d, want %d", w.job.Epoch, epoch)
	}
	if got := owes(w.job, events.Acquire); !slices.Equal(got, acquire) {
		t.Errorf("acquires %v, want %v", got, acquire)
	}
	if got := owes(w.job, events.Release); !slices.Equal(got, release) {
		t.Errorf("releases %v, want %v", got, release)
	}
	if got := order(w.job); got != o {
		t.Errorf("order %q, want %q", got, o)
	}
}

// stopped is the trainer's end after it was told to stop.
func (w *world) stopped(s float64, code int) []events.Event {
	return w.in(s, Exited{Epoch: w.job.Epoch, DoneRequest: events.DoneRequest{Lease: w.job.Current.Lease, Code: code, LastStep: 20, OrderID: "stop"}})
}

func (w *world) paused(s float64) {
	w.in(s, Pause{By: "ann", Reason: "holidays"})
	w.commit(s+1, 20, true)
	w.stopped(s+2, 143)
}

func TestWhatIsRefused(t *testing.T) {
	nothing := func(*world) {}
	for _, tc := range []struct {
		name string
		do   func(w *world)
		in   Input
		want string // "": it passes
	}{
		{"a running job can be paused", nothing, Pause{By: "ann"}, ""},
		{"the same pause again is the same pause", func(w *world) { w.paused(10) }, Pause{By: "ann", Reason: "holidays"}, ""},
		{"another's is refused", func(w *world) { w.paused(10) }, Pause{By: "bob"}, "already"},
		{"so is a pause of a job that saves for one", func(w *world) { w.in(10, Pause{By: "ann"}) }, Pause{By: "bob"}, "told to save"},
		{"and of one that has ended", func(w *world) { w.exit(10, 0, "") }, Pause{By: "ann"}, "has ended: succeeded"},
		{"and of one that stops", func(w *world) { w.in(6001, Tick{}) }, Pause{By: "ann"}, "missed-deadline"},
		{"a running job cannot be resumed", nothing, Resume{By: "ann"}, "not paused, it is running"},
		{"nor one that still saves", func(w *world) { w.in(10, Pause{By: "ann"}) }, Resume{By: "ann"}, "still saving"},
		{"the same resume again is the same resume", func(w *world) { w.paused(10); w.in(20, Resume{By: "ann"}) }, Resume{By: "ann"}, ""},
		{"money resumes only what it paused", func(w *world) { w.paused(10) }, Resume{By: ByBudget}, "another reason"},
		{"a running job can be drilled", nothing, Drill{By: "ann", NoNotice: true}, ""},
		{"the same drill again is the same drill", func(w *world) { w.in(10, Drill{By: "ann"}) }, Drill{By: "ann"}, ""},
		{"another is refused", func(w *world) { w.in(10, Drill{By: "ann"}) }, Drill{By: "ann", NoNotice: true}, "move is in progress"},
		{"a job that moves cannot be drilled", func(w *world) { w.notice(10, 130) }, Drill{By: "ann"}, "move is in progress"},
		{"nor migrated", func(w *world) { w.notice(10, 130) }, Migrate{By: "ann"}, "move is in progress"},
		{"nor one that has made no step here", func(w *world) { w.exit(10, -1, "SIGKILL") }, Drill{By: "ann"}, "move is in progress"},
		{"nor one without a machine", func(w *world) { w.ended(10, "j1-1-1", "seller", 1) }, Migrate{By: "ann"}, "no machine runs it"},
		{"nor a paused one", func(w *world) { w.paused(10) }, Migrate{By: "ann"}, "is paused"},
		{"the same migration again is the same migration", func(w *world) { w.in(10, Migrate{By: "ann"}) }, Migrate{By: "ann"}, ""},
		{"another's is refused", func(w *world) { w.in(10, Migrate{By: "ann"}) }, Migrate{By: "bob"}, "move is in progress"},
		{"a drill's deadline lies ahead", nothing, Drill{By: "ann", Deadline: at(1).Control}, "notice of"},
		{"but not far", nothing, Drill{By: "ann", Deadline: at(50 * 3600).Control}, "notice of"},
		{"what is no person's act is never refused", nothing, Tick{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			err := Refuse(w.job, at(20), tc.in)
			r, refused := IsRefused(err)
			if refused != (tc.want != "") || refused && !strings.Contains(r.What, tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if _, out := Step(w.job, at(20), tc.in); refused && len(out) > 0 {
				t.Errorf("refused and done: %+v", out)
			}
		})
	}
}

func TestADrillsRecordSaysThatItWasOne(t *testing.T) {
	for _, tc := range []struct {
		name    string
		drill   Drill
		do      func(w *world)
		noticed bool
		lost    int64
	}{
		{"with notice", Drill{By: "ann", Reason: "q3"}, func(w *world) {
			w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
			w.commit(13, 20, true)
		}, true, 0},
		{"with notice that ran out", Drill{By: "ann", Reason: "q3", Deadline: at(30).Control}, func(w *world) {
			w.in(31, Tick{})
			w.join(33, w.buy(32, 2, 1, "b", events.ForReplace))
		}, true, 5},
		{"with notice, of a trainer that cannot be asked: its newest checkpoint once more is no save", Drill{By: "ann", Reason: "q3"}, func(w *world) {
			w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
			w.commit(13, 10, true)
		}, true, 5},
		{"without", Drill{By: "ann", Reason: "q3", NoNotice: true}, func(w *world) {
			w.ended(14, "j1-1-1", "us", 17)
			w.join(16, w.buy(15, 2, 1, "b", events.ForReplace))
		}, false, 7},
		{"without, found by silence", Drill{By: "ann", Reason: "q3", NoNotice: true}, func(w *world) {
			w.in(14, Silent{Epoch: 1, Heard: Heard{Step: 17, At: at(11).Control}})
			w.join(16, w.buy(15, 2, 1, "b", events.ForReplace))
			w.ended(17, "j1-1-1", "us", 17)
		}, false, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			drilled := w.in(10, tc.drill)
			tc.do(w)
			out := w.in(40, Stepped{events.JobStarted{Epoch: 2, Lease: "j1-2-1", From: w.job.Current.From, Step: w.job.Current.From + 1, Before: 15}})
			r, ok := out[len(out)-1].Fact.(events.JobFailedOver)
			if !ok {
				t.Fatalf("no record: %+v", out)
			}
			if r := r.Record; !r.Drill || r.Cause != events.CauseOperator || r.Noticed != tc.noticed || r.LostSteps != tc.lost ||
				!strings.Contains(r.Detail, "drill by ann: q3") || r.Evidence[0] != drilled[0].ID {
				t.Errorf("%+v", r)
			}
			saved := slices.ContainsFunc(r.Record.Phases, func(p events.Phase) bool { return p.Name == "save" })
			if r := r.Record; r.Began.Before(drilled[0].Time) || saved != (r.Resumed.Step == 20) || saved != (r.UsedMS > 0) {
				t.Errorf("the drill was at %v: %+v", drilled[0].Time, r)
			}
			if w.job.Current.Drill.Event != "" {
				t.Error("the new machine is drilled as well")
			}
		})
	}
}

func TestAPauseIsInTheRecordOfTheNextMachine(t *testing.T) {
	w := running()
	w.paused(10)
	w.ended(15, "j1-1-1", "us", 0)
	w.in(1000, Resume{By: "bob"})
	w.join(1003, w.buy(1002, 2, 1, "a", events.ForReplace))
	out := w.start(1005, 21)
	r := out[len(out)-1].Fact.(events.JobFailedOver).Record
	if r.Cause != events.CauseOperator || r.Drill || r.LostSteps != 0 || !strings.Contains(r.Detail, "paused by ann: holidays") {
		t.Errorf("%+v", r)
	}
	i := slices.IndexFunc(r.Phases, func(p events.Phase) bool { return p.Name == "wait" })
	if i < 0 || time.Duration(r.Phases[i].MS)*time.Millisecond < 980*time.Second {
		t.Errorf("the pause is no wait: %+v", r.Phases)
	}
	if len(w.job.Unspoken) > 0 {
		t.Errorf("last words of an epoch that ended in good order: %+v", w.job.Unspoken)
	}
}
