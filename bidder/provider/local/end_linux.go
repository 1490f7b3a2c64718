package local

import (
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// finish makes the bill final. A host that cannot leaves it to the seller.
func (h *host) finish(e ending) error {
	m, err := h.open()
	if err != nil {
		return err
	}
	return finish(h.place, h.record, m, e)
}

// clear kills what is left of the machine and writes down its end. It does not
// return while a process lives: a machine that is not gone is not free.
func (h *host) clear(v verdict) (ending, error) {
	look := func() ([]process, error) { return below(os.Getpid()) }
	if v.by == endedByFault {
		look = func() ([]process, error) { return leftovers(h.machine()) }
	}
	for {
		left, err := killAll(look, reapAll, h.group, h.now().Add(5*time.Second))
		if left == 0 && err == nil {
			break
		}
		h.log.Error("machine does not die", zap.Int("processes", left), zap.Error(err))
	}
	now := h.now()
	h.group.remove()
	e := ending{Market: v.end, Control: now, By: v.by, Detail: v.detail}
	if e.Market.IsZero() {
		e.Market = h.Clock.Market(now)
	}
	if v.row != nil {
		v.row.EndedBy = v.by
		h.witness(*v.row)
	}
	if err := os.RemoveAll(h.machine()); err != nil {
		h.log.Warn("disk not cleared", zap.Error(err))
	}
	h.log.Info("machine ended", zap.String("by", e.By), zap.String("detail", e.Detail), zap.Time("market_end", e.Market))
	return e, write(h.path(endFile), e) // without it the seller finds a dead host, and calls it a fault
}

func (h *host) witness(row killRow) {
	if h.Evidence == "" {
		return
	}
	if err := appendRows(filepath.Join(h.Evidence, killsEvidence), []any{row}); err != nil {
		h.log.Error("evidence not written", zap.Error(err))
	}
}
