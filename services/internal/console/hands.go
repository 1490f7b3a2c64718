package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/ops"
	"github.com/spotferry/spotferry/events"
)

// Ops is what operations decided, as far as it is in force.
type Ops struct {
	Freeze *Freeze `json:"freeze,omitempty"`
	Holds  []Hold  `json:"holds"`
	// UnderWay, in the answer to a freeze or a hold, are the purchases whose intent
	// stood before it and whose outcome is not known yet: what may still turn up.
	UnderWay []events.LeaseID `json:"under_way,omitempty"`
}

// Freeze says that nothing is bought anywhere.
type Freeze struct {
	By     string         `json:"by"`
	Reason string         `json:"reason"`
	Since  time.Time      `json:"since"`
	Event  events.EventID `json:"event"`
}

// Hold says that nothing is bought from a seller, or from one of its pools.
type Hold struct {
	Seller string         `json:"seller"`
	Pool   *events.Pool   `json:"pool,omitempty"` // absent: the whole seller
	By     string         `json:"by"`
	Reason string         `json:"reason"`
	Since  time.Time      `json:"since"`
	Event  events.EventID `json:"event"`
}

// Seller is one seller with what is held of it.
type Seller struct {
	Name     string `json:"name"`
	Pools    int    `json:"pools"` // that are quoted
	Held     *Hold  `json:"held,omitempty"`
	Holds    int    `json:"holds"`    // of its pools one by one
	Machines int    `json:"machines"` // of ours, as far as they are not ended
}

// Pool is a pool with its newest quote and what holds it, if anything does.
type Pool struct {
	Pool   events.Pool            `json:"pool"`
	Quoted bool                   `json:"quoted"` // the seller quotes it at the moment
	Price  events.PerInstanceHour `json:"price,omitempty"`
	AgeMS  int64                  `json:"age_ms,omitempty"`
	Held   *Hold                  `json:"held,omitempty"` // its own hold or its seller's
}

func (s *Server) opsNow(ctx context.Context) (Ops, error) {
	st, err := s.ops.State(ctx, s.cfg.Org)
	return opsOf(st), err
}

func opsOf(st ops.State) Ops {
	out := Ops{Holds: []Hold{}}
	if f := st.Freeze; f != nil {
		out.Freeze = &Freeze{f.By, f.Reason, f.Since, f.Event}
	}
	for _, h := range st.Holds {
		out.Holds = append(out.Holds, holdOf(h))
	}
	return out
}

func holdOf(h ops.Hold) Hold { return Hold{h.Seller, h.Pool, h.By, h.Reason, h.Since, h.Event} }

// hold holds or releases, one event for each seller or pool. What is so already stays as it is.
func (s *Server) hold(ctx context.Context, who asker, v Verb, r HoldRequest) (Ops, error) {
	reason, err := because(v, r.Reason)
	if err != nil {
		return Ops{}, err
	}
	targets, err := s.targets(r)
	if err != nil {
		return Ops{}, err
	}
	var st ops.State
	for _, t := range targets {
		t.Reason, t.By = reason, who.name
		decide := holding(t)
		if v == DoRelease {
			decide = releasing(t)
		}
		if st, err = s.ops.Append(ctx, s.cfg.Org, decide); err != nil {
			return Ops{}, err
		}
		s.cfg.Logger.Info("buying rules changed", zap.String("verb", string(v)), zap.String("what", named(t)), zap.String("by", who.name), zap.String("reason", reason))
	}
	out := opsOf(st)
	if v == DoHold {
		out.UnderWay, err = s.underWay(ctx, st, func(p events.Pool) bool {
			return slices.ContainsFunc(targets, func(t events.OpsHeld) bool {
				return t.Seller == p.Seller && (t.Pool == nil || *t.Pool == p)
			})
		})
	}
	return out, err
}

func holding(t events.OpsHeld) func(ops.State) (events.Fact, error) {
	return func(st ops.State) (events.Fact, error) {
		if _, held := st.Has(t.Seller, t.Pool); held {
			return nil, nil
		}
		return t, nil
	}
}

func releasing(t events.OpsHeld) func(ops.State) (events.Fact, error) {
	return func(st ops.State) (events.Fact, error) {
		if _, held := st.Has(t.Seller, t.Pool); held {
			return events.OpsReleased(t), nil
		}
		if h, held := st.Has(t.Seller, nil); held && t.Pool != nil {
			return nil, &Problem{
				Code: "conflict", Message: fmt.Sprintf("%s has no hold of its own: seller %s is held: %s (by %s)", named(t), t.Seller, h.Reason, h.By),
				Remedy: fmt.Sprintf("'spotferry seller release %s' releases all of it", t.Seller),
			}
		}
		return nil, nil
	}
}

func named(t events.OpsHeld) string {
	if t.Pool != nil {
		return "pool " + t.Pool.String()
	}
	return "seller " + t.Seller
}

