package failover

import (
	"fmt"

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
		if j.Over() || !j.inUse(l) {
			out = append(out, events.Command{
				ID: "release-" + string(l), Kind: events.Release, Lease: l, Reason: j.releaseReason(),
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
	c.NotTill = j.Wait.RetryAt
	if j.Move != nil {
		c.Avoid = []events.Pool{j.Move.From.Pool}
		if to := j.Move.To; to.Lease != "" && to.Pool != j.Move.From.Pool {
			c.Avoid = append(c.Avoid, to.Pool) // it went before its first step
		}
	}
	return c
}

func (j Job) inUse(l events.LeaseID) bool {
	return (j.Current != nil && j.Current.Lease == l) || (j.Next != nil && j.Next.Lease == l)
}

func (j Job) releaseReason() string {
	if j.Over() {
		return string(j.Outcome)
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
