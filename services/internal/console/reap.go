package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/bidder/ops"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Reapable is a machine that carries our mark and that no lease wants.
type Reapable struct {
	Instance events.InstanceID      `json:"instance"`
	Pool     events.Pool            `json:"pool"`
	Token    string                 `json:"token"`
	State    string                 `json:"state"` // the seller's word
	Price    events.PerInstanceHour `json:"price"`
	Since    time.Time              `json:"market_start,omitzero"`
	Why      string                 `json:"why"`
}

// reapable asks every seller for its machines. Those without our mark are never
// looked at, nor are those whose purchase is not decided yet.
func (s *Server) reapable(ctx context.Context) ([]Reapable, error) {
	out := []Reapable{}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Sellers)) {
		list, err := s.cfg.Sellers[name].List(ctx)
		if err != nil {
			return nil, &Problem{Code: "unavailable", Message: fmt.Sprintf("seller %s cannot be asked for its machines: %v", name, err), Remedy: "try again"}
		}
		s.model.mu.Lock()
		for _, i := range list.Instances {
			if why := s.unwanted(i); why != "" {
				out = append(out, Reapable{i.ID, i.Pool, i.Token, string(i.State), i.Price(), i.Started, why})
			}
		}
		s.model.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Reapable) int {
		return cmp.Or(cmp.Compare(a.Pool.Seller, b.Pool.Seller), cmp.Compare(a.Instance, b.Instance))
	})
	return slices.CompactFunc(out, func(a, b Reapable) bool { return a.Pool.Seller == b.Pool.Seller && a.Instance == b.Instance }), nil
}

// unwanted says why no lease wants a machine, or "" if one does or may, or if it
// is none of ours. The caller has the model's lock.
func (s *Server) unwanted(i provider.Instance) string {
	if s.cfg.Mark == "" || i.Labels[bidder.MarkLabel] != s.cfg.Mark || i.State == provider.Gone {
		return ""
	}
	for _, l := range s.model.leases {
		if l.inst != i.ID {
			continue
		}
		if l.state == "ended" {
			return fmt.Sprintf("lease %s has ended, the machine has not", l.id)
		}
		return ""
	}
	l, known := s.model.leases[events.LeaseID(i.Token)]
	switch {
	case !known:
		return fmt.Sprintf("its token %.80q names no lease of ours", i.Token)
	case l.state == "intended" || l.state == "unknown":
		return ""
	case l.state == "refused" || l.state == "declined":
		return fmt.Sprintf("lease %s came to nothing (%s), then the machine turned up", l.id, l.state)
	}
	return fmt.Sprintf("a second machine for lease %s, which has %s", l.id, l.inst)
}

// reap asks the bidder to end machines. It looks again itself before it does, and
// gives back none that a lease has come to want meanwhile.
func (s *Server) reap(ctx context.Context, who asker, r ReapRequest) ([]Reapable, error) {
	reason, err := because(DoReap, r.Reason)
	if err != nil {
		return nil, err
	}
	all, err := s.reapable(ctx)
	if err != nil {
		return nil, err
	}
	out := []Reapable{}
	for _, id := range r.Instances {
		i := slices.IndexFunc(all, func(m Reapable) bool { return m.Instance == id })
		if i < 0 {
			return nil, &Problem{Code: "conflict", Message: fmt.Sprintf("machine %.80q is not one that can be reaped: it is gone, wanted, or not ours", id), Remedy: "'spotferry instance reap --dry-run' lists those that can"}
		}
		out = append(out, all[i])
	}
	if len(out) == 0 {
		return nil, &Problem{Code: "invalid", Message: "no machine is named", Remedy: "'spotferry instance reap --dry-run' lists those that can be reaped"}
	}
	asked := events.OpsReapRequested{Instances: r.Instances, Reason: reason, By: who.name}
	if _, err := s.ops.Append(ctx, s.cfg.Org, func(ops.State) (events.Fact, error) { return asked, nil }); err != nil {
		return nil, err
	}
	s.cfg.Logger.Warn("machines are to be reaped", zap.Int("machines", len(out)), zap.String("by", who.name), zap.String("reason", reason))
	return out, nil
}
