package providertest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// buy makes one machine for token, or finds the one it names. f.mu is held.
func (f *Fake) buy(c call, spec provider.LaunchSpec, token string) (events.InstanceID, error) {
	if old := f.byToken[token]; old != nil {
		if !sameSpec(old.spec, spec) {
			return "", c.refusal(provider.Conflict, fmt.Sprintf("token %q was used with another request", token))
		}
		return old.ID, nil
	}
	p, err := f.sell(c, spec, token)
	if err != nil {
		return "", err
	}
	m := f.make(p, spec, token, "")
	f.byToken[token] = m
	if c.Mode == Duplicate {
		f.make(p, spec, token, "-again")
	}
	return m.ID, nil
}

// sell says from which pool, or why not.
func (f *Fake) sell(c call, spec provider.LaunchSpec, token string) (*pool, error) {
	no := func(k provider.Kind, format string, args ...any) error {
		e := c.refusal(k, fmt.Sprintf(format, args...))
		if e.Scope == "pool" {
			e.Pool = &spec.Pool
		}
		return e
	}
	if err := events.CheckToken("token", token); err != nil {
		return nil, no(provider.Invalid, "%v", err)
	}
	if spec.MaxPrice <= 0 {
		return nil, no(provider.Invalid, "max_price is %s; name the most that may be paid", spec.MaxPrice)
	}
	p := f.pools[spec.Pool]
	switch {
	case p == nil:
		return nil, no(provider.OfferGone, "nothing is sold in %s", spec.Pool)
	case spec.MaxPrice < p.offer.Price:
		return nil, no(provider.PriceTooLow, "the market stands at %s", p.offer.Price)
	case p.stock == 0:
		return nil, no(provider.NoCapacity, "none left")
	case f.cfg.Quota > 0 && f.alive() >= f.cfg.Quota:
		return nil, no(provider.Quota, "%d machines is the account's limit", f.cfg.Quota)
	}
	return p, nil
}

func sameSpec(a, b provider.LaunchSpec) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func (f *Fake) alive() int {
	n := 0
	for _, m := range f.machines {
		if m.State != provider.Gone && !m.alien {
			n++
		}
	}
	return n
}

func (f *Fake) make(p *pool, spec provider.LaunchSpec, token, suffix string) *machine {
	spec.UserData = bytes.Clone(spec.UserData)
	spec.Labels = cloneLabels(spec.Labels)
	if p.stock > 0 {
		p.stock--
	}
	m := &machine{spec: spec, from: f.now, bid: spec.MaxPrice, Instance: provider.Instance{
		ID: f.instanceID(token + suffix), Token: token, Pool: spec.Pool, State: provider.Pending,
		Started: f.now.Market, Terms: p.offer.Terms, Labels: spec.Labels,
		Prices: []events.PriceFrom{{From: f.now.Market, Price: p.offer.Price}},
	}}
	f.machines[m.ID] = m
	if f.cfg.OnLaunch != nil {
		born := m.copy()
		f.told = append(f.told, func() { f.cfg.OnLaunch(born, spec) })
	}
	f.schedule(f.now.Control.Add(f.cfg.Boot), func() {
		if m.State == provider.Pending {
			m.State = provider.Running
		}
	})
	return m
}

// instanceID is random to look at and the same for the same token.
func (f *Fake) instanceID(token string) events.InstanceID {
	h := sha256.Sum256([]byte(f.cfg.Seller + "\x00" + token))
	return events.InstanceID("i-" + hex.EncodeToString(h[:8]))
}

// stop begins a termination that we asked for.
func (f *Fake) stop(m *machine) {
	if m == nil || m.State == provider.Gone || m.State == provider.Stopping {
		if m != nil {
			m.Remains = false
		}
		return
	}
	if m.alien {
		f.foreign++
	}
	if f.cfg.Stop == 0 {
		f.end(m, "us")
		return
	}
	m.State = provider.Stopping
	f.schedule(f.now.Control.Add(f.cfg.Stop), func() { f.end(m, "us") })
}

// end is the only place where a machine is gone.
func (f *Fake) end(m *machine, by string) {
	if m == nil || m.State == provider.Gone {
		return
	}
	m.was, m.State = m.State, provider.Gone
	m.to, m.Ended, m.EndedBy, m.Remains = f.now, f.now.Market, by, f.leaves && by != "us"
	if p := f.pools[m.Pool]; p != nil && p.stock >= 0 && by != "seller" {
		p.stock++ // a machine given back can be sold again; one taken back went to someone else
	}
	if f.cfg.OnEnd != nil {
		dead := m.copy()
		f.told = append(f.told, func() { f.cfg.OnEnd(dead) })
	}
}

// shown is the instance as lists have it at this moment.
func (f *Fake) shown(m *machine) (provider.Instance, bool) {
	now := f.now.Control
	if m.unshown || now.Before(m.from.Control.Add(f.cfg.Visible)) {
		return provider.Instance{}, false
	}
	i := m.copy()
	if m.State != provider.Gone {
		return i, true
	}
	if now.Before(m.to.Control.Add(f.cfg.EndVisible)) {
		i.State, i.Ended, i.EndedBy, i.Remains = m.was, time.Time{}, "", false
	}
	return i, now.Before(m.to.Control.Add(f.cfg.Memory))
}

func (f *Fake) sortedMachines() []*machine {
	out := make([]*machine, 0, len(f.machines))
	for _, m := range f.machines {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *machine) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (f *Fake) sortedPools() []*pool {
	out := make([]*pool, 0, len(f.pools))
	for _, p := range f.pools {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *pool) int {
		x, y := a.offer.Pool, b.offer.Pool
		return cmp.Or(
			cmp.Compare(x.Region, y.Region), cmp.Compare(x.Zone, y.Zone), cmp.Compare(x.InstanceType, y.InstanceType),
			cmp.Compare(x.Capacity, y.Capacity), cmp.Compare(x.Gang, y.Gang), cmp.Compare(x.Seller, y.Seller),
		)
	})
	return out
}
