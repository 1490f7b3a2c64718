package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// FailoverStats is how long moves took and what they lost, in all and by something.
type FailoverStats struct {
	By   string         `json:"by"` // "seller", "cause" or "pool"
	Rows []FailoverStat `json:"rows"`
	All  FailoverStat   `json:"all"`
}

// FailoverStat are the figures of some failovers. A quantile is the least time that so
// many of them did not exceed: a time that one of them took.
type FailoverStat struct {
	Key       string          `json:"key"`
	Count     int             `json:"count"`
	Noticed   int             `json:"noticed"` // of them
	Took      Quantiles       `json:"took"`
	LostSteps int64           `json:"lost_steps"`
	LostMS    int64           `json:"lost_ms"`
	LostCost  events.MicroUSD `json:"lost_cost"`
	Phases    []PhaseStat     `json:"phases,omitempty"` // in the order in which a move goes through them
}

// PhaseStat are the figures of one phase, of the moves that had it.
type PhaseStat struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Quantiles
}

// Quantiles of times, in milliseconds.
type Quantiles struct {
	P50 int64 `json:"p50_ms"`
	P95 int64 `json:"p95_ms"`
	Max int64 `json:"max_ms"`
}

// failoverStats are those of the failovers that q asks for. A move counts for the
// seller, and the pool, that it left.
func (s *Server) failoverStats(q FailoverQuery) (FailoverStats, error) {
	key, err := grouping(cmp.Or(q.By, "seller"))
	if err != nil {
		return FailoverStats{}, err
	}
	list, err := s.failovers(q)
	if err != nil {
		return FailoverStats{}, err
	}
	groups := map[string][]Failover{}
	for _, f := range list {
		groups[key(f)] = append(groups[key(f)], f)
	}
	out := FailoverStats{By: cmp.Or(q.By, "seller"), Rows: []FailoverStat{}, All: statOf("", list)}
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		out.Rows = append(out.Rows, statOf(k, groups[k]))
	}
	return out, nil
}

func grouping(by string) (func(Failover) string, error) {
	switch by {
	case "seller":
		return func(f Failover) string { return f.Record.From.Pool.Seller }, nil
	case "cause":
		return func(f Failover) string { return string(f.Cause) }, nil
	case "pool":
		return func(f Failover) string { return f.Record.From.Pool.String() }, nil
	}
	return nil, &Problem{Code: "invalid", Message: fmt.Sprintf("failovers cannot be counted by %.40q", by), Remedy: "give seller, cause or pool"}
}

func statOf(key string, list []Failover) FailoverStat {
	s := FailoverStat{Key: key, Count: len(list)}
	var took []time.Duration
	phases := map[string][]time.Duration{}
	for _, f := range list {
		took = append(took, f.Took())
		s.LostSteps += f.Record.LostSteps
		s.LostMS += f.Record.LostMS
		s.LostCost += f.Record.LostCost
		if f.Record.Noticed {
			s.Noticed++
		}
		for _, name := range Phases() {
			if d, ok := f.Phase(name); ok {
				phases[name] = append(phases[name], d)
			}
		}
	}
	s.Took = quantiles(took)
	for _, name := range Phases() {
		if d := phases[name]; len(d) > 0 {
			s.Phases = append(s.Phases, PhaseStat{name, len(d), quantiles(d)})
		}
	}
	return s
}

func quantiles(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	at := func(pct int) int64 { return d[max(0, (len(d)*pct+99)/100-1)].Milliseconds() }
	return Quantiles{P50: at(50), P95: at(95), Max: at(100)}
}
