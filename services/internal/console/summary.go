package console

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Summary is one line about a fact, for a timeline. It holds words from outside
// (agents, sellers, job files) as they came: a terminal must not see it raw.
func Summary(f events.Fact) string {
	switch f := f.(type) {
	case events.JobSubmitted:
		return fmt.Sprintf("%q by %s, budget %s", f.Spec.Name, f.By, f.Spec.Policy.Budget.Dollars())
	case events.JobWaiting:
		return fmt.Sprintf("%s: %s", f.Reason, f.Detail)
	case events.JobLeased:
		if f.Surplus {
			return fmt.Sprintf("%s in %s is not wanted any more and goes back", f.Lease, f.Pool)
		}
		return fmt.Sprintf("%s in %s at $%.4f/h (%s)", f.Lease, f.Pool, perHour(f.Price), f.Purpose)
	case events.JobJoined:
		return fmt.Sprintf("agent of %s is ready, epoch %d", f.Lease, f.Epoch)
	case events.JobPlaced:
		if f.Resume == nil {
			return fmt.Sprintf("epoch %d on %s, from the beginning", f.Epoch, f.Lease)
		}
		return fmt.Sprintf("epoch %d on %s, resumes step %d", f.Epoch, f.Lease, f.Resume.Step)
	case events.JobStarted:
		return fmt.Sprintf("first step of epoch %d: %d", f.Epoch, f.Step)
	case events.JobNoticed:
		return fmt.Sprintf("%s in %s (%s)", f.Action, f.Deadline.Sub(f.Seen).Round(100*time.Millisecond), f.Source)
	case events.JobNoticeWithdrawn:
		return "the seller took its notice back"
	case events.JobCommitted:
		return fmt.Sprintf("step %d, %.1f MB, saved in %d ms, uploaded in %d ms", f.Checkpoint.Step, float64(f.Checkpoint.Bytes)/1e6, f.SaveMS, f.UploadMS)
	case events.JobCheckpointRejected:
		return fmt.Sprintf("step %d: %q is bad: %s", f.Checkpoint.Step, f.Path, f.Detail)
	case events.JobLost:
		return fmt.Sprintf("%s: %s", f.Cause, f.Detail)
	case events.JobHeard:
		return fmt.Sprintf("%s is back", f.Lease)
	case events.JobExited:
		if f.Signal != "" {
			return fmt.Sprintf("trainer killed by %s at step %d", f.Signal, f.LastStep)
		}
		return fmt.Sprintf("trainer exited with code %d at step %d", f.Code, f.LastStep)
	case events.JobMoveRequested:
		return fmt.Sprintf("%s: %s", f.Cause, f.Reason)
	case events.JobStopping:
		return fmt.Sprintf("save and stop (%s): %s", f.Outcome, f.Reason)
	case events.JobEnded:
		return fmt.Sprintf("%s: %s", f.Outcome, f.Reason)
	case events.JobReleased:
		return fmt.Sprintf("%s is gone", f.Lease)
	case events.JobClosed:
		return fmt.Sprintf("nothing left; %d failovers", f.Failovers)
	case events.JobFailedOver:
		r := f.Record
		return fmt.Sprintf("#%d %s: %s to %s, %d steps lost (%s)", r.N, r.Cause, r.From.Pool.Zone, r.To.Pool.Zone, r.LostSteps, r.LostCost.Dollars())
	}
	return leaseSummary(f)
}

func leaseSummary(f events.Fact) string {
	switch f := f.(type) {
	case events.LeaseIntended:
		return fmt.Sprintf("about to buy %s at $%.4f/h, %s reserved, by %s", f.Offer.Pool, perHour(f.Offer.Price), f.Reserved.Dollars(), f.Decision.Rule)
	case events.LeaseDeclined:
		return fmt.Sprintf("bought nothing: %s: %s", f.Reason, f.Detail)
	case events.LeaseRefused:
		return fmt.Sprintf("refused: %s %s %s", f.Kind, f.Code, f.Detail)
	case events.LeaseUnknown:
		return "outcome unknown: " + f.Detail
	case events.LeaseLaunched:
		return fmt.Sprintf("%s is ours at $%.4f/h", f.Instance, perHour(f.Price))
	case events.LeaseTerminating:
		return "going back: " + f.Reason
	case events.LeaseEnded:
		return fmt.Sprintf("gone, by %s, after %s of market time", f.EndedBy, f.Ended.Sub(f.Started).Round(time.Second))
	}
	return ""
}

func perHour(p events.PerInstanceHour) float64 { return float64(p) / 1e9 }
