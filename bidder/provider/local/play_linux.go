package local

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/trace"
)

// due does what the plan has for now. It returns the machine's end if that is it.
func (h *host) due(now time.Time) *verdict {
	for len(h.plan) > 0 && !h.plan[0].at.After(now) {
		a := h.plan[0]
		h.plan = h.plan[1:]
		if v := h.carryOut(a, now); v != nil {
			return v
		}
	}
	return nil
}

// insert adds to the plan.
func (h *host) insert(more ...action) {
	h.plan = append(more, h.plan...)
	slices.SortStableFunc(h.plan, func(a, b action) int { return a.at.Compare(b.at) })
}

func (h *host) carryOut(a action, now time.Time) *verdict {
	switch a.do {
	case boot:
		if err := h.boot(); err != nil {
			h.log.Error("agent not started", zap.Error(err))
			return &verdict{by: endedByFault, detail: "the agent was not started: " + err.Error()}
		}
	case warn:
		h.log.Info("warned", zap.Time("deadline", a.end), zap.String("drawn", a.reclaim.Drawn))
		h.warned = &a.reclaim
		h.warn(a.end)
	case withdraw:
		h.log.Info("warning withdrawn")
		h.warned = nil
		h.meta.Warn(time.Time{})
		row := h.row(a.reclaim, now)
		row.PID = 0
		h.witness(row)
	case aim:
		h.aim(a.reclaim, now)
	case kill:
		row := h.row(a.reclaim, now)
		return &verdict{by: endedBySeller, detail: "reclaimed, " + string(a.reclaim.Kind), end: a.end, row: &row}
	case lapse:
		row := h.row(trace.Reclaim{Kind: a.reclaim.Kind, Drawn: trace.ByAge}, now)
		return &verdict{by: endedBySeller, detail: "reclaimed, no save came", end: h.Clock.Market(a.at), row: &row}
	}
	return nil
}

func (h *host) row(r trace.Reclaim, now time.Time) killRow {
	return killRow{
		Target: "machine", PID: h.state.Agent.PID, Time: now.UTC(), Kind: r.Kind, DrawnAt: drawnAt(r, now.Sub(h.Launched)),
		Instance: h.ID, Token: h.Token, Pool: h.Spec.Pool.String(),
	}
}

// boot starts the agent: in a control group if we may, and to die with us.
func (h *host) boot() error {
	if err := os.MkdirAll(h.machine(), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(h.path(agentLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	h.group = newCgroup(fmt.Sprintf("%d-%s", os.Getpid(), h.Token))
	pid, err := h.startAgent(out)
	if err != nil && h.group != "" {
		h.group.remove()
		h.group = "" // not every kernel lets a process be born into a group
		pid, err = h.startAgent(out)
	}
	if err != nil {
		return err
	}
	if h.state.Agent, err = identify(pid); err != nil {
		return err
	}
	h.state.Cgroup = string(h.group)
	h.log.Info("booted", zap.Int("agent", pid), zap.Int("port", h.state.Port), zap.Bool("cgroup", h.group != ""))
	return write(h.path(hostFile), h.state)
}

func (h *host) startAgent(out *os.File) (int, error) {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if h.group != "" {
		dir, err := os.Open(string(h.group))
		if err != nil {
			return 0, err
		}
		defer dir.Close()
		attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	}
	return start(h.Agent, h.agentEnv(), h.machine(), out, attr)
}
