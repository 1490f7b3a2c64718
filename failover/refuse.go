package failover

import (
	"errors"
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Refused says that a person's act makes no sense for a job as it is.
type Refused struct {
	What   string // "job j1 cannot be drilled: it is paused"
	Remedy string
}

// Error implements error.
func (r *Refused) Error() string {
	if r.Remedy == "" {
		return r.What
	}
	return r.What + " (" + r.Remedy + ")"
}

// Refuse returns why a person's act makes no sense for the job as it is: an
// error that is a *Refused, or nil. The repetition of an act that took effect is
// not refused, and inputs that are no person's never are. Book.Apply refuses by it.
func Refuse(j Job, now events.Moment, in Input) error {
	var verb, why, remedy string
	switch in := in.(type) {
	case Pin, Unpin, Drop:
		what, why, remedy := refuseRetain(j, now.Control, in)
		if why == "" {
			return nil
		}
		return &Refused{What: fmt.Sprintf("job %s: %s: %s", j.ID, what, why), Remedy: remedy}
	case Pause:
		verb = "paused"
		why, remedy = refusePause(j, in)
	case Resume:
		verb = "resumed"
		why, remedy = refuseResume(j, in)
	case Migrate:
		verb = "migrated"
		if !j.migrating(in) {
			why, remedy = refuseMove(j)
		}
	case Drill:
		verb = "drilled"
		switch left := in.Deadline.Sub(now.Control); {
		case j.drilling(in):
		case !in.Deadline.IsZero() && (left <= 0 || left > maxDrillNotice):
			why, remedy = fmt.Sprintf("a notice of %s", left.Round(time.Second)), fmt.Sprintf("give more than nothing and at most %s", maxDrillNotice)
		default:
			why, remedy = refuseMove(j)
		}
	}
	if why == "" {
		return nil
	}
	return &Refused{What: fmt.Sprintf("job %s cannot be %s: %s", j.ID, verb, why), Remedy: remedy}
}

// IsRefused says whether err is a *Refused, and returns it.
func IsRefused(err error) (*Refused, bool) { return errors.AsType[*Refused](err) }

func refusePause(j Job, in Pause) (why, remedy string) {
	halted := j.Phase == Paused || j.Phase == Pausing
	switch {
	case j.Over():
		return "it has ended: " + string(j.Outcome), ""
	case j.Phase == Finishing:
		return "it is told to save and stop, and will end " + string(j.Stopping.Outcome), ""
	case halted && j.Pause.By == in.By && j.Pause.Detail == in.Reason:
		return "", "" // the same again
	case j.Phase == Paused:
		return "it is already: " + string(j.Pause.Reason), ""
	case j.Phase == Pausing:
		return "it is told to save and pause: " + string(j.Pause.Reason), ""
	}
	return "", ""
}

func refuseResume(j Job, in Resume) (why, remedy string) {
	switch {
	case j.Over():
		return "it has ended: " + string(j.Outcome), "submit it again"
	case j.Phase == Pausing:
		return "it is still saving", "resume it when it is paused"
	case j.Phase == Paused && in.By == ByBudget && j.Pause.Reason != events.PausedByBudget:
		return "it is paused for another reason: " + string(j.Pause.Reason), ""
	case j.Phase != Paused && j.Resumed != (events.JobResumed{By: in.By, Reason: in.Reason}):
		return "it is not paused, it is " + j.Status(), ""
	}
	return "", ""
}

// refuseMove says why a job cannot be taken off its machine by a person.
func refuseMove(j Job) (why, remedy string) {
	switch {
	case j.Over():
		return "it has ended: " + string(j.Outcome), ""
	case j.Phase == Finishing || j.Phase == Pausing:
		return "it is told to save and stop", ""
	case j.Phase == Paused:
		return "it is paused: " + string(j.Pause.Reason), "resume it first"
	case j.Current == nil:
		return "no machine runs it, it is " + j.Status(), "wait until it runs"
	case j.Move != nil || j.leaving() || j.Next != nil || j.Current.Drill.Event != "":
		return "a move is in progress", "wait until its failover record is written"
	case j.Current.Started.IsZero():
		return "it has made no step on this machine yet", "wait until it runs"
	}
	return "", ""
}

// migrating says whether the very same act is in effect.
func (j Job) migrating(in Migrate) bool {
	return j.asked() && j.Move.By == in.By && j.Move.Why == in.Reason
}

func (j Job) drilling(in Drill) bool {
	c := j.Current
	return c != nil && c.Drill.Event != "" && c.Drill.Taken == in.NoNotice && c.Drill.Why == why("drill", in.By, in.Reason)
}
