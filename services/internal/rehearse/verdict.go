package rehearse

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Kind is what a rehearsal found.
type Kind string

// The kinds. The first is the only good one; the last three leave the question open.
const (
	Resumes         Kind = "resumes"
	RestoreIgnored  Kind = "restore-ignored"   // its step numbers begin anew
	LossesDiffer    Kind = "losses-differ"     // it goes on, but not as the run before
	Crashes         Kind = "crashes"           // the same exit code twice without a checkpoint between
	NoCheckpoint    Kind = "no-checkpoint"     // none was complete in time
	DeafToNotice    Kind = "deaf-to-notice"    // it has a signal for notices and does not save on it
	EndsOnNotice    Kind = "ends-on-notice"    // it ends with code 0 when told to save
	Stalls          Kind = "stalls"            // it makes no more steps
	NotStarted      Kind = "not-started"       // it ended, or was held up, before its first step
	StoppedByFault  Kind = "stopped-by-fault"  // the machine's fault, such as a full disk
	TooSlow         Kind = "too-slow"          // not enough happened in time
	TooShort        Kind = "too-short"         // the job was done before it could be taken away
	NothingToResume Kind = "nothing-to-resume" // a move found no checkpoint that could be restored
)

// Verdict says what was found, in words for the user of the script.
type Verdict struct {
	Kind    Kind     `json:"kind"`
	Title   string   `json:"title"`
	Saw     []string `json:"saw"`
	Matters string   `json:"matters,omitempty"`
	Change  []string `json:"change"`          // what to do about it
	Lines   []string `json:"lines,omitempty"` // the script's last words, attacker text
	Remarks []string `json:"remarks"`         // what there is to say besides
}

// Open says whether the question is still open: nothing is known to be wrong.
func (v Verdict) Open() bool {
	return v.Kind == TooSlow || v.Kind == TooShort || v.Kind == StoppedByFault
}

// Run is all that a rehearsal saw.
type Run struct {
	Name      string
	Spec      events.JobSpec // as rehearsed
	Began     time.Time
	Ended     time.Time
	Limit     time.Duration
	Notice    time.Duration
	Tolerance float64
	History   History
	Lives     []Life
	Taken     []Taken
	Reached   Stage // how far it had come
	Complete  bool  // all of it was seen
	Look      Look  // at the checkpoint directory, as it was last
	Lines     []string
	PeakBytes int64
}

// Judge says what a run shows. Of several faults the gravest is told.
func Judge(r Run) Verdict {
	j := judge{Run: r, moves: Resumptions(r)}
	for _, find := range []func() (Verdict, bool){
		j.ignored, j.beginsAnew, j.stalledBySystem, j.endsOnNotice, j.crashed, j.paused, j.differs, j.anew, j.deaf, j.tooShort, j.unfinished,
	} {
		if v, found := find(); found {
			return j.complete(v)
		}
	}
	return j.complete(j.resumes())
}

type judge struct {
	Run
	moves []Resumption
}

// complete adds what is said beside any verdict.
func (j judge) complete(v Verdict) Verdict {
	if v.Saw == nil {
		v.Saw = []string{}
	}
	if v.Change == nil {
		v.Change = []string{}
	}
	v.Remarks = j.remarks(v.Kind)
	return v
}

func (j judge) framework() string {
	if f := j.Spec.Policy.Checkpoint.Framework; f != "" {
		return f
	}
	return j.Look.Framework
}

// newest is the life that was there last.
func (j judge) newest() Life { return newest(Seen{Lives: j.Lives}) }

// compared counts the moves whose losses were compared, and those of a cause that happened.
func (j judge) moved(c Cause) (Resumption, bool) {
	for _, m := range j.moves {
		if m.Cause == c {
			return m, true
		}
	}
	return Resumption{}, false
}

func (j judge) ignored() (Verdict, bool) {
	t := j.History.Troubled
	if t == nil || t.Kind != events.TroubleRestoreIgnored {
		return Verdict{}, false
	}
	return j.forgotten(t.Detail, t.Remedy), true
}

func (j judge) forgotten(detail, remedy string) Verdict {
	return Verdict{
		Kind: RestoreIgnored, Title: "It begins anew after a move: the checkpoint is ignored.",
		Saw:     []string{j.course(), detail + "."},
		Matters: "every machine that is taken away would throw away all work since the start, and all of it would be paid for again.",
		Change:  []string{remedy},
	}
}