// targets checks what is to be held: one seller, or pools of sellers.
func (s *Server) targets(r HoldRequest) ([]events.OpsHeld, error) {
	var out []events.OpsHeld
	if r.Seller != "" && len(r.Pools) == 0 {
		out = append(out, events.OpsHeld{Seller: r.Seller})
	}
	for _, p := range r.Pools {
		if p.Zone == "" || p.InstanceType == "" || p.Capacity == "" {
			return nil, &Problem{Code: "invalid", Message: fmt.Sprintf("pool %.200q is not named whole: a zone, an instance type and a capacity type are needed", p), Remedy: "'spotferry pool ls' lists pools"}
		}
		out = append(out, events.OpsHeld{Seller: p.Seller, Pool: &p})
	}
	if len(out) == 0 || len(out) > mostHolds {
		return nil, &Problem{Code: "invalid", Message: fmt.Sprintf("one seller, or 1 to %d pools can be named at once, not %d", mostHolds, len(out)), Remedy: "'spotferry pool ls' lists pools"}
	}
	for _, t := range out {
		if _, known := s.cfg.Sellers[t.Seller]; !known {
			return nil, &Problem{Code: "not-found", Message: fmt.Sprintf("no seller is called %.80q", t.Seller), Remedy: "'spotferry seller ls' lists them"}
		}
	}
	return out, nil
}

const mostHolds = 200

func (s *Server) freeze(ctx context.Context, who asker, r FreezeRequest) (Ops, error) {
	reason, err := because(DoFreeze, r.Reason)
	if err != nil {
		return Ops{}, err
	}
	st, err := s.ops.Append(ctx, s.cfg.Org, func(st ops.State) (events.Fact, error) {
		if st.Freeze != nil {
			return nil, nil
		}
		return events.OpsFrozen{Reason: reason, By: who.name}, nil
	})
	if err != nil {
		return Ops{}, err
	}
	s.cfg.Logger.Warn("frozen: nothing is bought", zap.String("by", who.name), zap.String("reason", reason))
	out := opsOf(st)
	out.UnderWay, err = s.underWay(ctx, st, func(events.Pool) bool { return true })
	return out, err
}

// unfreeze ends a freeze: one's own, or with the role of an admin any.
func (s *Server) unfreeze(ctx context.Context, who asker, r FreezeRequest) (Ops, error) {
	reason, err := because(DoUnfreeze, r.Reason)
	if err != nil {
		return Ops{}, err
	}
	st, err := s.ops.Append(ctx, s.cfg.Org, func(st ops.State) (events.Fact, error) {
		switch {
		case st.Freeze == nil:
			return nil, nil
		case st.Freeze.By != who.name && !who.role.May(Admin):
			return nil, forbidden(who, fmt.Sprintf("ending the freeze of %s (%s)", st.Freeze.By, st.Freeze.Reason), Admin)
		}
		return events.OpsUnfrozen{Reason: reason, By: who.name}, nil
	})
	if err != nil {
		return Ops{}, err
	}
	s.cfg.Logger.Info("unfrozen", zap.String("by", who.name), zap.String("reason", reason))
	return opsOf(st), nil
}

// underWay lists purchases that stood before a decision and are open still. The
// read model is waited for: every intent before the decision is in it then.
func (s *Server) underWay(ctx context.Context, st ops.State, of func(events.Pool) bool) ([]events.LeaseID, error) {
	if !s.model.await(ctx, st.Position()) {
		return nil, ctx.Err()
	}
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	var out []events.LeaseID
	for _, l := range s.model.leases {
		if (l.state == "intended" || l.state == "unknown") && of(l.in.Offer.Pool) {
			out = append(out, l.id)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (s *Server) sellers(ctx context.Context) ([]Seller, error) {
	st, err := s.ops.State(ctx, s.cfg.Org)
	if err != nil {
		return nil, err
	}
	by := map[string]*Seller{}
	at := func(name string) *Seller {
		if by[name] == nil {
			by[name] = &Seller{Name: name}
		}
		return by[name]
	}
	for name := range s.cfg.Sellers {
		at(name)
	}
	for _, o := range s.cfg.Offers() {
		at(o.Pool.Seller).Pools++
	}
	for _, h := range st.Holds {
		if h.Pool != nil {
			at(h.Seller).Holds++
			continue
		}
		whole := holdOf(h)
		at(h.Seller).Held = &whole
	}
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	for _, l := range s.model.leases {
		if l.state == "launched" || l.state == "terminating" {
			at(l.in.Offer.Pool.Seller).Machines++
		}
	}
	out := make([]Seller, 0, len(by))
	for _, v := range by {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b Seller) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// pools lists what is quoted, and what is held although nobody quotes it.
func (s *Server) pools(ctx context.Context) ([]Pool, error) {
	st, err := s.ops.State(ctx, s.cfg.Org)
	if err != nil {
		return nil, err
	}
	out := []Pool{}
	quoted := map[events.Pool]bool{}
	for _, o := range s.cfg.Offers() {
		p := Pool{Pool: o.Pool, Quoted: true, Price: o.Price, AgeMS: o.AgeMS}
		if h, held := st.Held(o.Pool); held {
			v := holdOf(h)
			p.Held = &v
		}
		quoted[o.Pool] = true
		out = append(out, p)
	}
	for _, h := range st.Holds {
		if h.Pool != nil && !quoted[*h.Pool] {
			v := holdOf(h)
			out = append(out, Pool{Pool: *h.Pool, Held: &v})
		}
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Pool.String(), b.Pool.String()) })
	return out, nil
}
