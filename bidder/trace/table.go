package trace

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// Table is a market written out by hand, for drills and tests that want one
// thing to happen and nothing else.
type Table struct {
	List []TablePool `json:"pools"`
}

// TablePool is one pool of a Table.
type TablePool struct {
	Info   PoolInfo           `json:"info"`
	Prices []events.PriceFrom `json:"prices"` // oldest first; the first holds from ever
	Empty  []Span             `json:"empty,omitempty"`
	Fates  []Fate             `json:"fates,omitempty"` // the first that fits is the machine's
}

// Span is a stretch of market time, without its end.
type Span struct {
	From  time.Time `json:"market_from"`
	Until time.Time `json:"market_until"`
}

// Fate is what happens to a machine, by its age.
type Fate struct {
	Key  string        `json:"key,omitempty"` // whose; empty: anyone's
	Age  time.Duration `json:"age"`           // market time
	What Reclaim       `json:"what"`          // At is filled in
	Then *Fate         `json:"then,omitempty"`
}

func (t *Table) pool(p events.Pool) (TablePool, bool) {
	for _, tp := range t.List {
		if tp.Info.Offer.Pool == p {
			return tp, true
		}
	}
	return TablePool{}, false
}

// Pools implements Market.
func (t *Table) Pools() []PoolInfo {
	var out []PoolInfo
	for _, p := range t.List {
		out = append(out, p.Info)
	}
	return out
}

// Price implements Market.
func (t *Table) Price(p events.Pool, market time.Time) Quote {
	tp, _ := t.pool(p)
	var q Quote
	for i, pf := range tp.Prices {
		if i > 0 && pf.From.After(market) {
			q.Until = pf.From
			break
		}
		q = Quote{Price: pf.Price, From: pf.From}
	}
	return q
}

// InStock implements Market.
func (t *Table) InStock(p events.Pool, market time.Time) bool {
	tp, ok := t.pool(p)
	for _, s := range tp.Empty {
		ok = ok && (market.Before(s.From) || !market.Before(s.Until))
	}
	return ok
}

// NextChange implements Market.
func (t *Table) NextChange(p events.Pool, market time.Time) time.Time {
	tp, _ := t.pool(p)
	next := t.Price(p, market).Until
	for _, s := range tp.Empty {
		for _, c := range []time.Time{s.From, s.Until} {
			if c.After(market) {
				next = earliest(next, c)
			}
		}
	}
	return next
}

// Reclaims implements Market.
func (t *Table) Reclaims(p events.Pool, key string, launched time.Time) []Reclaim {
	if !p.Capacity.Reclaimable() {
		return nil
	}
	tp, _ := t.pool(p)
	for _, f := range tp.Fates {
		if f.Key == "" || f.Key == key {
			return f.reclaims(launched)
		}
	}
	return nil
}

func (f Fate) reclaims(launched time.Time) []Reclaim {
	r := f.What
	r.At = launched.Add(f.Age)
	if r.Drawn == "" {
		r.Drawn = ByAge
	}
	out := []Reclaim{r}
	if f.Then != nil {
		out = append(out, f.Then.reclaims(launched)...)
	}
	return out
}