func (j judge) stalledBySystem() (Verdict, bool) {
	p := j.History.Paused
	if p == nil || p.Reason != events.PauseStalled {
		return Verdict{}, false
	}
	return j.stalled(p.Detail), true
}

func (j judge) stalled(detail string) Verdict {
	return Verdict{
		Kind: Stalls, Title: "It stalls: it lives, and makes no more steps.", Saw: []string{detail + "."}, Lines: j.Lines,
		Matters: "a machine that waits costs as much as one that trains.",
		Change: []string{
			"see its last lines and find what it waits for: a peer, a lock, a download, a data loader.",
			"if it is only slow there, raise policy.progress_timeout and give --for more time.",
		},
	}
}

// endsOnNotice: exit code 0 means that all work is done.
func (j judge) endsOnNotice() (Verdict, bool) {
	e := j.History.Ended
	if e == nil || e.Outcome != events.Succeeded || len(j.Taken) == 0 {
		return Verdict{}, false
	}
	last := j.Taken[len(j.Taken)-1]
	all := j.Spec.Policy.Work.Steps
	if !last.Notice || last.Life.Lease != j.newest().Lease || all > 0 && j.newest().Last() >= all {
		return Verdict{}, false
	}
	return Verdict{
		Kind: EndsOnNotice, Title: "It ends with exit code 0 when it gets notice, as if all work were done.",
		Saw:     []string{fmt.Sprintf("its machine got a notice of %s at step %d, and it ended with exit code 0 after step %d.", span(j.Notice), last.Life.Last(), j.newest().Last())},
		Matters: "exit code 0 says that the job is finished: it would be closed with its work undone.",
		Change: []string{
			"end with another code when it stops because it was told to, such as 143, or save and train on: the machine is taken only when the next one is there.",
			"exit with 0 only after the last step.",
		},
	}, true
}

func (j judge) crashed() (Verdict, bool) {
	e := j.History.Ended
	again := crashedAgain(Seen{History: j.History, Listed: j.Spec.Policy.RestartOnExit})
	if (e == nil || e.Outcome != events.Failed) && !again {
		return Verdict{}, false
	}
	code := 0
	if n := len(j.History.Exits); n > 0 {
		code = j.History.Exits[n-1].Code
	}
	if e != nil {
		code = e.ExitCode
	}
	return j.crash(code), true
}

func (j judge) paused() (Verdict, bool) {
	p := j.History.Paused
	if p == nil {
		return Verdict{}, false
	}
	return Verdict{
		Kind: StoppedByFault, Title: "The rehearsal was stopped by this machine: " + string(p.Reason) + ".", Saw: []string{p.Detail + "."}, Lines: j.Lines,
		Matters: "nothing is known of the script by that.", Change: []string{p.Remedy + ", then rehearse again."},
	}, true
}

// anew is a move after which nothing was there to go on from.
func (j judge) anew() (Verdict, bool) {
	for _, m := range j.moves {
		if m.Anew && m.Cause != ByItself {
			return Verdict{
				Kind: NothingToResume, Title: "After a move there was no good checkpoint to go on from.", Saw: append([]string{j.course()}, j.rejections()...),
				Matters: "the job would begin anew.", Change: []string{"see that a checkpoint is not written to any more once it is complete."},
			}, true
		}
	}
	return Verdict{}, false
}

func (j judge) tooShort() (Verdict, bool) {
	e := j.History.Ended
	if e == nil || e.Outcome != events.Succeeded || j.Complete {
		return Verdict{}, false
	}
	v := Verdict{
		Kind: TooShort, Title: "The job was done before it could be taken away twice.",
		Saw:    []string{fmt.Sprintf("it ended well after step %d, %s after its start.", j.newest().Last(), span(e2e(j.Run)))},
		Change: []string{"rehearse it with more steps: set them by an environment variable, and give --env."},
	}
	if _, saved := j.firstCommit(); !saved {
		v.Saw = append(v.Saw, "no checkpoint was complete before its end. "+j.Look.words())
	}
	v.Saw = append(v.Saw, j.sights()...)
	return v, true
}

func e2e(r Run) time.Duration {
	if len(r.Lives) == 0 {
		return 0
	}
	return r.Ended.Sub(r.Lives[0].Placed)
}

func (j judge) firstCommit() (Commit, bool) {
	if len(j.History.Commits) == 0 {
		return Commit{}, false
	}
	return j.History.Commits[0], true
}

func (j judge) resumes() Verdict {
	return Verdict{Kind: Resumes, Title: "It resumes rightly, with a notice and without one.", Saw: j.sights()}
}
