package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// listThem is where a person finds the names that can be given.
const listThem = "'spotferry checkpoint ls' lists them"

// refuseRetain says why a checkpoint cannot be pinned, unpinned or dropped; "" if it can.
func refuseRetain(j Job, now time.Time, in Input) (what, why, remedy string) {
	switch in := in.(type) {
	case Pin:
		why, remedy = refusePin(j, now, in)
		return name(in.Name) + " cannot be pinned", why, remedy
	case Unpin:
		why, remedy = refuseUnpin(j, now, in)
		return name(in.Name) + " cannot be unpinned", why, remedy
	case Drop:
		if len(in.Names) > mostDropped {
			return fmt.Sprintf("%d checkpoints cannot be dropped", len(in.Names)), fmt.Sprintf("at most %d are at once", mostDropped), "name fewer"
		}
		for i, n := range in.Names {
			if why, remedy = refuseDrop(j, now, in, i); why != "" {
				return name(n) + " cannot be dropped", why, remedy
			}
		}
	}
	return "", "", ""
}

func name(s string) string { return fmt.Sprintf("checkpoint %.100q", s) }

func refusePin(j Job, now time.Time, in Pin) (why, remedy string) {
	d := j.dropped(in.Name)
	switch {
	case j.committed(in.Name) == nil:
		return "no such checkpoint was committed", listThem
	case d != nil:
		return "it was dropped at " + d.At.UTC().Format(time.RFC3339) + ": " + d.Reason, "pin one that is kept; " + listThem
	case !in.Until.IsZero() && !now.Before(in.Until):
		return "the pin would end before it begins", "give a time that is still to come"
	}
	return "", ""
}

func refuseUnpin(j Job, now time.Time, in Unpin) (why, remedy string) {
	pin := j.Pinned(in.Name, now)
	switch {
	case j.committed(in.Name) == nil:
		return "no such checkpoint was committed", listThem
	case in.Holder != "": // its end may come twice, or after the pin has ended by itself
	case pin != nil && pin.Holder == "":
	case j.Unpinned == (events.JobCheckpointPinned{Name: in.Name, By: in.By, Reason: in.Reason}): // the same again
	case pin != nil:
		return fmt.Sprintf("it is being restored by %s (%s)", pin.By, pin.Reason), "the pin ends with the restore, at " + pin.Until.UTC().Format(time.RFC3339) + " at the latest"
	default:
		return "it is not pinned", listThem
	}
	return "", ""
}

func refuseDrop(j Job, now time.Time, in Drop, i int) (why, remedy string) {
	n := in.Names[i]
	d, pin := j.dropped(n), j.Pinned(n, now)
	good := j.Resume()
	at := slices.IndexFunc(good, func(c events.Checkpoint) bool { return c.Name == n })
	switch {
	case j.committed(n) == nil:
		return "no such checkpoint was committed", listThem
	case d != nil && d.By == in.By && d.Reason == in.Reason: // the same again
	case d != nil:
		return "it was dropped already: " + d.Reason, ""
	case pin != nil && pin.Holder != "":
		return fmt.Sprintf("it is being restored by %s (%s)", pin.By, pin.Reason), "wait until that is done, " + pin.Until.UTC().Format(time.RFC3339) + " at the latest"
	case pin != nil:
		return fmt.Sprintf("it is pinned by %s: %s", pin.By, pin.Reason), fmt.Sprintf("'spotferry checkpoint unpin %s %s' takes the pin off", j.ID, n)
	case j.Over():
	case at == 0:
		return "it is the newest: all work since would be lost with the machine", "wait for the next one, or cancel the job first"
	case at > 0 && at < keepLeast:
		return "it is one of the newest two, which a running job needs", "wait for the next one, or cancel the job first"
	case j.restoring():
		return "a machine may be restoring it", "wait until the job has committed in its present epoch"
	}
	return "", ""
}
