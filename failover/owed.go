package failover

import (
	"fmt"
	"slices"

	"github.com/spotferry/spotferry/events"
)

// Owed lists everything that others still have to do for the job, in a fixed
// order. It is a function of the state alone: nothing is remembered, nothing forgotten.
func Owed(j Job) []events.Command {
	var out []events.Command
	if j.wantsMachine() {
		out = append(out, j.acquire())
	}
	for _, l := range j.Open {
		if j.Over() || !j.inUse(l) || j.taken(l) {
			out = append(out, events.Command{
				ID: "release-" + string(l), Kind: events.Release, Lease: l, Reason: j.releaseReason(l),
			})
		}
	}
	if j.Current != nil && j.Epoch > 0 {
		out = append(out, j.order())
	}
	return out
}

func (j Job) acquire() events.Command {
	c := events.Command{
		ID:   fmt.Sprintf("acquire-%s-%d-%d", j.ID, j.NextEpoch, j.NextN),
		Kind: events.Acquire, Epoch: j.NextEpoch, N: j.NextN, Purpose: events.ForStart,
	}
	if j.Epoch > 0 {
		c.Purpose = events.ForReplace
	}
	c.NotTill, c.Avoid = j.Streak.Until, slices.Clone(j.Streak.Pools)
	if m := j.Move; m != nil {
		c.Trace = m.trace()
		if m.After != nil && j.Current != nil && !j.Current.Silent { // which may still make its step: then this is for the next move
			c.Trace = m.After.trace()
		}
		if !m.Kept {
			c.Avoid = withPool(c.Avoid, m.From.Pool)
		}
		if to := m.To; to.Lease != "" && to.Lease != m.From.Lease {
			c.Avoid = withPool(c.Avoid, to.Pool) // it went before its first step
		}
		for _, p := range m.Avoid {
			c.Avoid = withPool(c.Avoid, p)
		}
	}
	return c
}

func (j Job) inUse(l events.LeaseID) bool {
	return (j.Current != nil && j.Current.Lease == l) || (j.Next != nil && j.Next.Lease == l)
}

// taken says whether a drill gives the lease back under its agent.
func (j Job) taken(l events.LeaseID) bool {
	return j.Current != nil && j.Current.Lease == l && j.Current.Drill.Taken
}

func (j Job) releaseReason(l events.LeaseID) string {
	switch {
	case j.Over():
		return string(j.Outcome)
	case j.taken(l):
		return j.Current.Drill.Why
	case j.Phase == Paused:
		return string(j.Pause.Reason)
	}
	return "not needed"
}

// order is what the agent of the current epoch is told.
func (j Job) order() events.Command {
	c := events.Command{Kind: events.Tell, Epoch: j.Epoch, Lease: j.Current.Lease}
	switch {
	case j.Over():
		c.Order, c.Reason = events.OrderEnd, string(j.Outcome)
	case j.Phase == Finishing:
		c.Order, c.Reason = events.OrderStop, j.Stopping.Reason
	case j.Phase == Pausing:
		c.Order, c.Reason = events.OrderStop, string(j.Pause.Reason)
	case j.Current.Faulty != "":
		c.Order, c.Reason = events.OrderStop, string(j.Current.Faulty)
	case j.Notice != nil && j.Notice.Drill && !j.FinalSaved:
		c.Order, c.Reason = events.OrderSave, j.Current.Drill.Why
		c.ID = fmt.Sprintf("save-%s-%d-%s", j.ID, j.Epoch, j.Notice.Event)
		return c
	case j.moving() && !j.FinalSaved:
		c.Order, c.Reason = events.OrderSave, string(j.Move.Cause)
		c.ID = fmt.Sprintf("save-%s-%d-%s", j.ID, j.Epoch, j.Move.Evidence[0])
		return c
	default:
		c.Order = events.OrderStart
	}
	c.ID = fmt.Sprintf("%s-%s-%d", c.Order, j.ID, j.Epoch)
	return c
}
