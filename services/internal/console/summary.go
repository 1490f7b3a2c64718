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
	for _, words := range []string{handsSummary(f), retainSummary(f), opsSummary(f)} {
		if words != "" {
			return words
		}
	}
	return leaseSummary(f)
}

// handsSummary is about what people did to a job, and what made it hold still.
func handsSummary(f events.Fact) string {
	switch f := f.(type) {
	case events.JobTroubled:
		return fmt.Sprintf("%s at step %d: %s", f.Kind, f.Step, f.Detail)
	case events.JobPausing:
		return said(fmt.Sprintf("save and pause (%s)", f.Reason), f.By, f.Detail)
	case events.JobPaused:
		return said(fmt.Sprintf("paused (%s)", f.Reason), f.By, f.Detail)
	case events.JobResumed:
		return said("taken up again", f.By, f.Reason)
	case events.JobDrilled:
		if f.NoNotice {
			return said("drill: "+string(f.Lease)+" is taken without notice", f.By, f.Reason)
		}
		return said(fmt.Sprintf("drill: %s is taken at %s at the latest", f.Lease, f.Deadline.UTC().Format("15:04:05")), f.By, f.Reason)
	case events.JobLastWords:
		return fmt.Sprintf("%d lines of %s are kept", len(f.Lines), f.Lease)
	case events.JobFailoverRefined:
		return fmt.Sprintf("#%d was %s: %s", f.N, f.Cause, f.Detail)
	}
	return ""
}

// retainSummary is about which checkpoints are kept.
func retainSummary(f events.Fact) string {
	switch f := f.(type) {
	case events.JobCheckpointPinned:
		what := map[bool]string{true: "is pinned", false: "is not pinned any more"}[f.Pinned]
		if f.Holder != "" {
			what = map[bool]string{true: "is being restored", false: "is not being restored any more"}[f.Pinned]
		}
		return said(f.Name+" "+what, f.By, f.Reason)
	case events.JobCheckpointsDropped:
		if len(f.Names) == 1 {
			return said(f.Names[0]+" is dropped", f.By, f.Reason)
		}
		return said(fmt.Sprintf("%d checkpoints are dropped", len(f.Names)), f.By, f.Reason)
	}
	return ""
}

// said adds who did it and why, as far as somebody did.
func said(what, by, why string) string {
	if by != "" {
		what += ", by " + by
	}
	if why != "" {
		what += ": " + why
	}
	return what
}

func opsSummary(f events.Fact) string {
	switch f := f.(type) {
	case events.OpsHeld:
		return fmt.Sprintf("%s is held by %s: %s", named(f), f.By, f.Reason)
	case events.OpsReleased:
		return fmt.Sprintf("%s is released by %s: %s", named(events.OpsHeld(f)), f.By, f.Reason)
	case events.OpsFrozen:
		return fmt.Sprintf("nothing is bought any more, by %s: %s", f.By, f.Reason)
	case events.OpsUnfrozen:
		return fmt.Sprintf("buying goes on, by %s: %s", f.By, f.Reason)
	case events.OpsReapRequested:
		return fmt.Sprintf("%d machines are to be ended, by %s: %s", len(f.Instances), f.By, f.Reason)
	}
	return ""
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
