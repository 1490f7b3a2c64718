package rehearse

import (
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

// told is everything that a verdict says.
func (v Verdict) told() string {
	return strings.Join(append(append(append([]string{v.Title, v.Matters}, v.Saw...), v.Change...), v.Remarks...), "\n")
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	differs := func(from int64, loss func(int64) float64) func(*Run) {
		return func(r *Run) {
			r.Lives[2] = life(3, 8, 40, 56, func(step int64) float64 {
				if step < from {
					return steady(step)
				}
				return loss(step)
			})
		}
	}
	for _, tc := range []struct {
		name string
		with func(*Run)
		kind Kind
		says []string
	}{
		{"a run that goes on as it was resumes", func(*Run) {}, Resumes, []string{
			"taken away with a notice of 30 s at step 25: it saved step 25 on SIGUSR1, trained on to step 30 and went on from its checkpoint of step 25 with step 26, 1.1 s after its last; 5 steps were done again, with the same losses to the last digit",
			"taken away without a word at step 55: it went on from its checkpoint of step 40 with step 41, 1.1 s after its last; 15 steps were done again, with the same losses to the last digit",
		}},
		{"losses a little off are within the tolerance, and that is said", differs(43, func(s int64) float64 { return steady(s) * (1 + 1e-5) }), Resumes, []string{"within 1e-04 of those before (the farthest off by 1.0e-05"}},
		{"other losses from the first step on are random states or data", differs(41, func(s int64) float64 { return steady(s) * 1.02 }), LossesDiffer, []string{"differ from the first step on", "rng_state*.pth"}},
		{"losses as at the beginning are new weights", differs(41, func(s int64) float64 { return 3 - float64(s-40)/100 }), LossesDiffer, []string{"its weights are new", "resume_from_checkpoint"}},
		{"a first loss that agrees is an optimizer that was not restored", differs(42, func(s int64) float64 { return steady(s) * 1.2 }), LossesDiffer, []string{"the first loss after the checkpoint was as before", "scheduler.pt"}},
		{"losses near each other may be kernels, and the flag is named", differs(41, func(s int64) float64 { return steady(s) * 1.001 }), LossesDiffer, []string{"--tolerance 2e-03"}},
		{"without losses the steps are compared, and how to tell losses is said", func(r *Run) {
			r.Lives = []Life{life(1, 0, 0, 30, nil), life(2, 4, 25, 55, nil), life(3, 8, 40, 56, nil)}
		}, Resumes, []string{"15 steps were seen twice, without losses", "Its losses could not be compared", "SPOTFERRY_PROGRESS_FILE", "logging_steps=1"}},
		{"without steps only checkpoints are compared", func(r *Run) {
			r.Lives = []Life{life(1, 0, 0, 30, nil), life(2, 4, 25, 55, nil), life(3, 8, 40, 56, nil)}
			for i := range r.Lives {
				r.Lives[i].Told = nil
			}
			r.History.Commits = append(r.History.Commits, commit(3, 60, 10))
		}, Resumes, []string{"went on from its checkpoint of step 40, and the next it saved was of step 60", "It tells no steps"}},
		{"a signal that is not named is no fault, and said", func(r *Run) { r.Spec.Policy.Checkpoint.Signal = "" }, Resumes, []string{"A notice does not help it"}},
		{"a signal without a save is one that was not heard", func(r *Run) { r.History.Commits = r.History.Commits[:1]; r.Lives[1].From = 20 }, DeafToNotice, []string{"it did not save on SIGUSR1", "SIGUSR1 (policy.checkpoint.on_notice) was sent to it 3 ms after the notice"}},
		{"a save in its own rhythm is no answer", func(r *Run) {
			r.Lives[0] = life(1, 0, 0, 45, steady)
			r.History.Commits[1] = commit(1, 40, 4.2)
			r.Lives[1].From = 40
		}, DeafToNotice, []string{"it did not save on SIGUSR1"}},
		{"a signal that nobody handles was not sent", func(r *Run) {
			r.History.Commits = r.History.Commits[:1]
			r.History.Noticed[0].SignalMS = -1
		}, DeafToNotice, []string{"no process of the job has a handler for SIGUSR1"}},
		{"a step below the checkpoint's is a checkpoint ignored", func(r *Run) {
			r.History.Troubled = &events.JobTroubled{Kind: events.TroubleRestoreIgnored, Detail: "the first step is 1", Remedy: "pass it on."}
			r.History.Paused, r.Complete = &events.JobPaused{Reason: events.PauseRestoreIgnored}, false
		}, RestoreIgnored, []string{"begins anew", "taken away without a word", "the first step is 1.", "pass it on", "paid for again"}},
		{"checkpoints numbered by saves hide a trainer that begins anew, and its steps show it", func(r *Run) {
			r.Lives = []Life{life(1, 0, 0, 90, steady), life(2, 12, 0, 60, steady)}
			r.Lives[1].Resumed, r.Lives[1].From = true, 1
			r.Taken = []Taken{{Life: r.Lives[0], At: at(9)}}
			r.History.Commits = []Commit{commit(1, 0, 4), commit(1, 1, 8)}
			r.History.Noticed, r.Complete, r.Reached = nil, false, Passing2
		}, RestoreIgnored, []string{"written at step 49 or later, but the trainer's first step is 1."}},
		{"and one that goes on is not suspected", func(r *Run) {
			r.Lives = []Life{life(1, 0, 0, 90, steady), life(2, 12, 75, 90, steady), life(3, 16, 75, 90, steady)}
			for i := range r.Lives[1:] {
				r.Lives[i+1].Resumed, r.Lives[i+1].From = true, 1
			}
			r.Taken = []Taken{{Life: r.Lives[0], Notice: true, At: at(7)}, {Life: r.Lives[1], At: at(14)}}
			r.History.Commits = []Commit{commit(1, 0, 4), commit(1, 1, 8)}
			r.History.Noticed[0].Seen = at(7.2)
		}, Resumes, []string{"15 steps were done again, with the same losses"}},
		{"the same code at the same step is a crash", func(r *Run) {
			r.Lives, r.Taken, r.Complete = []Life{life(1, 0, 0, 29, steady), life(2, 4, 20, 29, steady)}, nil, false
			r.History.Exits = []Exit{{events.JobExited{Epoch: 1, Code: 7, LastStep: 29}, at(3)}}
			r.History.Ended = &events.JobEnded{Outcome: events.Failed, ExitCode: 7}
			r.Lines = []string{"ValueError: bad sample"}
		}, Crashes, []string{"It crashes at the same step every time.", "it began at the beginning, and ended with exit code 7; the last step it told was 29", "it was started again from its checkpoint of step 20, and ended with exit code 7; the last step it told was 29"}},
		{"a crash before the first step of a resumed run is its own checkpoint's", func(r *Run) {
			r.Lives, r.Complete = []Life{life(1, 0, 0, 30, steady), life(2, 4, 25, 25, nil), life(3, 6, 25, 25, nil)}, false
			r.History.Exits = []Exit{{events.JobExited{Epoch: 2, Code: 1}, at(5)}}
			r.History.Ended = &events.JobEnded{Outcome: events.Failed, ExitCode: 1}
		}, Crashes, []string{"cannot be started from its own checkpoint", "its checkpoint of step 25 was restored"}},
		{"a crash before any step has not started", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.History.Commits = []Life{life(1, 0, 0, 0, nil)}, nil, false, nil
			r.History.Exits = []Exit{{events.JobExited{Epoch: 1, Code: 127, Reason: "setup exited with code 127"}, at(1)}}
			r.History.Ended = &events.JobEnded{Outcome: events.Failed, ExitCode: 127}
		}, NotStarted, []string{"ends with exit code 127 before its first step", "setup exited with code 127."}},
		{"a job that is closed by its notice ends on it", func(r *Run) {
			r.Lives, r.Taken, r.Complete = r.Lives[:1], r.Taken[:1], false
			r.History.Ended = &events.JobEnded{Outcome: events.Succeeded}
		}, EndsOnNotice, []string{"exit code 0 when it gets notice", "such as 143"}},
		{"a job that did all its work in its notice is done", func(r *Run) {
			r.Lives, r.Taken, r.Complete = r.Lives[:1], r.Taken[:1], false
			r.Spec.Policy.Work.Steps = 30
			r.History.Ended = &events.JobEnded{Outcome: events.Succeeded}
		}, TooShort, []string{"done before it could be taken away twice", "more steps"}},
		{"the system's finding of a stall", func(r *Run) {
			r.History.Paused, r.Complete = &events.JobPaused{Reason: events.PauseStalled, Detail: "no step for 10 s"}, false
		}, Stalls, []string{"no step for 10 s.", "progress_timeout"}},
		{"a trainer that is silent at the end of the time stalls", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.Reached = r.Lives[:1], nil, false, Passing
			r.Ended, r.Limit = at(60), time.Minute
		}, Stalls, []string{"no step since step 30 for 57 s; it told one every 100 ms before"}},
		{"the machine's own fault leaves the question open", func(r *Run) {
			r.History.Paused, r.Complete = &events.JobPaused{Reason: events.PauseHostFault, Detail: "the disk is full", Remedy: "make room"}, false
		}, StoppedByFault, []string{"the disk is full.", "make room, then rehearse again"}},
		{"a move that finds nothing to restore", func(r *Run) {
			r.Lives[2].Resumed, r.Lives[2].From = false, 0
			r.History.Rejected = []events.JobCheckpointRejected{{Checkpoint: events.Checkpoint{Step: 40}, Path: "model", Detail: "too short"}}
		}, NothingToResume, []string{"the checkpoint of step 40 could not be restored: model: too short."}},
		{"no checkpoint in time says where was looked", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.Reached, r.History.Commits = []Life{life(1, 0, 0, 100, steady)}, nil, false, Starting, nil
			r.Look = Look{Dir: "checkpoints", Trainer: at(0), Elsewhere: []string{"output/checkpoint-40"}}
		}, NoCheckpoint, []string{"It has written no checkpoint in 11 s.", "checkpoints in the job's own: it is empty. What looks like one lies elsewhere, in the job's own directory: output/checkpoint-40.", "policy.checkpoint.dir, here output"}},
		{"a checkpoint that is never whole says why", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.Reached, r.History.Commits = []Life{life(1, 0, 0, 100, steady)}, nil, false, Starting, nil
			r.Look = Look{Dir: "checkpoints", Trainer: at(0), Framework: "hf", Names: []string{"checkpoint-40"}, Candidates: []string{`"checkpoint-40": "trainer_state.json" is not there yet`}}
		}, NoCheckpoint, []string{`"checkpoint-40": "trainer_state.json" is not there yet.`, "marker: DONE"}},
		{"a directory of something else is told from an empty one", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.Reached, r.History.Commits = []Life{life(1, 0, 0, 100, steady)}, nil, false, Starting, nil
			r.Look = Look{Dir: "checkpoints", Trainer: at(0), Names: []string{"weights.bin"}, More: 2}
		}, NoCheckpoint, []string{"it has weights.bin and 2 more, none of which is taken for a checkpoint"}},
		{"a setup that takes all of the time is slow", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.Reached, r.History.Commits, r.Look.Trainer = []Life{life(1, 0, 0, 0, nil)}, nil, false, Starting, nil, time.Time{}
		}, TooSlow, []string{"its setup and inputs are not done after 11 s", "--for 15m0s"}},
		{"a checkpoint too late for two moves is slow", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.Reached = r.Lives[:2], r.Taken[:1], false, Passing2
			r.Limit, r.Ended = 10*time.Second, at(8)
		}, TooSlow, []string{"too slow to be rehearsed in 10 s", "what was left to see: training past its checkpoint again", "taken away with a notice of 30 s at step 25", "--for 1m0s"}},
		{"a machine that was taken and not replaced in time does not stall", func(r *Run) {
			r.Lives, r.Complete, r.Reached = r.Lives[:2], false, Sudden
			r.Ended, r.Limit = at(60), time.Minute
		}, TooSlow, []string{"what was left to see: taken away without a word"}},
		{"a machine that never came is the market's doing", func(r *Run) {
			r.Lives, r.Taken, r.Complete, r.Reached, r.History, r.Look = nil, nil, false, Starting, History{Waiting: "nothing fits"}, Look{}
		}, TooSlow, []string{"it has no machine: nothing fits."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := good()
			tc.with(&r)
			v := Judge(r)
			if v.Kind != tc.kind {
				t.Fatalf("%s: %s", v.Kind, v.told())
			}
			for _, want := range tc.says {
				if !strings.Contains(v.told(), want) {
					t.Errorf("does not say %q:\n%s", want, v.told())
				}
			}
			if v.Kind == Resumes {
				return
			}
			if v.Title == "" || len(v.Saw) == 0 || len(v.Change) == 0 || v.Matters == "" && !v.Open() {
				t.Errorf("something is missing: %+v", v)
			}
			for _, line := range append(append([]string{v.Title}, v.Saw...), v.Change...) {
				if line == "" || !strings.HasSuffix(line, ".") || strings.Contains(line, "%!") {
					t.Errorf("no sentence: %q", line)
				}
			}
		})
	}
}

func TestALossWithoutALastDigitIsNoFault(t *testing.T) {
	t.Parallel()
	r := good()
	r.Tolerance = 0
	if v := Judge(r); v.Kind != Resumes {
		t.Errorf("exactly the same is %s with a tolerance of 0", v.Kind)
	}
	r.Lives[2] = life(3, 8, 40, 56, func(s int64) float64 { return steady(s) * (1 + 1e-12) })
	if v := Judge(r); v.Kind != LossesDiffer {
		t.Errorf("1e-12 off is %s with a tolerance of 0", v.Kind)
	}
}
