package local

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

// The variables by which the agent knows how it is told that its machine will be
// taken, and how many seconds before. They are not set where the offer does not say.
const (
	NoticeKindVariable    = "SPOTFERRY_NOTICE_KIND"
	NoticeSecondsVariable = "SPOTFERRY_NOTICE_SECONDS"
)

func (h *host) agentEnv() []string {
	env := append([]string(nil), h.Env...)
	if h.Evidence != "" {
		env = append(env, "SPOTFERRY_EVIDENCE_DIR="+h.Evidence)
	}
	if h.Offer.NoticeKind != "" {
		env = append(env, NoticeKindVariable+"="+string(h.Offer.NoticeKind))
	}
	if h.Offer.NoticeKind != "" && h.Offer.NoticeS > 0 {
		env = append(env, fmt.Sprintf("%s=%d", NoticeSecondsVariable, h.Offer.NoticeS))
	}
	if h.Offer.NoticeKind == events.NoticeGCP {
		env = append(env, fmt.Sprintf("GCE_METADATA_HOST=127.0.0.1:%d", h.state.Port)) // by which Google's software finds it
	}
	return append(env,
		fmt.Sprintf("%s=http://127.0.0.1:%d/", MetadataEndpoint, h.state.Port),
		"SPOTFERRY_MACHINE_DIR="+h.machine(),
		"SPOTFERRY_INSTANCE="+string(h.ID),
	)
}

// warn says by the seller's channel that the machine will be taken.
func (h *host) warn(deadline time.Time) {
	h.meta.Warn(deadline)
	if h.Offer.NoticeKind == events.NoticeSignal && h.state.Agent.PID > 0 {
		if err := signalTo(h.state.Agent, syscall.SIGTERM); err != nil {
			h.log.Warn("agent not signalled", zap.Error(err))
		}
	}
}

// hasten takes the machine now, since it said that it may go.
func (h *host) hasten(now time.Time) {
	for i, a := range h.plan {
		if a.do == kill && a.reclaim.Kind == trace.Noticed {
			h.log.Info("taken before its time: the machine agreed")
			a.at, a.end = now, h.Clock.Market(now)
			h.plan = slices.Delete(h.plan, i, i+1)
			h.insert(a)
			return
		}
	}
}

// agree has the machine taken early; twice is as good as once.
func (h *host) agree() {
	select {
	case h.agreed <- struct{}{}:
	default:
	}
}
